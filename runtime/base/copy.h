/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing to memory that other threads or processes read at the same time. Any
 * thread, wait-free.
 */
#ifndef MPIB_BASE_COPY_H
#define MPIB_BASE_COPY_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Copy into memory that a GPU kernel or another thread polls meanwhile: in
 * ascending order, with stores of 8 bytes or more where alignment allows, each
 * visible only after all stores below it. */
void mpib_copy_up(void *to, const void *from, size_t len);
/* Zero memory in atomic stores of 8 bytes. For memory that another thread will
 * write once a remote node has told it of the memory: neither the compiler nor
 * a race checker can see that order. to and len are multiples of 8. */
void mpib_zero_words(void *to, size_t len);

/*
 * Copying to and from memory whose pages another process can take away. A file
 * may be sealed against shrinking, and yet its owner can punch a hole into it;
 * if the file has huge pages and none is left to fill the hole, the access ends
 * in SIGBUS. The process that punched the hole shall lose its data, but this
 * process shall not end: the SIGBUS handler maps anonymous memory at the
 * faulting address, and from then on this process finds that memory there (just
 * as an HCA goes on with the page that it has pinned).
 *
 * Any thread, wait-free, no system call unless a page is missing.
 */

struct mpib_bus {
	uintptr_t to, from;
	size_t len; /* 0: no such copy in this thread now */
};

extern _Thread_local volatile struct mpib_bus mpib_bus;

/* Pages that this thread accesses at to and from, len bytes each, between
 * mpib_bus_begin() and mpib_bus_end() may be missing. Not nested. */
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

/* Set the process's SIGBUS handler; called once, by a program and not by the
 * library. Any other access that causes SIGBUS still ends the process. 0 or
 * -errno. */
int mpib_bus_catch(void);

#endif
