/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a progress thread waits: spin, yield or sleep. It goes by what became of
 * its last waits. How many cores there are, and who else polls on them, is
 * nowhere asked: a cpuset, other proxies and their ranks would make the answer
 * wrong, and the time that a yield takes tells the same.
 *
 * One owner. No system call, no clock: times are handed in, in ns.
 */
#ifndef MPIB_ENGINE_PACE_H
#define MPIB_ENGINE_PACE_H

#include <stdint.h>

enum mpib_wait {
	MPIB_WAIT_SPIN, /* look again */
	MPIB_WAIT_YIELD, /* give the core away, then mpib_pace_yielded() */
	MPIB_WAIT_SLEEP, /* until woken, then mpib_pace_slept() */
};

struct mpib_pace {
	uint64_t spin_ns; /* idle time before sleep */
	uint64_t idle_since; /* 0: not idle */
	uint32_t looks; /* in vain */
	uint32_t alone; /* yields in a row that nobody took */
};

void mpib_pace_init(struct mpib_pace *p);

/* The last look found something. */
static inline void mpib_pace_busy(struct mpib_pace *p)
{
	p->idle_since = 0;
}

/* It found nothing: what to do before the next. */
enum mpib_wait mpib_pace_idle(struct mpib_pace *p, uint64_t now);
/* The yield took so long, the sleep so long. */
void mpib_pace_yielded(struct mpib_pace *p, uint64_t ns);
void mpib_pace_slept(struct mpib_pace *p, uint64_t ns);

#endif
