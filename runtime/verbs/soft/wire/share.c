/* SPDX-License-Identifier: Apache-2.0 */
/*
 * While several protection domains use the device, a turn serves one socket of
 * each. A turn's completions are shown when all of its socket operations are
 * done, so what one domain moves in a turn all others wait for. Its other
 * sockets wait for later turns and gather more meanwhile: fewer operations move
 * the same bytes. A domain alone has all of the turn.
 */
#include "verbs/soft/ctx.h"
#include "verbs/soft/mr.h"
#include "verbs/soft/qp.h"
#include "verbs/soft/wire/conn.h"

/* A device counts as shared for so many turns after it changed between domains:
 * who waits for its peer moves nothing meanwhile. */
#define LATELY 65536

bool soft_share_over(const struct soft_conn *conn)
{
	const struct soft_ctx *ctx = conn->ctx;

	return soft_is_shared(ctx) && conn->qp &&
	       conn->qp->pd->turn == ctx->turn;
}

void soft_share_take(struct soft_ctx *ctx, struct soft_pd *pd)
{
	if (ctx->served && ctx->served != pd)
		ctx->shared_until = ctx->turn + LATELY;
	ctx->served = pd;
	pd->turn = ctx->turn;
}
