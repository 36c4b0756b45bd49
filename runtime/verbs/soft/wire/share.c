/* SPDX-License-Identifier: Apache-2.0 */
/*
 * While several protection domains use a thread's devices, a turn of a device
 * serves one socket of each. A turn's completions are shown when all of its
 * socket operations are done, so what one domain moves in a turn all others wait
 * for. Its other sockets wait for later turns and gather more meanwhile: fewer
 * operations move the same bytes. A domain alone has all of the turn.
 *
 * Who moves little comes first, as in fq_codel (RFC 8290) who is new: while
 * such a domain has an operation in a turn, those that move much wait for the
 * next one. And they rest in each turn that follows one of theirs, so that a
 * thread with several devices is on to the next one sooner.
 *
 * It is the thread that is shared, not the device: who waits for a turn waits for
 * those of all devices that the thread turns, be it that he uses only one.
 */
#include "verbs/soft/ctx.h"
#include "verbs/soft/mr.h"
#include "verbs/soft/qp.h"
#include "verbs/soft/wire/conn.h"

/* A thread counts as shared for so many turns of its devices after one changed
 * between domains: who waits for its peer moves nothing meanwhile. */
#define LATELY 131072

/* A domain moves little as long as it moves no more than this many bytes a turn,
 * with what is saved up in 16 turns. */
#define LITTLE INT64_C(256)
#define SAVED (16 * LITTLE)

static _Thread_local struct {
	uint64_t turns, shared_until;
} mine;

void soft_share_begin(struct soft_ctx *ctx)
{
	ctx->shared = ++mine.turns < mine.shared_until;
}

static bool moves_little(const struct soft_ctx *ctx, struct soft_pd *pd)
{
	uint64_t turns = ctx->turn - pd->grown;

	pd->grown = ctx->turn;
	pd->credit += turns < 2 * SAVED / LITTLE ? (int64_t)turns * LITTLE
						 : 2 * SAVED;
	if (pd->credit > SAVED)
		pd->credit = SAVED;
	return pd->credit > 0;
}

bool soft_share_over(const struct soft_conn *conn)
{
	const struct soft_ctx *ctx = conn->ctx;
	struct soft_pd *pd;

	if (!ctx->shared || !conn->qp)
		return false;
	pd = conn->qp->pd;
	if (pd->turn == ctx->turn)
		return true;
	return !moves_little(ctx, pd) &&
	       (ctx->little || pd->turn + 1 == ctx->turn);
}

/* Not in two turns on end: all are served in list order then, however many they
 * are who move little. */
bool soft_share_may_give_way(const struct soft_ctx *ctx)
{
	return ctx->gave_way + 1 != ctx->turn;
}

bool soft_share_gives_way(struct soft_ctx *ctx)
{
	if (ctx->nops)
		ctx->gave_way = ctx->turn;
	return ctx->gave_way == ctx->turn;
}

void soft_share_take(struct soft_ctx *ctx, struct soft_pd *pd)
{
	if (ctx->served && ctx->served != pd)
		mine.shared_until = mine.turns + LATELY;
	ctx->served = pd;
	pd->turn = ctx->turn;
}

static void share_charge(const struct soft_ctx *ctx, struct soft_pd *pd,
			 int bytes)
{
	moves_little(ctx, pd);
	pd->credit -= bytes;
	if (pd->credit < -SAVED)
		pd->credit = -SAVED;
}

void soft_share_pay(const struct soft_ctx *ctx)
{
	for (unsigned i = 0; i < ctx->nops; i++) {
		const struct soft_op *op = &ctx->ops[i];

		if (op->res > 0 && op->conn->qp)
			share_charge(ctx, op->conn->qp->pd, op->res);
	}
}
