/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the engine: what the shard does about lanes that break and rails that
 * fail.
 */
#ifndef MPIB_ENGINE_STOP_H
#define MPIB_ENGINE_STOP_H

#include "engine/lane/lane.h"

/*
 * break.c: shard.
 */
/* Every connection of the lane fails with -ECONNRESET, and control is told. */
void mpib_lane_break(struct mpib_lane *lane, int error, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Some QPs refused what they were to post: they are at fault. */
void mpib_lanes_refused(struct mpib_shard *s);
/* One doorbell for each QP that the turn has something for. */
static inline void mpib_qp_flush(struct mpib_shard *s)
{
	while (!LIST_EMPTY(&s->dirty))
		mpib_qp_ring(LIST_FIRST(&s->dirty));
	if (__builtin_expect(s->refused, 0))
		mpib_lanes_refused(s);
}

/*
 * stop.c: shard.
 */
/* Post no more to the rail and have it fenced. False: the lane cannot do that
 * and has to be broken. */
bool mpib_lane_fault(struct mpib_lane *lane, unsigned rail,
		     enum mpib_rail_cause cause);
/* A completion came while the rail drains. */
void mpib_rail_check_stopped(struct mpib_lane *lane, unsigned rail);
/* The completion of a probe. */
void mpib_rail_probed(struct mpib_lane *lane, unsigned rail, bool ok);
/* Mailbox messages whose call is about a struct mpib_rail_job. */
void mpib_rail_on_stop(struct mpib_msg *msg);
void mpib_rail_on_connect(struct mpib_msg *msg);
void mpib_rail_on_resume(struct mpib_msg *msg);
void mpib_rail_on_drain(struct mpib_msg *msg);
void mpib_rail_on_grace(struct mpib_msg *msg);

/*
 * find_lost.c: shard. A mailbox message as those of stop.c: the job has the other
 * end's answers.
 */
void mpib_rail_on_bitmaps(struct mpib_msg *msg);

/*
 * watch.c: shard. Looks at most once in MPIB_WATCH_MS, and is asked to once in
 * MPIB_WATCH_TURNS turns and before each sleep.
 */
#define MPIB_WATCH_TURNS 64
#define MPIB_WATCH_MS 10
void mpib_watch(struct mpib_shard *s);

#endif
