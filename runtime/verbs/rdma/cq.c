/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion queues, completion channels and asynchronous events by libibverbs.
 */
#include <stdatomic.h>

#include "verbs/rdma/internal.h"

int mpib_rdma_create_channel(struct ibv_context *ctx,
			     struct ibv_comp_channel **ch)
{
	struct ibv_comp_channel *c;

	errno = 0;
	c = ibv_create_comp_channel(ctx);
	if (!c)
		return mpib_rdma_err();
	*ch = c;
	return 0;
}

int mpib_rdma_destroy_channel(struct ibv_comp_channel *ch)
{
	return -ibv_destroy_comp_channel(ch);
}

/* CQs take turns on the device's completion vectors, so that the interrupts of
 * shards go to different CPUs. Without one, or in a channel's absence, 0. */
static int next_vector(const struct ibv_context *ctx)
{
	static atomic_uint next;

	if (ctx->num_comp_vectors < 2)
		return 0;
	/* Relaxed: a number like any other. */
	return (int)(atomic_fetch_add_explicit(&next, 1, memory_order_relaxed) %
		     (unsigned)ctx->num_comp_vectors);
}

int mpib_rdma_create_cq(struct ibv_context *ctx, int cqe, void *cq_context,
			struct ibv_comp_channel *ch, struct ibv_cq **cq)
{
	struct ibv_cq *c;

	errno = 0;
	c = ibv_create_cq(ctx, cqe, cq_context, ch, next_vector(ctx));
	if (!c)
		return mpib_rdma_err();
	*cq = c;
	return 0;
}

int mpib_rdma_destroy_cq(struct ibv_cq *cq)
{
	return -ibv_destroy_cq(cq);
}

bool mpib_rdma_disarm_cq(struct ibv_cq *cq, bool spoke)
{
	(void)cq; /* armed, it makes one event at most */
	return spoke;
}

int mpib_rdma_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq,
			   void **cq_context)
{
	return ibv_get_cq_event(ch, cq, cq_context) ? mpib_rdma_err() : 0;
}

int mpib_rdma_get_async_event(struct ibv_context *ctx,
			      struct ibv_async_event *ev)
{
	return ibv_get_async_event(ctx, ev) ? mpib_rdma_err() : 0;
}
