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

/* The compiler must neither reorder stores across this nor turn a loop that
 * has it into a memcpy(). The processor keeps the order of stores by itself, or
 * is told to by the release below. */
static inline void in_order(void)
{
	__asm__ volatile("" ::: "memory");
}

#if defined(__x86_64__)
#include <emmintrin.h>

static inline void copy_16(char *to, const char *from)
{
	__m128i v = _mm_loadu_si128((const __m128i *)(const void *)from);

	_mm_storeu_si128((__m128i *)(void *)to, v);
	in_order();
}

static size_t copy_lines(char *to, const char *from, size_t len)
{
	size_t i;

	for (i = 0; i + 64 <= len; i += 64) {
		copy_16(to + i, from + i);
		copy_16(to + i + 16, from + i + 16);
		copy_16(to + i + 32, from + i + 32);
		copy_16(to + i + 48, from + i + 48);
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
		/* Release: whoever polls this word finds all below it. */
		if ((uintptr_t)(dst + i) % 8 == 0)
			__atomic_store_n((uint64_t *)(void *)(dst + i), word,
					 __ATOMIC_RELEASE);
		else
			memcpy(dst + i, &word, sizeof(word));
		in_order();
	}
	for (; i < len; i++) {
		dst[i] = src[i];
		in_order();
	}
}
