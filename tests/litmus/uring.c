/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel adds a completion while a thread of the software HCA goes to sleep
 * on an io_uring. This program tests all of runtime/verbs/soft/wire/uring.c
 * with a ring in this file. The test changes the ring as the kernel does when a
 * socket becomes ready, in the order of io_req_local_work_add() and
 * io_eventfd_signal(). WITHOUT_DOZE removes the fence from listen_for_sleep().
 * WITHOUT_TELL removes the read-modify-write from the kernel.
 */
#ifdef WITHOUT_DOZE
#define __sync_synchronize() ((void)0) // NOLINT(bugprone-reserved-identifier)
#endif
#include "../../runtime/verbs/soft/wire/uring.c" // NOLINT(bugprone-suspicious-include)

#include "litmus.h"

static struct place {
	struct soft_ctx ctx;
	struct soft_uring uring;
	unsigned head; /* head of the empty submission queue */
	_Alignas(64) unsigned sq_flags;
	_Alignas(64) unsigned cq_flags;
	_Alignas(64) bool signalled; /* whether the eventfd is signalled */
	_Alignas(64) bool seen;
} place[LITMUS_PLACES];

/* In the initial state, one sleeper is counted, and the ring's eventfd is
 * disabled. */
static void renew(unsigned i)
{
	struct place *p = &place[i];

	p->uring = (struct soft_uring){ .event_fd = -1 };
	p->uring.ring.sq.khead = &p->head;
	p->uring.ring.sq.kflags = &p->sq_flags;
	p->uring.ring.cq.kflags = &p->cq_flags;
	p->sq_flags = 0;
	p->cq_flags = IORING_CQ_EVENTFD_DISABLED;
	p->ctx.uring = &p->uring;
	atomic_store(&p->ctx.sleepers, 1);
	p->signalled = p->seen = false;
}

static void tell(unsigned i)
{
	struct place *p = &place[i];

#ifdef WITHOUT_TELL
	__atomic_store_n(&p->sq_flags, IORING_SQ_TASKRUN, __ATOMIC_RELEASE);
#else
	__atomic_fetch_or(&p->sq_flags, IORING_SQ_TASKRUN, __ATOMIC_SEQ_CST);
#endif
	p->signalled = !(__atomic_load_n(&p->cq_flags, __ATOMIC_RELAXED) &
			 IORING_CQ_EVENTFD_DISABLED);
}

static void doze(unsigned i)
{
	struct place *p = &place[i];

	listen_for_sleep(&p->ctx);
	p->seen = must_enter(&p->uring);
}

static bool lost(unsigned i)
{
	return !place[i].signalled && !place[i].seen;
}

int main(void)
{
	const struct litmus l = { renew, tell, doze, lost };

	return litmus(&l, LITMUS_WHOLE);
}
