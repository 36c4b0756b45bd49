/* SPDX-License-Identifier: Apache-2.0 */
/* Injected faults of a port; random ones are drawn from a seed. */
#include "verbs/soft/ctx.h"

#include "verbs/soft/event.h"
#include "verbs/soft/qp.h"
#include "verbs/soft/soft.h"
#include "verbs/soft/wire/conn.h"

static uint64_t fault_rand(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* What a connection left undone while nothing passed is done now. */
static void fault_look_again(struct soft_ctx *ctx)
{
	for (uint32_t i = 0; i < ctx->conn_size; i++) {
		if (ctx->conn_tab[i])
			soft_conn_ready(ctx->conn_tab[i]);
	}
}

static bool fault_meets(const struct soft_qp *qp)
{
	uint32_t only = qp->ctx->fault.only;

	return !only || qp->peer_addr.s_addr == only;
}

bool soft_fault_holes(const struct soft_qp *qp)
{
	return qp && qp->ctx->fault.black_hole && fault_meets(qp);
}

bool soft_fault_slow(struct soft_qp *qp)
{
	const struct mpib_soft_fault *f = &qp->ctx->fault;
	bool slow = f->delay_turns || (f->delay_ns && fault_meets(qp));

	if (!slow)
		qp->hold_until = 0; /* of a fault that is over */
	return slow;
}

uint32_t mpib_soft_peer(const struct ibv_qp *qp)
{
	return ((const struct soft_qp *)qp)->peer_addr.s_addr;
}

int mpib_soft_set_fault(struct ibv_context *c,
			const struct mpib_soft_fault *fault)
{
	struct soft_ctx *ctx = to_ctx(c);

	soft_lock(ctx);
	if (fault->seed != ctx->fault.seed)
		ctx->rng = fault->seed;
	if (!fault->link_down != !ctx->fault.link_down)
		soft_port_event(ctx);
	ctx->fault = *fault;
	if (!fault->late)
		soft_late_place(ctx);
	ctx->paused = fault->link_down || (fault->black_hole && !fault->only);
	fault_look_again(ctx);
	ctx->rate_at = mpib_now_ns(); /* no credit for the time before */
	if (fault->gone)
		soft_die(ctx);
	soft_unlock(ctx);
	return 0;
}

bool soft_fault_hold(struct soft_qp *qp)
{
	struct soft_ctx *ctx = qp->ctx;
	bool by_time = ctx->fault.delay_ns;
	uint64_t now = by_time ? mpib_now_ns() : ctx->turn;

	if (!qp->hold_until && by_time)
		qp->hold_until = now + ctx->fault.delay_ns;
	else if (!qp->hold_until)
		qp->hold_until =
			now + fault_rand(&ctx->rng) %
				      ((uint64_t)ctx->fault.delay_turns + 1);
	if (now < qp->hold_until)
		return true;
	qp->hold_until = 0;
	return false;
}

bool soft_fault_drops(struct soft_ctx *ctx)
{
	return ctx->fault.drop_at && !--ctx->fault.drop_at;
}
