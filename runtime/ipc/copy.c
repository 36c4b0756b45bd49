/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's LL and LL128 kernels poll flags inside the receive buffer, so lines
 * must fill upwards in stores of at least 8 bytes. memcpy() promises neither:
 * it may use "rep movsb" or overlapping stores from both ends. Aligned 16-byte
 * stores are atomic on every processor with AVX, and x86 keeps their order.
 */
#include <stdint.h>
#include <string.h>

#include "ipc/client.h"

#if defined(__x86_64__)
#include <emmintrin.h>

static size_t copy_lines(char *to, const char *from, size_t len)
{
	size_t i;

	for (i = 0; i + 64 <= len; i += 64) {
		__m128i a = _mm_loadu_si128(
			(const __m128i *)(const void *)(from + i));
		__m128i b = _mm_loadu_si128(
			(const __m128i *)(const void *)(from + i + 16));
		__m128i c = _mm_loadu_si128(
			(const __m128i *)(const void *)(from + i + 32));
		__m128i d = _mm_loadu_si128(
			(const __m128i *)(const void *)(from + i + 48));

		_mm_storeu_si128((__m128i *)(void *)(to + i), a);
		_mm_storeu_si128((__m128i *)(void *)(to + i + 16), b);
		_mm_storeu_si128((__m128i *)(void *)(to + i + 32), c);
		_mm_storeu_si128((__m128i *)(void *)(to + i + 48), d);
		/* The compiler must not reorder the stores or make this loop a
		 * memcpy(); the processor does not. */
		__asm__ volatile("" ::: "memory");
	}
	return i;
}
#else
static size_t copy_lines(char *to, const char *from, size_t len)
{
	(void)to;
	(void)from;
	(void)len;
	return 0;
}
#endif

void mpib_copy_up(void *to, const void *from, size_t len)
{
	const char *src = from;
	char *dst = to;
	size_t i = copy_lines(dst, src, len);

	for (; i + 8 <= len; i += 8) {
		uint64_t word;

		memcpy(&word, src + i, sizeof(word));
		/* Release: after everything below it. */
		if ((uintptr_t)(dst + i) % 8 == 0)
			__atomic_store_n((uint64_t *)(void *)(dst + i), word,
					 __ATOMIC_RELEASE);
		else
			memcpy(dst + i, &word, sizeof(word));
	}
	for (; i < len; i++)
		dst[i] = src[i];
}
