/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MPIB_BASE_CLOCK_H
#define MPIB_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Read a clock, in ns. Any thread. */
static inline uint64_t mpib_clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Read CLOCK_MONOTONIC; the vDSO usually saves the system call. */
static inline uint64_t mpib_now_ns(void)
{
	return mpib_clock_ns(CLOCK_MONOTONIC);
}

static inline struct timespec mpib_timespec(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / 1000000000u),
				  .tv_nsec = (long)(ns % 1000000000u) };
}

/* Limit a rate, but allow a burst (a leaky bucket: the virtual scheduling of
 * ITU-T I.371). At a rate of N events per second, each event costs 1/N s. A
 * caller must wait if the sum of these costs is ahead of the clock by more than
 * the burst. One thread; times are nanoseconds. */

/* Add the cost of one event, `takes` ns, to *paid, the sum of the costs (0 at
 * first). */
static inline void mpib_rate_pay(uint64_t *paid, uint64_t now, uint64_t takes)
{
	if (*paid < now)
		*paid = now;
	*paid += takes;
}

/* Return how many ns to wait before the next event; 0: do not wait. `ahead` is
 * the burst, in ns. */
static inline uint64_t mpib_rate_wait(uint64_t paid, uint64_t now,
				      uint64_t ahead)
{
	return paid > now + ahead ? paid - now - ahead : 0;
}

/* Pay for one event of `each` ns if the burst of `most` events has room for it.
 * Otherwise return false. */
static inline bool mpib_rate_take(uint64_t *paid, uint64_t now, unsigned most,
				  uint64_t each)
{
	if (mpib_rate_wait(*paid, now, (most - 1) * each))
		return false;
	mpib_rate_pay(paid, now, each);
	return true;
}

#endif
