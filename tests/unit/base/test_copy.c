/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/copy.h"

#include "test.h"

#define PAGES 4u

static unsigned char byte_of(size_t i)
{
	return (unsigned char)(i * 131 + (i >> 8) + 1) | 1; /* never 0 */
}

TEST(every_length_and_alignment_is_copied_exactly)
{
	unsigned char from[512], to[512], want[512];

	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = byte_of(i);
	for (size_t len = 0; len <= 300; len++) {
		for (size_t off = 0; off < 17; off++) {
			memset(to, 0xee, sizeof(to));
			memset(want, 0xee, sizeof(want));
			memcpy(want + 32 + off, from + off / 2, len);
			mpib_copy_up(to + 32 + off, from + off / 2, len);
			assert_memory_equal(to, want, sizeof(to));
		}
	}
}

/*
 * At first the destination's pages are not writable. The copy must fault on the
 * pages in ascending order, and must have written all bytes below a page before
 * the fault. Each fault is at the page's first byte or in a store that crosses
 * the start of the page.
 */
static struct {
	unsigned char *base, *start;
	size_t page;
	unsigned faults, wrong;
} trap;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	unsigned char *edge = trap.base + trap.faults * trap.page;
	unsigned char *at = info->si_addr;

	if (trap.faults >= PAGES || at < edge - 15 || at >= edge + trap.page)
		_exit(3);
	/* The page below is already writable, so only a store that begins at
	 * `edge` may fault. */
	if (trap.faults > 0 && at > edge)
		trap.wrong++;
	/* A store has at most 16 bytes, so the faulting store covers at most 15
	 * bytes below `edge`. All bytes below these must be written already. */
	for (unsigned char *p = trap.start; p + 16 <= edge; p++)
		trap.wrong += *p != byte_of((size_t)(p - trap.start));
	mprotect(edge, trap.page, PROT_READ | PROT_WRITE);
	trap.faults++;
}

TEST(lines_are_filled_in_ascending_order)
{
	struct sigaction sa = { .sa_sigaction = on_fault,
				.sa_flags = SA_SIGINFO };
	struct sigaction old;
	unsigned char *from;
	size_t len;

	trap.page = (size_t)sysconf(_SC_PAGESIZE);
	len = PAGES * trap.page - 16;
	from = malloc(len);
	for (size_t i = 0; i < len; i++)
		from[i] = byte_of(i);
	sigaction(SIGSEGV, &sa, &old);
	for (size_t off = 0; off < 16; off++) {
		trap.base = mmap(NULL, PAGES * trap.page, PROT_READ,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		trap.start = trap.base + off;
		trap.faults = 0;
		mpib_copy_up(trap.start, from, len);
		assert_int_equal(trap.faults, PAGES);
		assert_memory_equal(trap.start, from, len);
		munmap(trap.base, PAGES * trap.page);
	}
	sigaction(SIGSEGV, &old, NULL);
	free(from);
	assert_int_equal(trap.wrong, 0);
}

TEST(zeroing_words_changes_no_byte_beside_them)
{
	uint64_t words[18];

	memset(words, 0xff, sizeof(words));
	mpib_zero_words(words + 1, 16 * sizeof(words[0]));
	assert_true(words[0] == UINT64_MAX && words[17] == UINT64_MAX);
	for (int i = 1; i < 17; i++)
		assert_int_equal(words[i], 0);
}
