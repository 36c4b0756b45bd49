/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MPIB_BASE_CLOCK_H
#define MPIB_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds of CLOCK_MONOTONIC. Any thread; the vDSO usually saves the system
 * call. */
static inline uint64_t mpib_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#endif
