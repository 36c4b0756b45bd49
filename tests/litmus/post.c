/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A WR is posted to the software HCA while its context's thread goes to sleep.
 * This program tests soft_bell(), soft_nudge() and soft_bells_drain() of
 * runtime/verbs/soft/turn.c. The sleepers are counted as in sleep_until_work()
 * of soft_thread.c, but without the lock, because the lock alone would order
 * the sleeper's side. With WITHOUT_TELL, the QP is pushed on the stack by a
 * load and a store. With WITHOUT_DOZE, the sleepers are counted by a load and a
 * store.
 */
#include "verbs/soft/ctx.h"
#include "verbs/soft/qp.h"
#include "verbs/soft/wire/rc.h"
#include "verbs/soft/wire/soft_conn.h"

#include "litmus.h"

static struct place {
	struct soft_ctx ctx;
	struct soft_qp qp;
	_Alignas(64) bool kicked;
	_Alignas(64) bool seen;
} place[LITMUS_PLACES];

static void kick(struct mpib_bell *bell)
{
	container_of(bell, struct place, ctx.kick)->kicked = true;
}

static void start(struct soft_qp *qp)
{
	container_of(qp, struct place, qp)->seen = true;
}

#define mpib_bell_ring(bell) kick(bell)
#define soft_tx_start(qp) start(qp)
#ifdef WITHOUT_TELL
#undef atomic_compare_exchange_weak
#define atomic_compare_exchange_weak(p, expected, to)                          \
	((void)(expected), atomic_store_explicit(p, to, memory_order_release), \
	 true)
#endif
#include "../../runtime/verbs/soft/turn.c" // NOLINT(bugprone-suspicious-include)

static void renew(unsigned i)
{
	struct place *p = &place[i];

	atomic_store(&p->ctx.bell, NULL);
	atomic_store(&p->ctx.sleepers, 0);
	atomic_store(&p->qp.belled, 0);
	p->qp.ctx = &p->ctx;
	p->kicked = p->seen = false;
}

static void tell(unsigned i)
{
	soft_bell(&place[i].qp);
}

static void doze(unsigned i)
{
	litmus_count(&place[i].ctx.sleepers);
	soft_bells_drain(&place[i].ctx);
}

static bool lost(unsigned i)
{
	return !place[i].kicked && !place[i].seen;
}

int main(void)
{
	const struct litmus l = { renew, tell, doze, lost };

	return litmus(&l, LITMUS_WHOLE);
}
