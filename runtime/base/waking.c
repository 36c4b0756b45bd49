/* SPDX-License-Identifier: Apache-2.0 */
#include "base/waking.h"

#include "base/clock.h"

/* What a call takes of itself, with all that may come between; and all that more take,
 * until it is too much. */
#define FREE_NS 200000u
#define MOST_NS 20000000u
/* A call that takes more weighs as much as so many that do not. */
#define WEIGHT 4u
#define MANY (5 * WEIGHT)

uint64_t mpib_waking_begin(void)
{
	return mpib_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

bool mpib_waking_end(struct mpib_waking *w, uint64_t began_ns)
{
	uint64_t took = mpib_waking_begin() - began_ns;

	if (took > FREE_NS) {
		w->slow += WEIGHT;
		w->took_ns += took;
		return w->slow < MANY || w->took_ns < MOST_NS;
	}
	if (w->slow > 0 && --w->slow == 0)
		w->took_ns = 0;
	return true;
}
