/* SPDX-License-Identifier: Apache-2.0 */
#include "placement.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "verbs/soft/ctx.h"
#include "verbs/soft/mr.h"
#include "verbs/soft/qp.h"

#define DEVICES 4

/* A range that a WRITE has written, and its bytes, which are not in memory
 * yet. */
struct held {
	TAILQ_ENTRY(held) link;
	const struct ibv_context *ctx;
	uint8_t *to;
	uint64_t len;
	uint8_t bytes[];
};

static TAILQ_HEAD(, held) all = TAILQ_HEAD_INITIALIZER(all);
static struct device {
	const struct ibv_context *ctx;
	enum placement how;
} devices[DEVICES];

static enum placement placement_of(const struct ibv_context *ctx)
{
	for (unsigned i = 0; i < DEVICES; i++) {
		if (devices[i].ctx == ctx)
			return devices[i].how;
	}
	return PLACED;
}

/* Copy the bytes that device `ctx` holds back to memory, or drop them. NULL
 * means all devices. */
static void release(const struct ibv_context *ctx, bool place)
{
	struct held *h, *next;

	for (h = TAILQ_FIRST(&all); h; h = next) {
		next = TAILQ_NEXT(h, link);
		if (ctx && h->ctx != ctx)
			continue;
		TAILQ_REMOVE(&all, h, link);
		if (place)
			memcpy(h->to, h->bytes, h->len);
		free(h);
	}
}

void placement_set(struct ibv_context *ctx, enum placement how)
{
	if (placement_of(ctx) == LATE && how == PLACED)
		release(ctx, true);
	for (unsigned i = 0; i < DEVICES; i++) {
		if (devices[i].ctx && devices[i].ctx != ctx)
			continue;
		devices[i] = (struct device){ ctx, how };
		return;
	}
	fail_msg("more than %u devices", DEVICES);
}

bool placement_waits(const struct ibv_context *ctx)
{
	const struct held *h;

	TAILQ_FOREACH(h, &all, link)
	{
		if (h->ctx == ctx)
			return true;
	}
	return false;
}

void placement_end(void)
{
	release(NULL, false);
	memset(devices, 0, sizeof(devices));
}

/* Return a buffer for the bytes that are written to [`to`, `to` + `len`). They
 * stay in this buffer until release() copies them to the range. */
static uint8_t *hold(const struct ibv_context *ctx, uint8_t *to, uint64_t len)
{
	struct held *h;

	TAILQ_FOREACH(h, &all, link)
	{
		if (h->ctx == ctx && to >= h->to && to + len <= h->to + h->len)
			return h->bytes + (to - h->to);
	}
	h = malloc(sizeof(*h) + len);
	assert_non_null(h);
	h->ctx = ctx;
	h->to = to;
	h->len = len;
	memcpy(h->bytes, to, len);
	TAILQ_INSERT_TAIL(&all, h, link);
	return h->bytes;
}

WRAPS(uint8_t *, soft_mr_remote, struct soft_ctx *ctx, struct soft_pd *pd,
      uint32_t rkey, uint64_t addr, uint64_t len, int access)
{
	const struct ibv_context *c = &ctx->vctx.context;
	uint8_t *to = __real_soft_mr_remote(ctx, pd, rkey, addr, len, access);
	enum placement how = placement_of(c);

	if (!to || how == PLACED)
		return to;
	if (access & IBV_ACCESS_REMOTE_READ) {
		release(c, how == LATE);
		return to;
	}
	if (how == LATE && !__real_soft_mr_remote(ctx, pd, rkey, addr, len,
						  IBV_ACCESS_REMOTE_READ))
		return to;
	return hold(c, to, len);
}

/* If the device is FORGOTTEN, return true without taking a receive, so that a
 * WRITE_WITH_IMM causes no completion. */
WRAPS(bool, soft_recv_take, struct soft_qp *qp)
{
	return (qp->srq && placement_of(&qp->ctx->vctx.context) == FORGOTTEN) ||
	       __real_soft_recv_take(qp);
}
