/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is in the messages. Every word depends on a key and on its place, and
 * the key on everything that tells one message from another, so that data of
 * another peer, an older iteration or a shifted chunk never passes.
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

void perf_data_fill(void *buf, size_t len, uint64_t key);

/* How many bytes differ from what perf_data_fill() wrote. */
uint64_t perf_data_check(const void *buf, size_t len, uint64_t key);

/* How many bytes are not PERF_POISON. */
uint64_t perf_data_touched(const void *buf, size_t len);

/* Element i of rank's input to the reduction: a small integer, so that sums
 * in any order are exact. perf_sum() is that of all ranks. */
float perf_value(uint64_t key, uint64_t i, int rank);
float perf_sum(uint64_t key, uint64_t i, int nranks);

#endif
