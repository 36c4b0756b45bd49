/* SPDX-License-Identifier: Apache-2.0 */
/* Fill and check messages. */
#include "perf/data.h"

#include <string.h>

uint64_t perf_mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* Return the word at an index. This hash is cheaper than perf_mix(), since
 * filling must not take longer than sending. */
static uint64_t word_at(uint64_t key, uint64_t index)
{
	uint64_t x = (key + index) * 0x9e3779b97f4a7c15ull;

	return x ^ x >> 29;
}

void perf_data_fill(void *buf, size_t len, uint64_t key, uint64_t number)
{
	uint64_t word = key + number;
	char *at = buf;
	size_t i;

	if (len < sizeof(word)) {
		memcpy(at, &word, len);
		return;
	}
	key = perf_key(key, number);
	for (i = 0; i + sizeof(word) <= len; i += sizeof(word)) {
		word = word_at(key, i / sizeof(word));
		memcpy(at + i, &word, sizeof(word));
	}
	word = word_at(key, i / sizeof(word));
	memcpy(at + i, &word, len - i);
}

static uint64_t bytes_differing(uint64_t difference)
{
	uint64_t n = 0;

	for (; difference; difference >>= 8)
		n += (difference & 0xff) != 0;
	return n;
}

/* Compare `len` bytes (at most 8) at `at` with the bytes of `want`. Return how
 * many differ. */
static uint64_t differing(const char *at, size_t len, uint64_t want)
{
	uint64_t word = want;

	memcpy(&word, at, len);
	return word == want ? 0 : bytes_differing(word ^ want);
}

uint64_t perf_data_check(const void *buf, size_t len, uint64_t key,
			 uint64_t number)
{
	const char *at = buf;
	uint64_t wrong = 0;
	size_t i;

	if (len < sizeof(uint64_t))
		return differing(at, len, key + number);
	key = perf_key(key, number);
	for (i = 0; i + sizeof(uint64_t) <= len; i += sizeof(uint64_t))
		wrong += differing(at + i, sizeof(uint64_t),
				   word_at(key, i / sizeof(uint64_t)));
	return wrong +
	       differing(at + i, len - i, word_at(key, i / sizeof(uint64_t)));
}

uint64_t perf_data_touched(const void *buf, size_t len)
{
	const unsigned char *at = buf;
	uint64_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += at[i] != PERF_POISON;
	return n;
}

/* Return a + rank * b. The 32-bit numbers a and b are the halves of a hash of
 * `key` and `i`. */
uint32_t perf_value(uint64_t key, uint64_t i, int rank)
{
	uint64_t bits = perf_mix(key + i);

	return (uint32_t)bits + (uint32_t)(bits >> 32) * (uint32_t)rank;
}

uint32_t perf_sum(uint64_t key, uint64_t i, int nranks)
{
	uint64_t bits = perf_mix(key + i);
	uint32_t n = (uint32_t)nranks;

	return (uint32_t)bits * n + (uint32_t)(bits >> 32) * (n * (n - 1) / 2);
}
