/* SPDX-License-Identifier: Apache-2.0 */
/* Replacements for the memory functions that the real code calls. If a process
 * is short of memory, its allocations can fail. Mappings have the same
 * addresses in each run. */
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <unistd.h>

#include "sim_task.h"
#include "sim_wrap.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

/* Address of the first mapping. The real kernel and AddressSanitizer use
 * addresses that are far away from this address. */
#define MAPS_FROM 0x200000000000
/* A block of this size or more gets its own mapping. Such blocks are tables,
 * and a seed uses few entries of each table. */
#define MAPPED_FROM (1 << 20)
#define SPARES 512 /* maximum number of stacks kept for reuse */

static bool short_of_memory;
static bool moved;

void sim_short_of_memory(bool on)
{
	short_of_memory = on;
}

bool sim_no_memory(void)
{
	struct sim_proc *p = sim_proc_self();

	return p && short_of_memory && p->is_short && sim_by_chance(4);
}

/* Change the padding from call to call. As a result, calloc() reuses freed
 * memory for different objects, see sim_addresses_move(). */
static void *padded(size_t n, size_t size)
{
	static size_t calls;
	size_t len;

	if (__builtin_mul_overflow(n, size, &len)) {
		errno = ENOMEM;
		return NULL;
	}
	return calloc(1, len + calls++ % 5 * 64);
}

/* Only the real code calls these wrappers, see CMakeLists.txt. */
void *__wrap_calloc(size_t n, size_t size)
{
	if (sim_no_memory()) {
		errno = ENOMEM;
		return NULL;
	}
	if (moved)
		return padded(n, size);
	return calloc(n, size);
}

static char *next_map = (char *)MAPS_FROM;

/* Advance the address of the next mapping by `len` bytes, and by one page that
 * stays unmapped. */
static void addresses_pass(size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	next_map += (len + 2 * page - 1) / page * page;
}

/* Choose the same address in each run. The proxy allocates a region's pages in
 * steps, and the number of steps depends on the address (client/filler.c). No
 * address is used twice, and an unmapped page separates two mappings. */
void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
	void *map;

	if (at || flags & MAP_FIXED || !len)
		return __real_mmap(at, len, prot, flags, fd, off);
	map = __real_mmap(next_map, len, prot, flags | MAP_FIXED_NOREPLACE, fd,
			  off);
	if (map == MAP_FAILED && errno == ENOMEM)
		sim_lacks("memory to map");
	if (map != MAP_FAILED)
		addresses_pass(len);
	return map;
}

void sim_addresses_fix(char **argv)
{
	int now = personality(0xffffffff);

	if (now < 0 || now & ADDR_NO_RANDOMIZE ||
	    personality((unsigned long)now | ADDR_NO_RANDOMIZE) < 0)
		return;
	execv("/proc/self/exe", argv);
}

void sim_addresses_move(void)
{
	static void *kept;

	moved = true;
	kept = malloc(12345);
	if (!kept ||
	    __real_mmap(NULL, 1 << 14, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0) == MAP_FAILED)
		sim_lacks("memory");
}

/* Do not allocate pages in advance, because most of a staging window is never
 * accessed. Ignore MADV_DONTFORK and MADV_DONTDUMP, since no process forks or
 * writes a core file. */
int __wrap_madvise(void *at, size_t len, int advice)
{
	if (advice == MADV_POPULATE_WRITE || advice == MADV_POPULATE_READ ||
	    advice == MADV_DONTFORK || advice == MADV_DONTDUMP)
		return 0;
	return __real_madvise(at, len, advice);
}

/* Report all pages as allocated. __wrap_madvise() has not allocated them, so
 * the real call would report them as missing. */
int __wrap_mincore(void *at, size_t len, unsigned char *there)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	(void)at;
	memset(there, 1, (len + page - 1) / page);
	return 0;
}

/* Return the memory size of a simulated node. Quotas must not depend on the
 * memory of the real machine. */
uint64_t __wrap_mpib_memory_bound(void)
{
	return 32ull << 30;
}

void sim_memory_stays(void)
{
	mallopt(M_MMAP_THRESHOLD, MAPPED_FROM);
	mallopt(M_TRIM_THRESHOLD, INT_MAX);
	/* With M_TOP_PAD, calloc() would clear memory that is already zero. */
	mallopt(M_TOP_PAD, 0);
}

/* Stacks of ended tasks, which are still mapped. */
static void *spare[SPARES];
static unsigned spares;

void *sim_stack_new(void)
{
	void *stack;

	/* If an old stack is reused, skip the addresses that a new mapping
	 * would get. So later mappings get the same addresses in both cases. */
	if (spares) {
		addresses_pass(SIM_STACK);
		return spare[--spares];
	}
	stack = mmap(NULL, SIM_STACK, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stack == MAP_FAILED)
		abort();
	return stack;
}

/* Keep the stack for the next task. Unpoison the whole stack, because the task
 * may have been killed within a function. */
void sim_stack_free(void *stack)
{
	if (!stack)
		return;
#ifdef __SANITIZE_ADDRESS__
	__asan_unpoison_memory_region(stack, SIM_STACK);
#endif
	if (spares < SPARES)
		spare[spares++] = stack;
	else
		munmap(stack, SIM_STACK);
}
