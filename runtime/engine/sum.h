/* SPDX-License-Identifier: Apache-2.0 */
/* Running sums: nothing is subtracted that was not added before, and at rest a
 * sum equals what its owners have. */
#ifndef MPIB_ENGINE_SUM_H
#define MPIB_ENGINE_SUM_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/log.h"

/* Whether sums are compared with their owners when these are at rest: in builds
 * with a sanitizer. */
#ifdef MPIB_DEBUG
#define MPIB_SUMS_CHECKED true
#else
#define MPIB_SUMS_CHECKED false
#endif

static inline void mpib_sum_take(uint64_t *sum, uint64_t n)
{
	assert(n <= *sum);
	*sum -= n;
}

/* Decrement a count; return the rest. */
static inline unsigned mpib_sum_less(unsigned *count)
{
	assert(*count > 0);
	return --*count;
}

/* A sum that differs from what its owners have. */
struct mpib_sum {
	const char *what;
	uint64_t owed, have;
};

/* Compare. If they differ, return false and set *wrong. */
static inline bool mpib_sum_fits(struct mpib_sum *wrong, const char *what,
				 uint64_t owed, uint64_t have)
{
	if (owed == have)
		return true;
	*wrong = (struct mpib_sum){ what, owed, have };
	return false;
}

/* Log it and end the process. */
__attribute__((noreturn)) static inline void
mpib_sum_abort(const char *whose, const struct mpib_sum *wrong)
{
	mpib_err("%s: %s: %llu are owed, and their owners have %llu", whose,
		 wrong->what, (unsigned long long)wrong->owed,
		 (unsigned long long)wrong->have);
	abort();
}

#endif
