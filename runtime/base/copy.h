/* SPDX-License-Identifier: Apache-2.0 */
/* Copies into memory that other threads or processes read at the same time. Any
 * thread, wait-free. */
#ifndef MPIB_BASE_COPY_H
#define MPIB_BASE_COPY_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Copy into memory that a GPU kernel or another thread polls during the copy.
 * The stores are in ascending order, and each becomes visible only after all
 * stores to lower addresses. Where alignment allows, a store has 8 bytes or
 * more. */
void mpib_copy_up(void *to, const void *from, size_t len);
/* Zero memory in atomic stores of 8 bytes. Use this for memory whose address is
 * sent to a remote node afterwards. Only then does another thread write to the
 * memory, but neither the compiler nor a race checker can see this order. `to`
 * and `len` must be multiples of 8. */
void mpib_zero_words(void *to, size_t len);

/*
 * Copies to and from memory whose pages another process can remove. A file may
 * be sealed against shrinking, but its owner can still punch a hole into it. If
 * the file has huge pages and no huge page is left to fill the hole, an access
 * to the hole raises SIGBUS. The process that punched the hole may lose its
 * data, but this process must continue. So the SIGBUS handler maps anonymous
 * memory at the faulting address, and this process uses that memory from then
 * on. (An HCA likewise keeps using the pages that it has pinned.)
 *
 * Any thread, wait-free, no system call unless a page is missing.
 */

struct mpib_bus {
	uintptr_t to, from;
	size_t len; /* 0: this thread is making no guarded copy */
};

extern _Thread_local volatile struct mpib_bus mpib_bus;

/* Until mpib_bus_end(), guard this thread's accesses to `len` bytes at `to` and
 * at `from` against missing pages. The calls must not be nested. */
static inline void mpib_bus_begin(const void *to, const void *from, size_t len)
{
	mpib_bus.to = (uintptr_t)to;
	mpib_bus.from = (uintptr_t)from;
	mpib_bus.len = len;
	atomic_signal_fence(memory_order_seq_cst);
}

static inline void mpib_bus_end(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	mpib_bus.len = 0;
}

/* Set the process's SIGBUS handler, once. Only programs may call this, not the
 * library. Any other SIGBUS still ends the process. Return 0 or -errno. */
int mpib_bus_catch(void);

#endif
