/* SPDX-License-Identifier: Apache-2.0 */
/* Memory between two inaccessible pages. */
#ifndef MPIB_TESTS_GUARDED_H
#define MPIB_TESTS_GUARDED_H

#include <sys/mman.h>

#include "test.h"

#define GUARD ((size_t)4096)

static inline size_t guarded_bytes(size_t bytes)
{
	return (bytes + GUARD - 1) / GUARD * GUARD + 2 * GUARD;
}

/* Map zeroed memory between the two pages. */
static inline void *guarded_map(size_t bytes)
{
	size_t all = guarded_bytes(bytes);
	char *p =
		mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	assert_int_equal(
		mprotect(p + GUARD, all - 2 * GUARD, PROT_READ | PROT_WRITE),
		0);
	return p + GUARD;
}

static inline void guarded_unmap(void *p, size_t bytes)
{
	munmap((char *)p - GUARD, guarded_bytes(bytes));
}

#endif
