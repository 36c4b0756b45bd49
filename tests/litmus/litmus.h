/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread announces work, another announces that it sleeps, and each then
 * checks for the other's announcement: repeatedly on two cores, in step, so
 * that both do it at the same time. A wake-up is lost if neither saw the other.
 *
 * Each program is built completely, which must never lose a wake-up. It is
 * built again without the ordering of one side, which must lose one: otherwise
 * the program proves nothing. On a machine that never runs both threads at the
 * same time the latter prints SKIPPED.
 */
#ifndef MPIB_TESTS_LITMUS_H
#define MPIB_TESTS_LITMUS_H

#include <stdatomic.h>
#include <stdbool.h>

#define LITMUS_PLACES 256

/* This build is complete. */
#if defined(WITHOUT_TELL) || defined(WITHOUT_DOZE)
#define LITMUS_WHOLE false
#else
#define LITMUS_WHOLE true
#endif

/* Count one more sleeper; with WITHOUT_DOZE by a load and a store. */
static inline void litmus_count(_Atomic int *sleepers)
{
#ifdef WITHOUT_DOZE
	int n = atomic_load_explicit(sleepers, memory_order_relaxed);

	atomic_store_explicit(sleepers, n + 1, memory_order_release);
#else
	atomic_fetch_add_explicit(sleepers, 1, memory_order_seq_cst);
#endif
}

/* Callbacks for place i of LITMUS_PLACES, which lie on separate cache lines. */
struct litmus {
	void (*renew)(unsigned i); /* called by one thread, like lost */
	void (*tell)(unsigned i); /* one thread: announces work */
	void (*doze)(unsigned i); /* another: announce sleep, check work */
	bool (*lost)(unsigned i); /* after both have returned */
};

/* Run the test. Returns the exit status. whole: the complete build, which takes
 * a second; others take at most four. */
int litmus(const struct litmus *l, bool whole);

#endif
