/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a shard thread waits: it spins, yields or sleeps, depending on how its
 * last waits ended. The thread measures how long a yield takes. It does not
 * count cores and polling threads, because the counts would be wrong with a
 * cpuset or beside other proxies and their ranks.
 *
 * If a yield takes a millisecond or more, an idle shard sleeps instead of
 * yielding, for a period of 8 ms. Then the shard yields again. If this yield
 * also takes a millisecond or more, the next period is 16 ms, and so on up to
 * half a second.
 *
 * A shard that serves several tenants also yields while it has work. Otherwise,
 * on a machine with few cores, a busy shard would delay other tenants' ranks
 * and the peer's shard until all its work is done. After a yield the shard
 * keeps the core for a part of the time that the yield took. If another process
 * used a scheduler quantum during the yield, the shard keeps the core for the
 * whole time that the yield took. So the shard and that process get equal parts
 * of the core.
 *
 * Owned by one shard thread. It makes no system call and reads no clock: the
 * caller passes times, in ns.
 */
#ifndef MPIB_ENGINE_PACE_H
#define MPIB_ENGINE_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A shard counts as shared for this long after it last switched tenants. A
 * tenant that waits for its peer submits nothing, but still shares the
 * shard. */
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
	/* the tenant served last; NULL: none, or the tenant is gone */
	const void *served;
	uint64_t shared_ns; /* time when `served` last changed; 0: never */
	uint64_t yielded_ns; /* when other threads last could run */
	/* until this time a shard with work does not yield */
	uint64_t keep_until;
	/* Until this time an idle shard sleeps instead of yielding. */
	uint64_t dear_until;
	uint64_t dear_ns; /* length of the last such period */
};

void mpib_pace_init(struct mpib_pace *p);

/* Record that the last turn found work. */
static inline void mpib_pace_busy(struct mpib_pace *p)
{
	p->idle_since = 0;
}

/* Record that the shard accepted work of this tenant. Only the address of the
 * tenant is compared. */
static inline void mpib_pace_serve(struct mpib_pace *p, const void *tenant,
				   uint64_t now)
{
	if (p->served == tenant)
		return;
	if (p->served)
		p->shared_ns = now;
	p->served = tenant;
}

/* Forget the address of a tenant that has left. Otherwise a new tenant at the
 * same address would count as the old one. */
static inline void mpib_pace_forget(struct mpib_pace *p, const void *tenant)
{
	if (p->served == tenant)
		p->served = NULL;
}

/* Return whether the shard recently worked for several tenants. */
static inline bool mpib_pace_is_shared(const struct mpib_pace *p, uint64_t now)
{
	return p->shared_ns && now - p->shared_ns < MPIB_PACE_LATELY_NS;
}

/* After a turn that found work on a shared shard: return whether to yield
 * before the next turn. */
bool mpib_pace_gives_way(const struct mpib_pace *p, uint64_t now);
/* Return what to do before the next turn, after a turn found nothing. */
enum mpib_wait mpib_pace_idle(struct mpib_pace *p, uint64_t now);
/* Record that a yield or a sleep of `ns` ended. For a yield, `now` is the time
 * of its end. */
void mpib_pace_yielded(struct mpib_pace *p, uint64_t now, uint64_t ns);
void mpib_pace_slept(struct mpib_pace *p, uint64_t ns);

#endif
