/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a progress thread waits: spin, yield or sleep. It goes by what became of
 * its last waits. How many cores there are, and who else polls on them, is
 * nowhere asked: a cpuset, other proxies and their ranks would make the answer
 * wrong, and the time that a yield takes tells the same.
 *
 * And when it gives way though it has work: while it works for more than one
 * tenant. Where cores are short, one that has work all the time would keep the
 * others' ranks, and the shard at the other end, waiting for all that is queued.
 * After a yield it keeps the core for a part of the time that this took, and for
 * all of it where other load had a scheduler's quantum: so it has no less of the
 * core than such load.
 *
 * One owner. No system call, no clock: times are handed in, in ns.
 */
#ifndef MPIB_ENGINE_PACE_H
#define MPIB_ENGINE_PACE_H

#include <stdbool.h>
#include <stdint.h>

/* A tenant that waits for an answer has nothing to say meanwhile. */
#define MPIB_PACE_LATELY_NS 100000000ull

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
	const void *served; /* the tenant, last */
	uint64_t shared_ns; /* when that was last another one; 0: never */
	uint64_t reconnect_ns; /* when others could last have the core */
	uint64_t keep_until; /* with work, it does not give way before */
};

void mpib_pace_init(struct mpib_pace *p);

/* The last look found something. */
static inline void mpib_pace_busy(struct mpib_pace *p)
{
	p->idle_since = 0;
}

/* It took in work of this tenant; only the address counts. */
static inline void mpib_pace_serve(struct mpib_pace *p, const void *tenant,
				   uint64_t now)
{
	if (p->served == tenant)
		return;
	if (p->served)
		p->shared_ns = now;
	p->served = tenant;
}

/* Whether it worked for more than one of late. */
static inline bool mpib_pace_is_shared(const struct mpib_pace *p, uint64_t now)
{
	return p->shared_ns && now - p->shared_ns < MPIB_PACE_LATELY_NS;
}

/* It found something, and is shared: whether to yield before the next. */
bool mpib_pace_gives_way(const struct mpib_pace *p, uint64_t now);
/* It found nothing: what to do before the next. */
enum mpib_wait mpib_pace_idle(struct mpib_pace *p, uint64_t now);
/* The yield is over now and took so long, the sleep so long. */
void mpib_pace_yielded(struct mpib_pace *p, uint64_t now, uint64_t ns);
void mpib_pace_slept(struct mpib_pace *p, uint64_t ns);

#endif
