/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this end of a lane sends about its rails after the peer link broke.
 * Messages of a broken link are lost. So each end sends again those that the
 * state of its fence implies, and the other ignores what it has
 * (failover/fence.h). Control thread.
 */
#include "engine/lane/lane.h"

/* At least one message, even without bitmaps; the last one has more == 0. */
void mpib_rail_tell_fenced(struct mpib_lane *lane, unsigned rail,
			   uint32_t epoch)
{
	const struct mpib_recv_bitmaps *a =
		&lane->ctl.rail[rail].ours[epoch & 1];
	struct mpib_rail_msg msg = { .more = true };
	uint32_t at = 0;

	while (msg.more) {
		uint32_t n = a->n - at;

		if (n > MPIB_RECV_BITMAPS)
			n = MPIB_RECV_BITMAPS;
		for (uint32_t i = 0; i < n; i++)
			msg.bitmap[i] = a->v[at + i];
		at += n;
		msg.bitmaps = (uint8_t)n;
		msg.more = at < a->n;
		mpib_rail_send(lane, &msg, MPIB_RAIL_FENCED, rail, epoch);
	}
}

static void retell_fence(struct mpib_lane *lane, unsigned rail)
{
	const struct mpib_rail_control *ctl = &lane->ctl.rail[rail];
	struct mpib_rail_msg msg = { .cause = ctl->cause };
	uint32_t epoch = ctl->fence.epoch;
	enum mpib_fence_state state = ctl->fence.state;

	/* The peer may not have completed the fence before. */
	if (ctl->ours[(epoch - 1) & 1].kept)
		mpib_rail_tell_fenced(lane, rail, epoch - 1);
	if (state == MPIB_FENCE_STOPPING || state == MPIB_FENCE_STOPPED)
		mpib_rail_send(lane, &msg, MPIB_RAIL_FENCE, rail, epoch);
	if (state == MPIB_FENCE_STOPPED)
		mpib_rail_tell_fenced(lane, rail, epoch);
	if (state == MPIB_FENCE_RECONNECTING || state == MPIB_FENCE_PROBING) {
		mpib_lane_rail_local(lane, rail, &msg.info);
		mpib_rail_send(lane, &msg, MPIB_RAIL_RECONNECT, rail, epoch);
	}
	if ((state == MPIB_FENCE_PROBING || state == MPIB_FENCE_LIVE) &&
	    ctl->fence.probed)
		mpib_rail_send(lane, &msg, MPIB_RAIL_UP, rail, epoch);
	if (ctl->asks && !ctl->answered)
		mpib_rail_ask(lane, rail, (enum mpib_rail_ask)ctl->asks);
}

void mpib_lane_retell(struct mpib_lane *lane)
{
	uint8_t drained = mpib_rail_bits(
		lane->shard, mpib_engine_drained(lane->shard->engine));

	if (!lane->failover || !lane->ctl.settled || lane->ctl.over)
		return;
	for (unsigned r = 0; r < lane->rails; r++) {
		struct mpib_rail_msg msg = { .on = drained >> r & 1 };

		retell_fence(lane, r);
		mpib_rail_send(lane, &msg, MPIB_RAIL_DRAIN, r, 0);
	}
}

void mpib_lane_unlinked(struct mpib_lane *lane)
{
	for (unsigned r = 0; r < lane->rails; r++) {
		struct mpib_rail_control *ctl = &lane->ctl.rail[r];

		if (!ctl->fence.peer_fenced)
			ctl->theirs.n = 0;
	}
}
