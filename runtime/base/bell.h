/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A wake-up for one owner thread, which sleeps in epoll on an eventfd among
 * other descriptors. Any other thread first leaves work somewhere, then rings;
 * a ringer that finds the dirty word set already saves the system call.
 *
 * Ringing and hearing are both read-modify-writes of dirty. All threads see the
 * read-modify-writes of one word in the same order, so no fence is needed:
 * either the owner hears the ring and then sees the work left before it, or the
 * ringer finds dirty cleared and wakes the owner.
 *
 * Not ck_ec, whose owner waits on a futex and on nothing else.
 *
 * dirty is cleared only when a count was read from the eventfd: a ringer sets
 * dirty before it writes to the eventfd, and if the owner cleared dirty in
 * between, nobody would read that count and the owner could never sleep again.
 */
#ifndef MPIB_BASE_BELL_H
#define MPIB_BASE_BELL_H

#include <stdatomic.h>
#include <stdbool.h>

struct mpib_bell {
	_Atomic unsigned dirty; /* a write to fd was made or is under way */
	int fd; /* eventfd, readable after a ring */
};

/* 0 or -errno. */
int mpib_bell_init(struct mpib_bell *bell);
void mpib_bell_fini(struct mpib_bell *bell);

/* Any thread, lock-free. The caller has left its work before. One system call
 * if the owner has heard all earlier rings, else none. */
void mpib_bell_ring(struct mpib_bell *bell);

/* Whether mpib_bell_heard() may return true; its callers alone ask. Relaxed: a
 * ring missed here makes fd readable and wakes the owner. */
static inline bool mpib_bell_rang(const struct mpib_bell *bell)
{
	return atomic_load_explicit(&bell->dirty, memory_order_relaxed) != 0;
}

/*
 * Owner only, or several threads that take turns under a lock. Whether there
 * was a ring since the last call. A thread that rings after this returned, with
 * work that the owner may have missed, wakes the owner. No system call if there
 * was no ring.
 */
bool mpib_bell_heard(struct mpib_bell *bell);

#endif
