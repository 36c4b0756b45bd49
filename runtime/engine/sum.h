/* SPDX-License-Identifier: Apache-2.0 */
/* Running sums. Subtract only amounts that were added before. The tests compare
 * each sum with its objects (tests/support/sums.h). */
#ifndef MPIB_ENGINE_SUM_H
#define MPIB_ENGINE_SUM_H

#include <assert.h>
#include <stdint.h>

static inline void mpib_sum_take(uint64_t *sum, uint64_t n)
{
	assert(n <= *sum);
	*sum -= n;
}

/* Decrement a count. Return the new value. */
static inline unsigned mpib_sum_less(unsigned *count)
{
	assert(*count > 0);
	return --*count;
}

#endif
