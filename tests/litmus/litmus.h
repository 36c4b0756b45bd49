/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread announces work. Another thread announces that it will sleep. Then
 * each thread checks for the other thread's announcement. The wake-up is lost
 * if neither thread saw the other thread's announcement. The two threads repeat
 * this on two cores. Before each repetition, they wait for each other, so that
 * both run at the same time.
 *
 * Each program is built several times. The complete build must never lose a
 * wake-up. Each other build lacks the ordering of one side: the side that
 * announces work (WITHOUT_TELL) or the sleeper (WITHOUT_DOZE). An incomplete
 * build must lose a wake-up: otherwise the program could not detect the missing
 * ordering. If the machine never runs both threads at the same time, the
 * program prints SKIPPED.
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

/* Count one more sleeper. With WITHOUT_DOZE, use a load and a store. */
static inline void litmus_count(_Atomic int *sleepers)
{
#ifdef WITHOUT_DOZE
	int n = atomic_load_explicit(sleepers, memory_order_relaxed);

	atomic_store_explicit(sleepers, n + 1, memory_order_release);
#else
	atomic_fetch_add_explicit(sleepers, 1, memory_order_seq_cst);
#endif
}

/* Callbacks for place i of LITMUS_PLACES. Places are on separate cache
 * lines. */
struct litmus {
	/* Prepare the place; called by the same thread as `lost`. */
	void (*renew)(unsigned i);
	void (*tell)(unsigned i); /* the first thread announces work */
	/* the second thread announces its sleep and checks for work */
	void (*doze)(unsigned i);
	/* Return whether the wake-up was lost; called after both. */
	bool (*lost)(unsigned i);
};

/* Run the test. Return the exit status. `whole` means the complete build, which
 * runs for one second. Other builds run for at most four seconds. */
int litmus(const struct litmus *l, bool whole);

#endif
