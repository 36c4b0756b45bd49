/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's LL and LL128 kernels poll flags inside the receive buffer, and verbs
 * programs poll the end of a message, because HCAs write in ascending order.
 * memcpy() promises neither an order nor whole words: it may use "rep movsb" or
 * overlapping stores from both ends. Therefore the copies here use ordered
 * stores. Aligned 16-byte stores are atomic on every processor with AVX, and
 * x86 keeps the order of stores.
 */
#include "base/copy.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "base/crash.h"

/* Compiler barrier: the compiler moves no store across it, and does not turn a
 * loop that contains it into memcpy(). An x86 processor keeps the order of
 * stores. On other processors the release stores below keep the order. */
static inline void in_order(void)
{
	__asm__ volatile("" ::: "memory");
}

/* ThreadSanitizer understands only atomic stores, so it gets copy_word()
 * only. */
#if defined(__SANITIZE_THREAD__)
#define WORDS_ONLY
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WORDS_ONLY
#endif
#endif

#if defined(__x86_64__) && !defined(WORDS_ONLY)
#include <emmintrin.h>

/* Prefetch distance, in bytes. Usually another core wrote the source, and the
 * destination is rarely in a cache. Ordered stores suffer more from these
 * misses than memcpy(). */
#define AHEAD 512

/* `to` is aligned to 16 bytes. */
static inline void copy_16(char *to, const char *from)
{
	__m128i v = _mm_loadu_si128((const __m128i *)(const void *)from);

	_mm_store_si128((__m128i *)(void *)to, v);
	in_order();
}

static size_t copy_lines(char *to, const char *from, size_t len)
{
	size_t i;

	for (i = 0; i + 64 <= len; i += 64) {
		__builtin_prefetch(from + i + AHEAD);
		__builtin_prefetch(to + i + AHEAD, 1);
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

static size_t copy_byte(char *to, const char *from)
{
	__atomic_store_n(to, *from, __ATOMIC_RELEASE);
	return 1;
}

static size_t copy_word(char *to, const char *from)
{
	uint64_t word;

	memcpy(&word, from, sizeof(word));
	/* Release: a reader that has read this word also finds all bytes at
	 * lower addresses. */
	__atomic_store_n((uint64_t *)(void *)to, word, __ATOMIC_RELEASE);
	return sizeof(word);
}

void mpib_copy_up(void *to, const void *from, size_t len)
{
	const char *src = from;
	char *dst = to;
	size_t i = 0;

	while (i < len && (uintptr_t)(dst + i) % 8)
		i += copy_byte(dst + i, src + i);
	if (i + 8 <= len && (uintptr_t)(dst + i) % 16)
		i += copy_word(dst + i, src + i);
	i += copy_lines(dst + i, src + i, len - i);
	while (i + 8 <= len)
		i += copy_word(dst + i, src + i);
	while (i < len)
		i += copy_byte(dst + i, src + i);
}

void mpib_zero_words(void *to, size_t len)
{
	uint64_t *word = to;

	for (size_t i = 0; i < len / sizeof(*word); i++)
		__atomic_store_n(&word[i], 0, __ATOMIC_RELAXED);
}

_Thread_local volatile struct mpib_bus mpib_bus;

/* Map anonymous memory over the page at this address. The size of the page is
 * unknown. The kernel splits a mapping of huge pages only at page boundaries
 * and refuses to replace less than a page. So the first size that mmap()
 * accepts is the page size. */
static bool bus_replace(uintptr_t at)
{
	static const uintptr_t sizes[] = { 4096, 65536, 2u << 20, 1u << 30 };

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (mmap((void *)(at & ~(sizes[i] - 1)), sizes[i],
			 PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
			 0) != MAP_FAILED)
			return true;
	}
	return false;
}

static void on_bus(int sig, siginfo_t *info, void *context)
{
	uintptr_t at = (uintptr_t)info->si_addr;
	size_t len = mpib_bus.len;
	int saved = errno;
	bool ours = at - mpib_bus.to < len || at - mpib_bus.from < len;

	(void)context;
	/* Replace only pages that were removed (BUS_ADRERR), not broken memory.
	 * Otherwise restore the default action of SIGBUS, so that the access
	 * faults again and ends the process. */
	if (!ours || info->si_code != BUS_ADRERR || !bus_replace(at)) {
		mpib_crash_note(info);
		signal(sig, SIG_DFL);
	}
	errno = saved;
}

int mpib_bus_catch(void)
{
	struct sigaction sa = { .sa_sigaction = on_bus,
				.sa_flags = SA_SIGINFO | SA_NODEFER };

	return sigaction(SIGBUS, &sa, NULL) < 0 ? -errno : 0;
}
