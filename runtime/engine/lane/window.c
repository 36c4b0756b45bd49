/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many bytes may be in flight on a rail at once, for all its lanes. Shard
 * thread.
 *
 * The order of the DRR classes decides nothing about bytes that wait in send
 * queues and sockets already: there each QP has the same share. So while
 * tenants compete or weights differ, a rail has at most share.window bytes in
 * flight, and the room that a completion makes goes to the next connection in
 * the order of the DRR classes. Otherwise only each lane's own window counts,
 * and no lane waits for another.
 *
 * A small message of a lane that has nothing in flight does not wait until long
 * ones of others have made room: for these there is an eighth of the window more.
 */
#include "engine/lane/lane.h"

#define LOOK_NS 1000000ull
#define LOOKS 20
#define SMALL 4096u
#define MORE 8 /* the part of the window */

/* A lane is parked when nothing of its bytes in flight was acknowledged for
 * LOOKS looks in a row and for four round trips. Looks are counted rather than
 * time, so that a process that was suspended blames no lane. */
static bool is_parked(struct mpib_lane *lane, unsigned r)
{
	const struct mpib_tracker *t = &lane->track[r];
	uint64_t usual = 4 * t->srtt / LOOK_NS;

	if (t->inflight == 0 || t->acked != lane->looked[r].acked)
		lane->looked[r].times = 0;
	lane->looked[r].acked = t->acked;
	return ++lane->looked[r].times > (usual > LOOKS ? usual : LOOKS);
}

/* Bytes in flight on parked lanes. Other lanes do not wait for these. */
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

	/* The last send op may exceed the window, so that any size passes. */
	if (window == 0 || rail->bytes.inflight < window)
		return false;
	if (s->now - rail->parked_ns > LOOK_NS) {
		rail->parked = window_parked(s, r);
		rail->parked_ns = s->now;
	}
	return rail->bytes.inflight >= rail->parked + window;
}

bool mpib_window_passes(const struct mpib_lane *lane, unsigned r,
			uint32_t bytes)
{
	const struct mpib_engine_config *cfg = &lane->shard->engine->cfg;
	const struct mpib_rail *rail = &lane->shard->rail[r];
	uint64_t window = __atomic_load_n(&cfg->share_window, __ATOMIC_RELAXED);

	return bytes <= SMALL && lane->track[r].inflight == 0 &&
	       rail->bytes.inflight < rail->parked + window + window / MORE;
}
