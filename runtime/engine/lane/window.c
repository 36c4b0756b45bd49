/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much a rail is given at once.
 *
 * The order of DRR classes decides nothing once bytes wait in send queues and
 * sockets, where each QP has the same turn. So where tenants compete, or weights
 * differ, a rail is given only so much (share.window), and the room that a
 * completion makes is that of whose turn it is. Elsewhere lanes have only their
 * own windows, and no lane waits for another.
 */
#include "engine/lane/lane.h"

#define LOOK_NS 1000000ull
#define LOOKS 20

/* A lane is parked when it acknowledged nothing at so many looks, and for four
 * times its round trip. Looks, not time: if the process stood still, no lane is
 * to blame. */
static bool is_parked(struct mpib_lane *lane, unsigned r)
{
	const struct mpib_tracker *t = &lane->track[r];
	uint64_t usual = 4 * t->srtt / LOOK_NS;

	if (t->inflight == 0 || t->acked != lane->looked[r].acked)
		lane->looked[r].times = 0;
	lane->looked[r].acked = t->acked;
	return ++lane->looked[r].times > (usual > LOOKS ? usual : LOOKS);
}

/* Bytes on lanes that do not move: others need not wait for those. */
static uint64_t window_parked(struct mpib_shard *s, unsigned r)
{
	struct mpib_lane *lane;
	uint64_t bytes = 0;

	TAILQ_FOREACH(lane, &s->lanes, link)
	{
		if (is_parked(lane, r))
			bytes += lane->track[r].inflight;
	}
	return bytes;
}

bool mpib_window_full(struct mpib_shard *s, unsigned r)
{
	const struct mpib_engine_config *cfg = &s->engine->cfg;
	struct mpib_rail *rail = &s->rail[r];
	uint32_t window = __atomic_load_n(&cfg->share_window, __ATOMIC_RELAXED);

	/* One send op may be beyond it, so that any size passes. */
	if (window == 0 || rail->inflight < window)
		return false;
	if (s->now - rail->parked_ns > LOOK_NS) {
		rail->parked = window_parked(s, r);
		rail->parked_ns = s->now;
	}
	return rail->inflight >= rail->parked + window;
}
