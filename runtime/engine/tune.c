/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings that may change while the engine runs. The control thread writes
 * them and the shards read them, both relaxed: the values are independent of
 * each other, and one more send op posted by an old value does no harm.
 */
#include <errno.h>

#include "base/clock.h"
#include "engine/recovery/failover.h"
#include "engine/shard.h"

static void tune_store(uint32_t *to, uint32_t value)
{
	__atomic_store_n(to, value, __ATOMIC_RELAXED);
}

void mpib_engine_tune(struct mpib_engine *engine,
		      const struct mpib_engine_config *cfg)
{
	if (engine->cfg.sup_bw != cfg->sup_bw)
		atomic_store_explicit(&engine->sup_bw_since, mpib_now_ns(),
				      memory_order_relaxed);
	tune_store(&engine->cfg.sup_bw, cfg->sup_bw);
	tune_store(&engine->cfg.lane_window, cfg->lane_window);
	tune_store(&engine->cfg.share_window, cfg->share_window);
	tune_store(&engine->cfg.times, cfg->times);
	for (unsigned i = 0; i < engine->shards; i++)
		tune_store(&engine->shard[i].times, cfg->times);
	engine->cfg.cq_whole = cfg->cq_whole; /* only this thread asks */
}

int mpib_engine_drain(struct mpib_engine *engine, unsigned rail, bool on)
{
	unsigned first = rail - rail % engine->cfg.rails;
	uint32_t all = ((1u << engine->cfg.rails) - 1) << first;
	uint32_t off = mpib_engine_drained(engine);

	off = on ? off | 1u << rail : off & ~(1u << rail);
	if (on && (off & all) == all)
		return -EBUSY;
	if (off == mpib_engine_drained(engine))
		return 0;
	atomic_store_explicit(&engine->drained, off, memory_order_relaxed);
	mpib_rail_drain(engine, rail, on);
	return 0;
}

uint32_t mpib_engine_drained(const struct mpib_engine *engine)
{
	return atomic_load_explicit(&engine->drained, memory_order_relaxed);
}
