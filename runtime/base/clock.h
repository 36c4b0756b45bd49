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

#endif
