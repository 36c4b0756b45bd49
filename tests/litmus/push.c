/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client pushes a descriptor while the shard goes to sleep. This program
 * tests mpib_summary_tell() and mpib_shard_sleeps() of include/mpib/segment.h.
 * WITHOUT_TELL sets the bits without a read-modify-write. WITHOUT_DOZE
 * announces the sleep only by a release store.
 */
#include <stdatomic.h>

#ifdef WITHOUT_TELL
#undef atomic_fetch_or
#define atomic_fetch_or(p, bits)                                               \
	atomic_store_explicit(                                                 \
		p, atomic_load_explicit(p, memory_order_relaxed) | (bits),     \
		memory_order_release)
#endif
#ifdef WITHOUT_DOZE
#undef atomic_store
#define atomic_store(p, value)                                                 \
	atomic_store_explicit(p, value, memory_order_release)
#endif
#include <mpib/segment.h>

#include "litmus.h"

static struct place {
	struct mpib_status_shard shard;
	struct mpib_summary summary;
	_Alignas(64) bool rings;
	_Alignas(64) bool seen;
} place[LITMUS_PLACES];

static void renew(unsigned i)
{
	place[i] = (struct place){ 0 };
}

static void tell(unsigned i)
{
	struct place *p = &place[i];

	p->rings = mpib_summary_tell(&p->summary.word[0], 1, &p->summary.top, 1,
				     &p->shard.sleeping);
}

static void doze(unsigned i)
{
	struct place *p = &place[i];

	mpib_shard_sleeps(&p->shard);
	p->seen = mpib_summary_any(&p->summary);
}

static bool lost(unsigned i)
{
	return !place[i].rings && !place[i].seen;
}

int main(void)
{
	const struct litmus l = { renew, tell, doze, lost };

	return litmus(&l, LITMUS_WHOLE);
}
