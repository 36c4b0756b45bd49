/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unacknowledged stripes of one rail of a lane: see tracker.h. Shard thread.
 */
#include "engine/split/tracker.h"

void mpib_tracker_init(struct mpib_tracker *t)
{
	*t = (struct mpib_tracker){ 0 };
	t->sum = &t->own;
	TAILQ_INIT(&t->unacked);
}

void mpib_tracker_round(struct mpib_tracker *t, uint64_t now)
{
	t->ends = (struct mpib_track_ends){ .since = now,
					    .bytes = t->sum->bytes,
					    .ns = t->sum->ns };
}

uint64_t mpib_tracker_busy(const struct mpib_tracker *t, uint64_t now)
{
	if (TAILQ_EMPTY(&t->unacked))
		return t->busy_ns;
	return t->busy_ns + (now - t->busy_since);
}
