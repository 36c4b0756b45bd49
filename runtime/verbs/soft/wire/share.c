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
 * thread with several devices is on to the next one sooner. While one who moves
 * little was there lately they rest on all devices, until that of their last
 * operation has had a turn without: one of each at most is then between two turns
 * of a device, and it is shorter, since nothing cuts it off once it has begun. The
 * device that has rested for longest comes next, whatever the order of turns.
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

/* Turns of the thread's devices for which who moved little counts as there: a peer's
 * answer takes a few. Each such message costs the others that much, and no more. */
#define LITTLE_LATELY 128
/* Who had an operation of this many bytes moves much for so many turns of the device,
 * whatever it moves: its peers' answers are small. Shorter ones are waited for. */
#define MUCH (32 << 10)
#define MUCH_LATELY 16384
/* The others rest no longer, if that device has no turn. */
#define REST_MOST 64

static _Thread_local struct {
	uint64_t turns, shared_until, little_until;
	uint64_t much_at; /* turn of the last operation of who moves much */
	uint64_t rest_until;
	uint64_t waits; /* much_at of the device that has rested for longest */
} mine = { .waits = UINT64_MAX };

/* One that rests and whose last operation is older comes first: else two devices
 * whose turns keep step, and of which one rests at each chance, stay so for ever. */
static bool rests(const struct soft_ctx *ctx)
{
	return mine.turns <= mine.rest_until ||
	       (ctx->much_at > mine.waits &&
		mine.turns <= mine.much_at + REST_MOST);
}

void soft_share_begin(struct soft_ctx *ctx)
{
	bool little = ++mine.turns < mine.little_until;

	if (ctx->much_at > mine.turns)
		ctx->much_at = 0; /* another thread's, which had more turns */
	ctx->shared = mine.turns < mine.shared_until;
	ctx->rest = little && rests(ctx);
	ctx->most = !ctx->shared ? SOFT_OP_BYTES
		    : little	 ? SOFT_LITTLE_BYTES
				 : SOFT_SHARED_BYTES;
	if (ctx->much_at == mine.much_at)
		mine.rest_until = mine.turns;
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

static bool moved_much(const struct soft_ctx *ctx, const struct soft_pd *pd)
{
	return ctx->turn <= pd->much_until;
}

bool soft_share_over(const struct soft_conn *conn)
{
	const struct soft_ctx *ctx = conn->ctx;
	struct soft_pd *pd;
	bool little, much;

	if (!ctx->shared || !conn->qp)
		return false;
	pd = conn->qp->pd;
	if (pd->turn == ctx->turn)
		return true;
	little = moves_little(ctx, pd);
	much = moved_much(ctx, pd);
	if (ctx->rest && much) {
		if (ctx->much_at < mine.waits)
			mine.waits = ctx->much_at;
		return true;
	}
	if (!little && (ctx->little || pd->turn + 1 == ctx->turn))
		return true;
	if (much)
		mine.waits = UINT64_MAX;
	return false;
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
	if (moved_much(ctx, pd)) {
		mine.much_at = ctx->much_at = mine.turns;
		mine.rest_until = mine.turns + REST_MOST;
	}
}

static void share_charge(const struct soft_ctx *ctx, struct soft_pd *pd,
			 int bytes)
{
	moves_little(ctx, pd);
	pd->credit -= bytes;
	if (pd->credit < -SAVED)
		pd->credit = -SAVED;
	if (bytes >= MUCH)
		pd->much_until = ctx->turn + MUCH_LATELY;
	else if (pd->credit > 0 && !moved_much(ctx, pd))
		mine.little_until = mine.turns + LITTLE_LATELY;
}

void soft_share_pay(const struct soft_ctx *ctx)
{
	for (unsigned i = 0; i < ctx->nops; i++) {
		const struct soft_op *op = &ctx->ops[i];

		if (op->res > 0 && op->conn->qp)
			share_charge(ctx, op->conn->qp->pd, op->res);
	}
}
