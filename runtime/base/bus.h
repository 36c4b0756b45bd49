/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying to and from memory whose pages another process can take away. A
 * descriptor's file may be sealed against shrinking, and yet its owner may punch
 * a hole into it; of huge pages there may then be no other, and the access ends
 * in SIGBUS. That has to be the owner's loss, not this process's end: such
 * accesses find memory of this process's own there from then on, as an HCA goes on
 * with the page that it has pinned.
 *
 * Any thread, wait-free, no system call unless it comes to that.
 */
#ifndef MPIB_BASE_BUS_H
#define MPIB_BASE_BUS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct mpib_bus {
	uintptr_t to, from;
	size_t len; /* 0: this thread copies nothing of that kind */
};

extern _Thread_local volatile struct mpib_bus mpib_bus;

/* What this thread accesses between these may be lost. Not nested. */
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

/* For programs, once: sets the process's handler of SIGBUS. Any other access that
 * ends in it still ends the process. -errno. */
int mpib_bus_catch(void);

#endif
