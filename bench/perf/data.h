/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The content of messages. Each word depends on the key of the stream, on the
 * number of the message in the stream and on the word's position in the
 * message. So data from another peer, from an older message or from another
 * position is detected.
 */
#ifndef PERF_DATA_H
#define PERF_DATA_H

#include <stddef.h>
#include <stdint.h>

/* New receive buffers are filled with this byte, so that missing writes are
 * detected. */
#define PERF_POISON 0xa5

uint64_t perf_mix(uint64_t x);

/* Derive a key from another key and a number. */
static inline uint64_t perf_key(uint64_t key, uint64_t more)
{
	return perf_mix(key ^ perf_mix(more));
}

/* Fill message `number` of a stream. A message shorter than 8 bytes has the low
 * bytes of key + number, so that successive messages always differ. */
void perf_data_fill(void *buf, size_t len, uint64_t key, uint64_t number);

/* Return how many bytes differ from those that perf_data_fill() writes. */
uint64_t perf_data_check(const void *buf, size_t len, uint64_t key,
			 uint64_t number);

/* Return how many bytes are not PERF_POISON. */
uint64_t perf_data_touched(const void *buf, size_t len);

/* Return element `i` of the input of rank `rank` to the reduction. perf_sum()
 * returns the sum over all ranks. Sums are modulo 2^32, so that rounding cannot
 * hide a wrong bit. */
uint32_t perf_value(uint64_t key, uint64_t i, int rank);
uint32_t perf_sum(uint64_t key, uint64_t i, int nranks);

#endif
