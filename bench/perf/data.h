/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is in the messages. Every word depends on a key, which is that of the
 * stream, on the message's number there, and on its place, so that data of
 * another peer, of an older message or from a shifted place never passes.
 */
#ifndef PERF_DATA_H
#define PERF_DATA_H

#include <stddef.h>
#include <stdint.h>

/* What a receive buffer holds before it is written, when it is new. */
#define PERF_POISON 0xa5

uint64_t perf_mix(uint64_t x);

/* A new key from an old one and one more thing that matters. */
static inline uint64_t perf_key(uint64_t key, uint64_t more)
{
	return perf_mix(key ^ perf_mix(more));
}

/* Of messages shorter than 8 bytes the numbers themselves are in them, as far
 * as they fit, so that neighbours always differ. */
void perf_data_fill(void *buf, size_t len, uint64_t key, uint64_t number);

/* How many bytes differ from what perf_data_fill() wrote. */
uint64_t perf_data_check(const void *buf, size_t len, uint64_t key,
			 uint64_t number);

/* How many bytes are not PERF_POISON. */
uint64_t perf_data_touched(const void *buf, size_t len);

/* Element i of rank's input to the reduction, whose sums wrap: no bit of what
 * is added is ever rounded away. perf_sum() is that of all ranks. */
uint32_t perf_value(uint64_t key, uint64_t i, int rank);
uint32_t perf_sum(uint64_t key, uint64_t i, int nranks);

#endif
