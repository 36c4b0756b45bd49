/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A wake-up for one owner thread, which sleeps in epoll on an eventfd among
 * other descriptors. Any other thread first queues work, then rings. If the
 * word `dirty` is already set, the ringer makes no system call.
 *
 * mpib_bell_ring() and mpib_bell_heard() each make an atomic read-modify-write
 * of `dirty`. All threads see the read-modify-writes of one word in the same
 * order, so no fence is needed: either the owner notices the ring and then sees
 * the work queued before it, or the ringer finds `dirty` cleared and wakes the
 * owner.
 *
 * ck_ec of Concurrency Kit is not suitable, because a thread can wait for it
 * only on a futex.
 *
 * The owner clears `dirty` only after it has read a count from the eventfd. A
 * ringer sets `dirty` before it writes to the eventfd. If the owner cleared
 * `dirty` in between, nothing would read that count, and the owner could never
 * sleep again.
 */
#ifndef MPIB_BASE_BELL_H
#define MPIB_BASE_BELL_H

#include <stdatomic.h>
#include <stdbool.h>

struct mpib_bell {
	/* a write to `fd` was made or is about to be made */
	_Atomic unsigned dirty;
	int fd; /* eventfd, readable after a ring */
};

/* 0 or -errno. */
int mpib_bell_init(struct mpib_bell *bell);
void mpib_bell_fini(struct mpib_bell *bell);

/* Any thread, lock-free. Queue the work first. Makes one system call if the
 * owner has noticed all earlier rings, otherwise none. */
void mpib_bell_ring(struct mpib_bell *bell);

/* Return whether mpib_bell_heard() may return true. Only the threads that call
 * mpib_bell_heard() use this. Relaxed: if this load misses an mpib_bell_ring(),
 * that call makes fd readable and wakes the owner. */
static inline bool mpib_bell_rang(const struct mpib_bell *bell)
{
	return atomic_load_explicit(&bell->dirty, memory_order_relaxed) != 0;
}

/* Return whether the bell rang since the last call. Call it only on the owner
 * thread, or on several threads under one lock. A later ring wakes the owner
 * again. Makes no system call if the bell did not ring. */
bool mpib_bell_heard(struct mpib_bell *bell);

#endif
