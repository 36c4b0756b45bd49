/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spin, yield or sleep: see pace.h. Shard thread.
 */
#include "engine/pace.h"

#define SPIN_MIN_NS 5000ull
#define SPIN_MAX_NS 200000ull
/* If sched_yield() takes longer than this, another thread ran. */
#define TAKEN_NS 1000
/* If ALONE successive yields ran no other thread, assume that no other thread
 * needs this core. More yields would waste system calls, so yield only once in
 * LOOKS_ALONE polls. */
#define ALONE 64
#define LOOKS_ALONE 8
/* A shared shard with work yields after running this long, which is about a
 * short turn. A yield that runs another thread costs 2 us. */
#define RUN_NS 30000
/* If a yield took longer than this, another process ran for a scheduler
 * quantum. Turns of other shards are shorter. */
#define QUANTUM_NS 2500000
/* After a yield the shard keeps the core for 1/KEEP_PART of the time that the
 * yield took. The part must be less than 1: then the runs of two shards that
 * yield to each other become shorter. */
#define KEEP_PART 4

/*
 * If a yield took longer than this, other threads need the core for a long
 * time. The kernel may treat a thread that yields as if it had used its time
 * slice (Linux 6.18 does). A sleeping thread runs soon after its wake-up. So
 * the shard sleeps for a period instead of yielding. The first period is short,
 * because the other process may have needed the core only to start or to exit.
 * If a yield takes long again soon after the period, the period doubles.
 */
#define DEAR_NS 1000000
#define DEAR_MIN_NS 8000000
#define DEAR_MAX_NS 500000000

void mpib_pace_init(struct mpib_pace *p)
{
	*p = (struct mpib_pace){ .spin_ns = SPIN_MAX_NS / 4 };
}

enum mpib_wait mpib_pace_idle(struct mpib_pace *p, uint64_t now)
{
	p->yielded_ns = now;
	if (p->idle_since == 0)
		p->idle_since = now;
	if (now - p->idle_since >= p->spin_ns)
		return MPIB_WAIT_SLEEP;
	if (now < p->dear_until)
		return MPIB_WAIT_SLEEP;
	if (p->alone >= ALONE && ++p->looks % LOOKS_ALONE)
		return MPIB_WAIT_SPIN;
	return MPIB_WAIT_YIELD;
}

bool mpib_pace_gives_way(const struct mpib_pace *p, uint64_t now)
{
	return now - p->yielded_ns >= RUN_NS && now >= p->keep_until;
}

static void pace_yields_are_dear(struct mpib_pace *p, uint64_t now)
{
	if (now >= p->dear_until + p->dear_ns)
		p->dear_ns = DEAR_MIN_NS;
	else if (p->dear_ns < DEAR_MAX_NS / 2)
		p->dear_ns *= 2;
	else
		p->dear_ns = DEAR_MAX_NS;
	p->dear_until = now + p->dear_ns;
}

void mpib_pace_yielded(struct mpib_pace *p, uint64_t now, uint64_t ns)
{
	p->yielded_ns = now;
	p->keep_until = now + (ns < QUANTUM_NS ? ns / KEEP_PART : ns);
	if (ns >= DEAR_NS)
		pace_yields_are_dear(p, now);
	if (ns >= TAKEN_NS)
		p->alone = 0;
	else if (p->alone < ALONE)
		p->alone++;
}

void mpib_pace_slept(struct mpib_pace *p, uint64_t ns)
{
	p->idle_since = 0;
	/* Such a short sleep costs more than it saves: spin longer next
	 * time. */
	if (ns < 4 * SPIN_MAX_NS) {
		p->spin_ns *= 2;
		if (p->spin_ns > SPIN_MAX_NS)
			p->spin_ns = SPIN_MAX_NS;
	} else {
		p->spin_ns /= 2;
		if (p->spin_ns < SPIN_MIN_NS)
			p->spin_ns = SPIN_MIN_NS;
	}
}
