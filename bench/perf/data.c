/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/data.h"

#include <string.h>

/* Ranks whose inputs come from one hash: 3 bits each. */
#define RANKS_PER_HASH 20

uint64_t perf_mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* Cheaper than perf_mix(): filling must not take longer than sending. */
static uint64_t word_at(uint64_t key, uint64_t index)
{
	uint64_t x = (key + index) * 0x9e3779b97f4a7c15ull;

	return x ^ x >> 29;
}

void perf_data_fill(void *buf, size_t len, uint64_t key)
{
	char *at = buf;
	uint64_t word;
	size_t i;

	for (i = 0; i + sizeof(word) <= len; i += sizeof(word)) {
		word = word_at(key, i / sizeof(word));
		memcpy(at + i, &word, sizeof(word));
	}
	if (i < len) {
		word = word_at(key, i / sizeof(word));
		memcpy(at + i, &word, len - i);
	}
}

static uint64_t bytes_differing(uint64_t difference)
{
	uint64_t n = 0;

	for (; difference; difference >>= 8)
		n += (difference & 0xff) != 0;
	return n;
}

uint64_t perf_data_check(const void *buf, size_t len, uint64_t key)
{
	const char *at = buf;
	uint64_t word, wrong = 0;
	size_t i;

	for (i = 0; i + sizeof(word) <= len; i += sizeof(word)) {
		memcpy(&word, at + i, sizeof(word));
		word ^= word_at(key, i / sizeof(word));
		if (word)
			wrong += bytes_differing(word);
	}
	if (i < len) {
		uint64_t want = word_at(key, i / sizeof(word));

		word = want;
		memcpy(&word, at + i, len - i);
		wrong += bytes_differing(word ^ want);
	}
	return wrong;
}

uint64_t perf_data_touched(const void *buf, size_t len)
{
	const unsigned char *at = buf;
	uint64_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += at[i] != PERF_POISON;
	return n;
}

static uint64_t values_at(uint64_t key, uint64_t i, int rank)
{
	return perf_mix(key + (i << 8 | (uint64_t)(rank / RANKS_PER_HASH)));
}

float perf_value(uint64_t key, uint64_t i, int rank)
{
	uint64_t bits = values_at(key, i, rank);

	return (float)(bits >> 3 * (rank % RANKS_PER_HASH) & 7);
}

float perf_sum(uint64_t key, uint64_t i, int nranks)
{
	uint64_t bits = 0, sum = 0;

	for (int rank = 0; rank < nranks; rank++) {
		if (rank % RANKS_PER_HASH == 0)
			bits = values_at(key, i, rank);
		sum += bits & 7;
		bits >>= 3;
	}
	return (float)sum;
}
