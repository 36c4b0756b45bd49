/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creation and destruction of completion queues.
 */
#include <errno.h>
#include <stdlib.h>

#include "verbs/soft/cq.h"
#include "verbs/soft/ctx.h"
#include "verbs/soft/event.h"

static uint32_t round_up(uint32_t n)
{
	uint32_t size = 1;

	while (size < n)
		size *= 2;
	return size;
}

int soft_create_cq(struct ibv_context *c, int cqe, void *cq_context,
		   struct ibv_comp_channel *ch, struct ibv_cq **out)
{
	struct soft_ctx *ctx = to_ctx(c);
	struct soft_cq *cq;
	uint32_t size;

	if (soft_is_gone(ctx))
		return -EIO;
	if (cqe < 1 || cqe > ctx->limits.dev.max_cqe)
		return -EINVAL;
	if (ctx->ncqs >= (unsigned)ctx->limits.dev.max_cq)
		return -ENOMEM;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -ENOMEM;
	size = round_up((uint32_t)cqe);
	cq->ring = calloc(size, sizeof(*cq->ring));
	if (!cq->ring) {
		free(cq);
		return -ENOMEM;
	}
	cq->mask = size - 1;
	cq->ev.element = &cq->ibv;
	cq->ibv.context = c;
	cq->ibv.channel = ch;
	cq->ibv.cq_context = cq_context;
	cq->ibv.cqe = (int)size;
	pthread_mutex_init(&cq->poll_lock, NULL);
	pthread_mutex_init(&cq->ibv.mutex, NULL);
	pthread_cond_init(&cq->ibv.cond, NULL);

	soft_lock(ctx);
	ctx->ncqs++;
	if (ch)
		ch->refcnt++;
	soft_unlock(ctx);
	*out = &cq->ibv;
	return 0;
}

int soft_destroy_cq(struct ibv_cq *c)
{
	struct soft_ctx *ctx = to_ctx(c->context);
	struct soft_cq *cq = to_cq(c);

	soft_lock(ctx);
	if (cq->refs) {
		soft_unlock(ctx);
		return -EBUSY;
	}
	ctx->ncqs--;
	soft_unlock(ctx);
	soft_disarm_cq(c, false);

	if (c->channel)
		soft_channel_forget((struct soft_channel *)c->channel, cq);
	soft_events_drain(ctx, &cq->ev);
	if (c->channel) {
		soft_lock(ctx);
		c->channel->refcnt--;
		soft_unlock(ctx);
	}
	pthread_cond_destroy(&c->cond);
	pthread_mutex_destroy(&c->mutex);
	pthread_mutex_destroy(&cq->poll_lock);
	free(cq->ring);
	free(cq);
	return 0;
}
