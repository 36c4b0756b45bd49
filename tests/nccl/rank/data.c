/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "rank.h"

static uint32_t word(size_t i, int from, int dest, unsigned round)
{
	uint32_t x = (uint32_t)i * 2654435761u + round * 40503u +
		     (uint32_t)from * 9176u + (uint32_t)dest * 31337u;

	return x ^ x >> 15;
}

void fill(void *to, size_t size, int from, int dest, unsigned round)
{
	for (size_t i = 0; i * 4 < size; i++) {
		uint32_t w = word(i, from, dest, round);
		size_t n = size - i * 4 < 4 ? size - i * 4 : 4;

		memcpy((char *)to + i * 4, &w, n);
	}
}

void verify(const struct rank *r, const char *what, const void *got,
	    size_t size, int from, int dest, unsigned round)
{
	for (size_t i = 0; i * 4 < size; i++) {
		uint32_t want = word(i, from, dest, round), have = 0, mask;
		size_t n = size - i * 4 < 4 ? size - i * 4 : 4;

		memcpy(&have, (const char *)got + i * 4, n);
		mask = n < 4 ? (1u << 8 * n) - 1 : ~0u;
		if (have != (want & mask))
			fail(r,
			     "%s, round %u, %zu bytes from %d: at %zu there is %#x, not %#x",
			     what, round, size, from, i * 4, have, want & mask);
	}
}

float number(size_t i, int rank, unsigned round)
{
	return (float)((i * 7 + (size_t)rank * 13 + round * 31) % 1021);
}

void verify_sum(const struct rank *r, const char *what, const float *got,
		size_t count, size_t first, int ranks, unsigned round)
{
	for (size_t i = 0; i < count; i++) {
		float want = 0;

		for (int k = 0; k < ranks; k++)
			want += number(first + i, k, round);
		if (got[i] != want)
			fail(r,
			     "%s, round %u, %zu floats: at %zu there is %g, not %g",
			     what, round, count, i, (double)got[i],
			     (double)want);
	}
}
