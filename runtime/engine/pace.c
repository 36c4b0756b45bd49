/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/pace.h"

#define SPIN_MIN_NS 5000ull
#define SPIN_MAX_NS 200000ull
/* A switch to somebody else and back takes longer. */
#define TAKEN_NS 1000
/* After so many yields that nobody took the core is ours, and a yield is but a
 * system call that comes between two looks: only every few looks then. */
#define ALONE 64
#define LOOKS_ALONE 8
/* As long as a short turn: a yield that is taken costs 2 us. */
#define RUN_NS 30000
/* No turns of other shards take so long, but a scheduler's quantum does. */
#define QUANTUM_NS 2500000
/* Of the time that a yield took, it then has the core. Less than the whole, so
 * that shards that yield to each other have ever shorter runs. */
#define KEEP_PART 4

void mpib_pace_init(struct mpib_pace *p)
{
	*p = (struct mpib_pace){ .spin_ns = SPIN_MAX_NS / 4 };
}

enum mpib_wait mpib_pace_idle(struct mpib_pace *p, uint64_t now)
{
	p->reconnect_ns = now;
	if (p->idle_since == 0)
		p->idle_since = now;
	if (now - p->idle_since >= p->spin_ns)
		return MPIB_WAIT_SLEEP;
	if (p->alone >= ALONE && ++p->looks % LOOKS_ALONE)
		return MPIB_WAIT_SPIN;
	return MPIB_WAIT_YIELD;
}

bool mpib_pace_gives_way(const struct mpib_pace *p, uint64_t now)
{
	return now - p->reconnect_ns >= RUN_NS && now >= p->keep_until;
}

void mpib_pace_yielded(struct mpib_pace *p, uint64_t now, uint64_t ns)
{
	p->reconnect_ns = now;
	p->keep_until = now + (ns < QUANTUM_NS ? ns / KEEP_PART : ns);
	if (ns >= TAKEN_NS)
		p->alone = 0;
	else if (p->alone < ALONE)
		p->alone++;
}

void mpib_pace_slept(struct mpib_pace *p, uint64_t ns)
{
	p->idle_since = 0;
	/* A sleep that was cut short at once was a mistake: spin longer. */
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
