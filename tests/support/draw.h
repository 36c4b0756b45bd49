/* SPDX-License-Identifier: Apache-2.0 */
/* Pseudo-random numbers. */
#ifndef MPIB_TESTS_DRAW_H
#define MPIB_TESTS_DRAW_H

#include <stdint.h>

/* Return the next pseudo-random number from 0 to `n` - 1. *`rng` is the state
 * of the generator. */
static inline uint64_t draw(uint64_t *rng, uint64_t n)
{
	uint64_t z = *rng += 0x9e3779b97f4a7c15ull; /* splitmix64 */

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (z ^ z >> 31) % n;
}

#endif
