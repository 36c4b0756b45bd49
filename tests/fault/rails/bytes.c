/* SPDX-License-Identifier: Apache-2.0 */
#include "bytes.h"

#include <string.h>

uint64_t bytes_mix(uint64_t z)
{
	z += 0x9e3779b97f4a7c15ull;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static uint64_t word_at(uint64_t seed, uint32_t i)
{
	return seed + i * 0x100000001b3ull;
}

void bytes_fill(char *p, uint32_t len, uint64_t seed)
{
	for (uint32_t i = 0; i < len; i += 8) {
		uint64_t word = word_at(seed, i);

		memcpy(p + i, &word, len - i < 8 ? len - i : 8);
	}
}

uint32_t bytes_wrong(const char *p, uint32_t len, uint64_t seed)
{
	for (uint32_t i = 0; i < len; i += 8) {
		uint64_t word = word_at(seed, i);

		if (memcmp(p + i, &word, len - i < 8 ? len - i : 8))
			return i;
	}
	return len;
}
