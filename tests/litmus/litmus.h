/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One who says "there is work" and one who says "I sleep", each of whom then
 * looks for what the other said: over and over on two cores, in step, so that
 * both do it at once. A wake-up is lost where neither saw the other.
 *
 * Each program is built whole, which must never lose one, and again with the
 * order of one side taken out, which must: else the program shows nothing. On a
 * machine that never lets both run at once the latter says SKIPPED.
 */
#ifndef MPIB_TESTS_LITMUS_H
#define MPIB_TESTS_LITMUS_H

#include <stdatomic.h>
#include <stdbool.h>

#define LITMUS_PLACES 256

/* Nothing is taken out of this build. */
#if defined(WITHOUT_TELL) || defined(WITHOUT_DOZE)
#define LITMUS_WHOLE false
#else
#define LITMUS_WHOLE true
#endif

/* One sleeper more; a load and a store in WITHOUT_DOZE. */
static inline void litmus_count(_Atomic int *sleepers)
{
#ifdef WITHOUT_DOZE
	int n = atomic_load_explicit(sleepers, memory_order_relaxed);

	atomic_store_explicit(sleepers, n + 1, memory_order_release);
#else
	atomic_fetch_add_explicit(sleepers, 1, memory_order_seq_cst);
#endif
}

/* All of place i, one of LITMUS_PLACES, which lie on cache lines of their own. */
struct litmus {
	void (*renew)(unsigned i); /* one thread, as are all renews and lost */
	void (*tell)(unsigned i); /* one thread: there is work; who sleeps? */
	void (*doze)(unsigned i); /* another: I sleep; is there work? */
	bool (*lost)(unsigned i); /* when both have returned */
};

/* The exit status. whole: nothing is taken out. Takes a second if it is whole, four at most else. */
int litmus(const struct litmus *l, bool whole);

#endif
