/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "sim_rank.h"

uint64_t sim_mix(uint64_t z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static uint64_t word(uint64_t seed, size_t at)
{
	return (seed + at) * 0x9e3779b97f4a7c15ull;
}

void sim_bytes_fill(char *p, size_t len, uint64_t seed)
{
	size_t i = 0;

	for (; i + 8 <= len; i += 8) {
		uint64_t w = word(seed, i);

		memcpy(p + i, &w, 8);
	}
	for (; i < len; i++)
		p[i] = (char)word(seed, i);
}

size_t sim_bytes_wrong(const char *p, size_t len, uint64_t seed)
{
	for (size_t i = 0; i < len; i++) {
		uint64_t w = word(seed, i & ~(size_t)7);

		if (!(i & 7) && i + 8 <= len) {
			if (!memcmp(p + i, &w, 8)) {
				i += 7;
				continue;
			}
		}
		if (i + 8 > len && !(i & 7)) {
			for (; i < len; i++) {
				if (p[i] != (char)word(seed, i))
					return i;
			}
			return len;
		}
		if (p[i] != (char)(w >> 8 * (i & 7)))
			return i;
	}
	return len;
}

size_t sim_bytes_other(const char *p, size_t len, char than)
{
	/* All bytes are equal if the memory equals itself shifted by one byte.
	 * memcmp() checks this faster than the loop below. */
	if (!len || (*p == than && !memcmp(p, p + 1, len - 1)))
		return len;
	for (size_t i = 0; i < len; i++) {
		if (p[i] != than)
			return i;
	}
	return len;
}
