/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine counts, against what it has: whenever its shards halt, and at
 * the end of a run. */
#include "engine/shard.h"
#include "sim_node.h"
#include "sim_world.h"

void __real_mpib_engine_halt(struct mpib_engine *engine);
void __wrap_mpib_engine_halt(struct mpib_engine *engine);

void sim_sums_check(struct mpib_engine *engine)
{
	struct mpib_sum sum;

	for (unsigned i = 0; i < engine->shards; i++) {
		if (!mpib_shard_sums(&engine->shard[i], &sum))
			sim_fail("shard %u: %s: %llu are owed, and their "
				 "owners have %llu",
				 i, sum.what, (unsigned long long)sum.owed,
				 (unsigned long long)sum.have);
	}
}

void __wrap_mpib_engine_halt(struct mpib_engine *engine)
{
	__real_mpib_engine_halt(engine);
	sim_sums_check(engine);
}
