/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A wake-up for one owner, who sleeps on a descriptor among others. Any thread
 * leaves work and rings; who finds it dirty already saves the system call.
 *
 * Ringing and hearing are read-modify-writes of one word, which no two threads
 * can see in different orders, so neither needs a fence: either the owner hears
 * the ring, and then sees what was left before it, or the ringer finds the word
 * cleared and wakes the owner.
 *
 * The word is cleared only with the descriptor: one that rings has set the word
 * before he writes, and what he then writes must not lie there with the word at
 * 0, for nobody would read it and the owner could not sleep any more.
 */
#ifndef MPIB_BASE_BELL_H
#define MPIB_BASE_BELL_H

#include <stdatomic.h>
#include <stdbool.h>

struct mpib_bell {
	_Atomic unsigned dirty; /* a write to fd was made, or is under way */
	int fd; /* eventfd, readable once it is dirty */
};

/* -errno. */
int mpib_bell_init(struct mpib_bell *bell);
void mpib_bell_fini(struct mpib_bell *bell);

/* Any thread, lock-free. The work is there before. One system call when nobody
 * has dirty since the owner last heard it. */
void mpib_bell_ring(struct mpib_bell *bell);

/*
 * Owner only, or those who take turns by a lock. Whether anybody rang; whoever
 * rings after this returns, with work that the owner may not see, wakes it. No
 * system call when nobody has.
 */
bool mpib_bell_heard(struct mpib_bell *bell);

/* Take what was written to an eventfd. Never waits, not even if somebody else
 * who has the descriptor made it block. False: nothing was there. */
bool mpib_eventfd_take(int fd);

#endif
