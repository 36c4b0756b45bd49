/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evidence before a verdict. That a rail is silent for a time says nothing about
 * the rail while the peer's proxy, or this one, gets no core: so the peer's shard
 * is asked to look (LOOK), its answer (LOOKED) has this end's shard look, and only
 * then the rail is judged. A question that was lost with its peer link is asked again
 * on the next (retell.c), so each is answered, or the rail stops, or the lane ends by
 * peer.silence.
 * Control thread.
 */
#include "base/clock.h"
#include "engine/recovery/stop.h"

void mpib_rail_ask(struct mpib_lane *lane, unsigned rail,
		   enum mpib_rail_ask what)
{
	struct mpib_rail_control *ctl = &lane->ctl.rail[rail];
	struct mpib_rail_msg msg = { 0 };

	ctl->asks = (uint8_t)what;
	ctl->answered = false;
	mpib_rail_send(lane, &msg, MPIB_RAIL_LOOK, rail, ctl->fence.epoch);
}

static void look_for_peer(struct mpib_lane *lane, unsigned rail);

static void on_looked_for_peer(void *arg, int status)
{
	struct mpib_rail_job *job = arg;
	struct mpib_rail_control *ctl = &job->lane->ctl.rail[job->rail];
	struct mpib_rail_msg msg = { .moved = job->look.moved };

	(void)status;
	ctl->looking = false;
	if (job->lane->ctl.over)
		goto free_job;
	if (ctl->look_again)
		look_for_peer(job->lane, job->rail);
	else
		mpib_rail_send(job->lane, &msg, MPIB_RAIL_LOOKED, job->rail,
			       ctl->look_epoch);
free_job:
	mpib_rail_job_free(job);
}

static void look_for_peer(struct mpib_lane *lane, unsigned rail)
{
	lane->ctl.rail[rail].looking = true;
	lane->ctl.rail[rail].look_again = false;
	mpib_rail_job_run(mpib_rail_job_new(lane, rail), mpib_rail_on_look,
			  on_looked_for_peer);
}

void mpib_rail_asked(struct mpib_lane *lane, const struct mpib_rail_msg *msg)
{
	struct mpib_rail_control *ctl = &lane->ctl.rail[msg->rail];

	/* The peer asks again without an answer only after the rail stopped. One
	 * look at a time, however often a peer asks. */
	ctl->look_epoch = msg->epoch;
	if (ctl->looking)
		ctl->look_again = true;
	else
		look_for_peer(lane, msg->rail);
}

static void judge(struct mpib_lane *lane, unsigned rail,
		  enum mpib_rail_ask what, bool moved)
{
	struct mpib_rail_control *ctl = &lane->ctl.rail[rail];

	if (what == MPIB_ASK_STUCK && !moved) {
		mpib_failover_fault(lane, rail, MPIB_CAUSE_STUCK);
	} else if (what == MPIB_ASK_PROBES && moved) {
		mpib_rail_await_probes(lane, rail);
	} else if (what == MPIB_ASK_PROBES && !ctl->fence.probed) {
		ctl->cause = MPIB_CAUSE_PROBE;
		mpib_rail_act(lane, rail,
			      mpib_fence_probed(&ctl->fence, false));
	}
}

static void on_looked(void *arg, int status)
{
	struct mpib_rail_job *job = arg;
	struct mpib_rail_control *ctl = &job->lane->ctl.rail[job->rail];
	enum mpib_rail_ask what = (enum mpib_rail_ask)ctl->asks;

	(void)status;
	/* A rail that has stopped meanwhile asks nothing any more. */
	if (!job->lane->ctl.over && job->epoch == ctl->fence.epoch && what) {
		ctl->asks = MPIB_ASK_NOTHING;
		judge(job->lane, job->rail, what, job->look.moved);
	}
	mpib_rail_job_free(job);
}

void mpib_rail_answered(struct mpib_lane *lane, const struct mpib_rail_msg *msg)
{
	struct mpib_rail_control *ctl = &lane->ctl.rail[msg->rail];
	struct mpib_rail_job *job;

	if (!ctl->asks || ctl->answered || msg->epoch != ctl->fence.epoch)
		return;
	if (ctl->asks == MPIB_ASK_CONNECTED) {
		ctl->asks = MPIB_ASK_NOTHING;
		mpib_rail_probe(lane, msg->rail);
		return;
	}
	ctl->answered = true;
	job = mpib_rail_job_new(lane, msg->rail);
	job->look.stuck = ctl->asks == MPIB_ASK_STUCK;
	job->look.moved = msg->moved;
	mpib_rail_job_run(job, mpib_rail_on_look, on_looked);
}
