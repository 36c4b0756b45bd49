/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread unlocks a software HCA's context while the context's thread makes
 * its last turn before it sleeps. If that turn finds the lock held, it does
 * nothing. The test uses soft_unlock() of runtime/verbs/soft/soft_device.c and
 * soft_turn() of turn.c, with a lock that orders no more than POSIX requires.
 * With WITHOUT_TELL, a plain load reads the count of sleepers. With
 * WITHOUT_DOZE, a sleeper is counted by a load and a store.
 */
#include "verbs/soft/ctx.h"
#include "verbs/soft/qp.h"
#include "verbs/soft/wire/soft_conn.h"

#include "litmus.h"

static struct place {
	struct soft_ctx ctx;
	_Alignas(64) _Atomic unsigned held;
	_Alignas(64) bool kicked;
	_Alignas(64) bool turned;
} place[LITMUS_PLACES];

static _Atomic unsigned *lock_of(pthread_mutex_t *lock)
{
	return &container_of(lock, struct place, ctx.lock)->held;
}

/* POSIX lets trylock fail after a plain load, without a read-modify-write. */
static int try_lock(pthread_mutex_t *lock)
{
	unsigned no = 0;

	return atomic_load_explicit(lock_of(lock), memory_order_relaxed) ||
	       !atomic_compare_exchange_strong_explicit(lock_of(lock), &no, 1,
							memory_order_acquire,
							memory_order_relaxed);
}

static void let_go(pthread_mutex_t *lock)
{
	atomic_store_explicit(lock_of(lock), 0, memory_order_release);
}

static void kick(struct mpib_bell *bell)
{
	container_of(bell, struct place, ctx.kick)->kicked = true;
}

static bool turn(struct mpib_bell *bell)
{
	return container_of(bell, struct place, ctx.kick)->turned = true;
}

#define pthread_mutex_trylock(lock) try_lock(lock)
#define pthread_mutex_unlock(lock) let_go(lock)
#define mpib_bell_ring(bell) kick(bell)
#define mpib_bell_heard(bell) turn(bell)
#ifdef WITHOUT_TELL
#undef atomic_fetch_add
#define atomic_fetch_add(p, n) atomic_load_explicit(p, memory_order_relaxed)
#endif
#include "../../runtime/verbs/soft/soft_device.c" // NOLINT(bugprone-suspicious-include)
#include "../../runtime/verbs/soft/turn.c" // NOLINT(bugprone-suspicious-include)

static void renew(unsigned i)
{
	struct place *p = &place[i];

	p->held = 1;
	atomic_store(&p->ctx.sleepers, 0);
	/* Makes soft_turn() return right after it began. */
	atomic_store(&p->ctx.gone, 1);
	p->kicked = p->turned = false;
}

static void tell(unsigned i)
{
	soft_unlock(&place[i].ctx);
}

static void doze(unsigned i)
{
	litmus_count(&place[i].ctx.sleepers);
	soft_turn(&place[i].ctx);
}

static bool lost(unsigned i)
{
	return !place[i].kicked && !place[i].turned;
}

int main(void)
{
	const struct litmus l = { renew, tell, doze, lost };

	return litmus(&l, LITMUS_WHOLE);
}
