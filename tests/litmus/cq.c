/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A completion is added while a thread arms the CQ, finds it empty and sleeps.
 * This program tests all of runtime/verbs/soft/soft_cq.c. WITHOUT_DOZE removes
 * the lock from soft_req_notify_cq(). With WITHOUT_TELL, the completion is
 * added without the lock.
 */
#include "verbs/soft/ctx.h"

#ifdef WITHOUT_DOZE
#define soft_lock(ctx) ((void)(ctx))
#define soft_unlock(ctx) ((void)(ctx))
#endif
#include "../../runtime/verbs/soft/soft_cq.c" // NOLINT(bugprone-suspicious-include)

#include "litmus.h"

static struct soft_qp_slot qp; /* the QP of all completions */
static struct soft_ctx ctx = { .qps = &qp };
static struct place {
	_Alignas(64) struct soft_cq cq;
	struct soft_cqe cqe;
	_Alignas(64) bool seen;
} place[LITMUS_PLACES];

static void renew(unsigned i)
{
	struct place *p = &place[i];

	p->cq = (struct soft_cq){ .ring = &p->cqe };
	p->cq.ibv.context = &ctx.vctx.context;
	p->seen = false;
}

/* Do what soft_cq_send() does in a turn. */
static void tell(unsigned i)
{
	struct soft_cq *cq = &place[i].cq;
	struct soft_cqe *e;

#ifndef WITHOUT_TELL
	pthread_mutex_lock(&ctx.lock);
#endif
	e = cqe_begin(&ctx, cq);
	e->wc = (struct ibv_wc){ .wr_id = i };
	e->of_sq = false;
	cqe_end(&ctx, cq, false);
#ifndef WITHOUT_TELL
	pthread_mutex_unlock(&ctx.lock);
#endif
}

static void doze(unsigned i)
{
	struct place *p = &place[i];
	struct ibv_wc wc;

	soft_req_notify_cq(&p->cq.ibv, 0);
	p->seen = poll_ring(&p->cq, 1, &wc) == 1;
}

/* If the CQ is no longer armed, the thread that disarmed it has also sent the
 * event. */
static bool lost(unsigned i)
{
	struct place *p = &place[i];

	return !p->seen && atomic_load(&p->cq.armed);
}

int main(void)
{
	const struct litmus l = { renew, tell, doze, lost };

	pthread_mutex_init(&ctx.lock, NULL);
	return litmus(&l, LITMUS_WHOLE);
}
