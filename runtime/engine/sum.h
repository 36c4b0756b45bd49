/* SPDX-License-Identifier: Apache-2.0 */
/* Running sums: what is subtracted from one was added to it before. The tests
 * compare each with what its owners have: tests/support/sums.h. */
#ifndef MPIB_ENGINE_SUM_H
#define MPIB_ENGINE_SUM_H

#include <assert.h>
#include <stdint.h>

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

#endif
