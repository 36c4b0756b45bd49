/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to the engine: the shard thread's actions when lanes break and rails
 * fail. */
#ifndef MPIB_ENGINE_STOP_H
#define MPIB_ENGINE_STOP_H

#include "engine/lane/lane.h"

/*
 * stop.c: shard thread.
 */
/* Break the lane and its connections, and tell the control thread. If
 * connections can resume, they end with MPIB_BROKEN_LOST. Otherwise they end
 * with -ETIMEDOUT if `error` is -ETIMEDOUT, else with -ECONNRESET. */
void mpib_lane_break(struct mpib_lane *lane, int error, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Post nothing more to the rail, and make the control thread fence it. Return
 * false if the lane has no failover. The caller must then break the lane. */
bool mpib_lane_fault(struct mpib_lane *lane, unsigned rail,
		     enum mpib_rail_cause cause);
/* Report to the control thread that the rail seems stuck. The control thread
 * asks the peer, and fences the rail if the rail is still stuck after both ends
 * have checked. */
void mpib_lane_suspect(struct mpib_lane *lane, unsigned rail);
/* Call after a completion. If the stop of the rail is now finished, complete
 * its stop call. */
void mpib_rail_check_stopped(struct mpib_lane *lane, unsigned rail);
/* Handle the completion of a probe of the rail. `ok`: there was no error. */
void mpib_rail_probed(struct mpib_lane *lane, unsigned rail, bool ok);
/* Mailbox handlers. The message is a call with a struct mpib_rail_job. */
void mpib_rail_on_stop(struct mpib_msg *msg);
void mpib_rail_on_connect(struct mpib_msg *msg);
void mpib_rail_on_resume(struct mpib_msg *msg);
void mpib_rail_on_drain(struct mpib_msg *msg);
void mpib_rail_on_late(struct mpib_msg *msg);
/* Add a zeroed bitmap and return it. Any thread. */
struct mpib_recv_bitmap *mpib_recv_bitmap_add(struct mpib_recv_bitmaps *a);

/* replay.c, shard thread. A mailbox handler like those of stop.c. The job has
 * the peer's receive bitmaps. */
void mpib_rail_on_bitmaps(struct mpib_msg *msg);
/* Compare two bitmaps, for qsort(), in the order that mpib_rail_on_bitmaps()
 * needs. Any thread. */
int mpib_recv_bitmap_order(const void *a, const void *b);

/* watch.c: shard thread. Call once in MPIB_WATCH_TURNS turns and before each
 * sleep. The function checks the rails at most once in MPIB_WATCH_MS. */
#define MPIB_WATCH_TURNS 64
#define MPIB_WATCH_MS 10
void mpib_watch(struct mpib_shard *s);
/* Judge a rail after the peer's answer. Return true if the rail is stuck.
 * Return false if WRs have retired since the peer was asked, or if an end saw
 * progress during its check (`moved`). If the result is false, the watchdog
 * restarts. */
bool mpib_watch_is_stuck(struct mpib_lane *lane, unsigned rail, bool moved);

/* watch.c: shard thread. A mailbox handler like those of stop.c. The call
 * completes after the rail's device had time to make progress. Then
 * job->look.moved tells whether the rail made progress. */
void mpib_rail_on_look(struct mpib_msg *msg);
/* End the checks of a lane that is being killed. */
void mpib_looks_end(struct mpib_lane *lane);
/* Return whether the shard must stay awake, so that a check ends soon. */
bool mpib_looks_keep_awake(const struct mpib_shard *s);

#endif
