/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MPIB_BASE_CLOCK_H
#define MPIB_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds of a clock. Any thread. */
static inline uint64_t mpib_clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Those of CLOCK_MONOTONIC; the vDSO usually saves the system call. */
static inline uint64_t mpib_now_ns(void)
{
	return mpib_clock_ns(CLOCK_MONOTONIC);
}

/*
 * No more than a rate, but for so much that may come at once (a leaky bucket, as the
 * virtual scheduling of ITU-T I.371): each thing takes its time at the rate, and who has
 * used up more than lies so far ahead waits. One thread; times are nanoseconds.
 */

/* paid, which is 0 at first, is the time that is used up: a thing that takes so much of
 * it came. */
static inline void mpib_rate_pay(uint64_t *paid, uint64_t now, uint64_t takes)
{
	if (*paid < now)
		*paid = now;
	*paid += takes;
}

/* How long to wait before the next; 0: not at all. */
static inline uint64_t mpib_rate_wait(uint64_t paid, uint64_t now,
				      uint64_t ahead)
{
	return paid > now + ahead ? paid - now - ahead : 0;
}

#endif
