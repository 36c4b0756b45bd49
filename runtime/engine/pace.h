/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a shard thread waits: spin, yield or sleep, decided by how its last waits
 * ended. It never asks how many cores there are or which threads poll on them:
 * a cpuset, other proxies and their ranks would make the answer wrong, and the
 * time that a yield takes tells the same.
 *
 * Where a yield gives the core to others for a millisecond or more, it sleeps at
 * once for 8 ms, and then tries a yield again; if that is as dear, for 16, and so on
 * up to half a second.
 *
 * A shard that serves more than one tenant also yields while it has work. Where
 * cores are short, a shard that is busy all the time would otherwise keep the
 * other tenants' ranks, and the peer's shard, waiting until its whole queue is
 * done. After a yield the shard keeps the core for a part of the time that the
 * yield took, or for all of that time if another process had a scheduler
 * quantum: so the shard gets no less of the core than that process.
 *
 * Owned by one shard thread. No system call, no clock: the caller passes times,
 * in ns.
 */
#ifndef MPIB_ENGINE_PACE_H
#define MPIB_ENGINE_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A shard counts as shared this long after it changed between tenants: a
 * tenant that waits for its peer submits nothing meanwhile. */
#define MPIB_PACE_LATELY_NS 100000000ull

enum mpib_wait {
	MPIB_WAIT_SPIN, /* poll again at once */
	MPIB_WAIT_YIELD, /* sched_yield(), then mpib_pace_yielded() */
	MPIB_WAIT_SLEEP, /* sleep until woken, then mpib_pace_slept() */
};

struct mpib_pace {
	uint64_t spin_ns; /* idle time before a sleep */
	uint64_t idle_since; /* 0: not idle */
	uint32_t looks; /* turns that found nothing */
	uint32_t alone; /* yields in a row that ran no other thread */
	const void *served; /* the tenant served last; NULL: none, or it left */
	uint64_t shared_ns; /* when served last changed; 0: never */
	uint64_t yielded_ns; /* when other threads last could run */
	uint64_t keep_until; /* a shard with work does not yield before this */
	uint64_t dear_until; /* an idle one sleeps in place of yielding */
	uint64_t dear_ns; /* for how long it does, the last time */
};

void mpib_pace_init(struct mpib_pace *p);

/* The last turn found work. */
static inline void mpib_pace_busy(struct mpib_pace *p)
{
	p->idle_since = 0;
}

/* The shard took in work of this tenant; only the address is compared. */
static inline void mpib_pace_serve(struct mpib_pace *p, const void *tenant,
				   uint64_t now)
{
	if (p->served == tenant)
		return;
	if (p->served)
		p->shared_ns = now;
	p->served = tenant;
}

/* The tenant has left. Its address may become another's, so whether the next one
 * counts as a change is not to depend on it: nobody is left to share with. */
static inline void mpib_pace_forget(struct mpib_pace *p, const void *tenant)
{
	if (p->served == tenant)
		p->served = NULL;
}

/* Whether the shard lately worked for more than one tenant. */
static inline bool mpib_pace_is_shared(const struct mpib_pace *p, uint64_t now)
{
	return p->shared_ns && now - p->shared_ns < MPIB_PACE_LATELY_NS;
}

/* The turn found work and the shard is shared: yield before the next turn? */
bool mpib_pace_gives_way(const struct mpib_pace *p, uint64_t now);
/* The turn found nothing: what to do before the next turn. */
enum mpib_wait mpib_pace_idle(struct mpib_pace *p, uint64_t now);
/* A yield, or a sleep, ended (at now) and took ns. */
void mpib_pace_yielded(struct mpib_pace *p, uint64_t now, uint64_t ns);
void mpib_pace_slept(struct mpib_pace *p, uint64_t ns);

#endif
