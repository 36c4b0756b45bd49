/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bell rings while its owner handles an earlier ring. This program tests all
 * of runtime/base/bell.c, with counters in place of the kernel's eventfds.
 * WITHOUT_TELL rings with a load and a store instead of the exchange. With
 * WITHOUT_DOZE, the owner clears the bell with a load and a store, too.
 */
#include "base/bell.h"

#include <stdint.h>
#include <unistd.h>

#include "litmus.h"

static struct place {
	struct mpib_bell bell;
	_Atomic unsigned count; /* count of the eventfd */
	_Alignas(64) _Atomic unsigned work;
	_Alignas(64) bool seen;
} place[LITMUS_PLACES];

static ssize_t count_up(int fd, const void *one, size_t n)
{
	(void)one;
	atomic_store_explicit(&place[fd].count, 1, memory_order_relaxed);
	return (ssize_t)n;
}

static ssize_t count_off(int fd, uint64_t *count)
{
	(void)count;
	if (!atomic_load_explicit(&place[fd].count, memory_order_relaxed))
		return -1;
	atomic_store_explicit(&place[fd].count, 0, memory_order_relaxed);
	return 8;
}

#if defined(WITHOUT_TELL) || defined(WITHOUT_DOZE)
static unsigned plainly(_Atomic unsigned *p, unsigned value)
{
	unsigned was = atomic_load_explicit(p, memory_order_relaxed);

	if (was != value)
		atomic_store_explicit(p, value, memory_order_release);
	return was;
}
#endif
#undef atomic_exchange
#ifdef WITHOUT_TELL
#define atomic_exchange(p, value)                                              \
	((value) ? plainly(p, value)                                           \
		 : atomic_exchange_explicit(p, value, memory_order_seq_cst))
#elif defined(WITHOUT_DOZE)
#define atomic_exchange(p, value)                                              \
	((value) ? atomic_exchange_explicit(p, value, memory_order_seq_cst)    \
		 : plainly(p, value))
#else
#define atomic_exchange(p, value)                                              \
	atomic_exchange_explicit(p, value, memory_order_seq_cst)
#endif
#define write(fd, buf, n) count_up(fd, buf, n)
#define read(fd, count, n) count_off(fd, count)
#include "../../runtime/base/bell.c" // NOLINT(bugprone-suspicious-include)

/* In the initial state, the dirty flag and the count are set: the bell has
 * rung. */
static void renew(unsigned i)
{
	place[i] = (struct place){ .bell = { .dirty = 1, .fd = (int)i },
				   .count = 1 };
}

static void tell(unsigned i)
{
	struct place *p = &place[i];

	atomic_store_explicit(&p->work, 1, memory_order_release);
	mpib_bell_ring(&p->bell);
}

static void doze(unsigned i)
{
	struct place *p = &place[i];

	mpib_bell_heard(&p->bell);
	p->seen = atomic_load_explicit(&p->work, memory_order_acquire);
}

static bool lost(unsigned i)
{
	return !place[i].seen && !atomic_load(&place[i].count);
}

int main(void)
{
	const struct litmus l = { renew, tell, doze, lost };

	return litmus(&l, LITMUS_WHOLE);
}
