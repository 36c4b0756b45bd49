/* SPDX-License-Identifier: Apache-2.0 */
/* The control thread's part in a rail's failover: faults and the messages of
 * the peer's proxy are events of the rail's struct mpib_fence, and this file
 * carries out the actions that the fence returns. */
#include "engine/recovery/stop.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/event.h"
#include "base/xalloc.h"
#include "engine/lane/lane.h"
#include "engine/trace.h"

/* Most bitmaps of one fence: both directions of every connection of a shard,
 * but no more than the lane ever had connections, because the peer starts none
 * that was not created here first. */
#define ANSWERS_MAX (2ull * ENGINE_CONNS_MAX)

static void free_bitmaps(struct mpib_recv_bitmaps *a)
{
	free(a->v);
	*a = (struct mpib_recv_bitmaps){ 0 };
}

struct mpib_rail_job *mpib_rail_job_new(struct mpib_lane *lane, unsigned rail)
{
	struct mpib_rail_job *job = mpib_xcalloc(sizeof(*job));

	job->lane = lane;
	job->rail = rail;
	job->epoch = lane->ctl.rail[rail].fence.epoch;
	job->cause = lane->ctl.rail[rail].cause;
	return job;
}

void mpib_rail_job_free(struct mpib_rail_job *job)
{
	free_bitmaps(&job->bitmaps);
	free(job);
}

void mpib_rail_job_run(struct mpib_rail_job *job, mpib_msg_fn *fn,
		       mpib_done_fn *done)
{
	struct mpib_call *call = mpib_call_new(job, done, job);

	mpib_mailbox_send(&job->lane->shard->mailbox, &call->msg, fn);
}

void mpib_rail_send(struct mpib_lane *lane, struct mpib_rail_msg *msg,
		    unsigned type, unsigned rail, uint32_t epoch)
{
	struct mpib_engine *e = lane->shard->engine;

	msg->type = (uint8_t)type;
	msg->rail = (uint8_t)rail;
	msg->epoch = epoch;
	if (e->events && e->events->lane_send)
		e->events->lane_send(e->ctx, lane, msg);
}

/* The order in which find_lost_find() searches. */
static int failover_order(const void *pa, const void *pb)
{
	const struct mpib_recv_bitmap *a = pa, *b = pb;

	if (a->sender != b->sender)
		return a->sender - b->sender;
	return (a->conn > b->conn) - (a->conn < b->conn);
}

static void failover_on_stopped(void *arg, int status)
{
	struct mpib_rail_job *job = arg;
	struct mpib_lane *lane = job->lane;
	struct mpib_rail_control *ctl = &lane->ctl.rail[job->rail];
	uint32_t epoch = ctl->fence.epoch;

	(void)status;
	if (!lane->ctl.over) {
		unsigned actions = mpib_fence_stopped(&ctl->fence);

		if (actions & MPIB_FENCE_ANSWER) {
			free_bitmaps(&ctl->ours[epoch & 1]);
			ctl->ours[epoch & 1] = job->bitmaps;
			ctl->ours[epoch & 1].kept = true;
			job->bitmaps = (struct mpib_recv_bitmaps){ 0 };
			mpib_rail_tell_fenced(lane, job->rail, epoch);
		}
		mpib_rail_act(lane, job->rail, actions);
	}
	mpib_rail_job_free(job);
}

static void tell_failover(const struct mpib_rail_job *job, uint64_t us)
{
	const struct mpib_lane *lane = job->lane;
	enum mpib_rail_cause cause = lane->ctl.rail[job->rail].cause;
	const struct mpib_event_about about = {
		.rails = 1u << mpib_rail_number(lane->shard, job->rail),
		.peer = lane->peer,
		.ns = us * 1000,
		.bytes = job->lost_bytes,
	};

	MPIB_TRACE(failover, job->rail, cause, us, job->lost_stripes,
		   job->lost_bytes);
	mpib_event(MPIB_LOG_WARN, "failover", &about,
		   "rail %s to %s: %s, fenced in %llu.%llu ms, replaying %u "
		   "stripes (%llu bytes) on the other rail",
		   mpib_rail_label(lane->shard, job->rail), lane->peer,
		   mpib_rail_cause_name(cause), (unsigned long long)us / 1000,
		   (unsigned long long)us / 100 % 10, job->lost_stripes,
		   (unsigned long long)job->lost_bytes);
}

static void on_replayed(void *arg, int status)
{
	struct mpib_rail_job *job = arg;
	struct mpib_lane *lane = job->lane;
	struct mpib_rail_control *ctl = &lane->ctl.rail[job->rail];

	(void)status;
	if (!lane->ctl.over) {
		uint64_t us = (mpib_now_ns() - ctl->stopped_ns) / 1000;

		tell_failover(job, us);
		mpib_rail_act(lane, job->rail,
			      mpib_fence_replayed(&ctl->fence));
	}
	mpib_rail_job_free(job);
}

static void begin_grace(struct mpib_lane *lane)
{
	struct mpib_engine *e = lane->shard->engine;

	for (unsigned r = 0; r < lane->rails; r++) {
		if (lane->ctl.rail[r].fence.state == MPIB_FENCE_LIVE)
			return;
	}
	if (lane->ctl.grace_until)
		return;
	lane->ctl.grace_until = mpib_now_ns() + e->cfg.grace_ms * 1000000ull;
	mpib_rail_arm(e, lane->ctl.grace_until);
	mpib_rail_hold_last(lane);
}

static void failover_stop(struct mpib_lane *lane, unsigned rail)
{
	struct mpib_rail_control *ctl = &lane->ctl.rail[rail];
	uint64_t now = mpib_now_ns();
	uint64_t calm = 16000000ull * lane->shard->engine->cfg.hold_ms;
	bool carried = ctl->resumed_ns >= ctl->stopped_ns;

	/* A rail that was up for sixteen hold-downs is healthy again: count its
	 * failures from 0. */
	if (carried && ctl->resumed_ns && now - ctl->resumed_ns > calm)
		ctl->failures = 0;
	/* A failed try disturbed no traffic. */
	ctl->retry = ctl->cause == MPIB_CAUSE_PROBE ||
		     (ctl->cause == MPIB_CAUSE_PEER && ctl->retry);
	ctl->failures += !ctl->retry;
	ctl->stopped_ns = now;
	mpib_rail_await_stop(lane, rail);
	lane->ctl.last = (uint8_t)rail;
	ctl->hold_until = ctl->probe_until = 0;
	ctl->asks = MPIB_ASK_NOTHING;
	mpib_lane_rail_to_err(lane, rail);
	mpib_rail_job_run(mpib_rail_job_new(lane, rail), mpib_rail_on_stop,
			  failover_on_stopped);
	begin_grace(lane);
}

static void failover_replay(struct mpib_lane *lane, unsigned rail)
{
	struct mpib_rail_control *ctl = &lane->ctl.rail[rail];
	struct mpib_rail_job *job = mpib_rail_job_new(lane, rail);

	job->bitmaps = ctl->theirs;
	ctl->theirs = (struct mpib_recv_bitmaps){ 0 };
	if (job->bitmaps.n)
		qsort(job->bitmaps.v, job->bitmaps.n, sizeof(*job->bitmaps.v),
		      failover_order);
	mpib_rail_job_run(job, mpib_rail_on_bitmaps, on_replayed);
}

void mpib_rail_act(struct mpib_lane *lane, unsigned rail, unsigned actions)
{
	struct mpib_rail_control *ctl = &lane->ctl.rail[rail];
	struct mpib_rail_msg msg = { .cause = ctl->cause };

	if (actions & MPIB_FENCE_STOP)
		failover_stop(lane, rail);
	if (actions & MPIB_FENCE_TELL)
		mpib_rail_send(lane, &msg, MPIB_RAIL_FENCE, rail,
			       ctl->fence.epoch);
	if (actions & MPIB_FENCE_REPLAY)
		failover_replay(lane, rail);
	if (actions & MPIB_FENCE_HOLD)
		mpib_rail_hold(lane, rail);
	if (actions & MPIB_FENCE_RECONNECT)
		mpib_rail_reconnect(lane, rail);
	/* Skip it if mpib_rail_reconnect() just failed to create QPs. */
	if (actions & MPIB_FENCE_CONNECT &&
	    ctl->fence.state == MPIB_FENCE_PROBING)
		mpib_rail_connect(lane, rail);
	if (actions & MPIB_FENCE_TELL_UP)
		mpib_rail_send(lane, &msg, MPIB_RAIL_UP, rail,
			       ctl->fence.epoch);
	if (actions & MPIB_FENCE_RESUME)
		mpib_rail_resume(lane, rail);
}

void mpib_failover_fault(struct mpib_lane *lane, unsigned rail,
			 enum mpib_rail_cause cause)
{
	struct mpib_rail_control *ctl = &lane->ctl.rail[rail];
	unsigned actions;

	if (lane->ctl.over)
		return;
	/* Only probes are posted yet. */
	if (ctl->fence.state == MPIB_FENCE_PROBING && cause == MPIB_CAUSE_ERROR)
		cause = MPIB_CAUSE_PROBE;
	actions = mpib_fence_fault(&ctl->fence);
	if (actions & MPIB_FENCE_STOP)
		ctl->cause = (uint8_t)cause;
	mpib_rail_act(lane, rail, actions);
}

static void set_health(struct mpib_lane *lane, unsigned rail, bool up)
{
	struct mpib_rail_control *ctl = &lane->ctl.rail[rail];
	unsigned actions;

	if (!lane->failover || !lane->ctl.settled || lane->ctl.over)
		return;
	actions = mpib_fence_health(&ctl->fence, up);
	if (actions & MPIB_FENCE_HOLD)
		ctl->retry = false;
	if (actions & MPIB_FENCE_STOP)
		ctl->cause = MPIB_CAUSE_PORT;
	mpib_rail_act(lane, rail, actions);
}

/* Tell the fence that the port went down, even if it is up again: the QPs may
 * use an address that is gone. */
static void look_for_downs(struct mpib_lane *lane, unsigned r)
{
	struct mpib_rail_control *ctl = &lane->ctl.rail[r];
	uint32_t downs = lane->shard->rail[r].downs;

	if (ctl->downs == downs)
		return;
	ctl->downs = downs;
	set_health(lane, r, false);
}

void mpib_rail_look(struct mpib_lane *lane)
{
	for (unsigned r = 0; r < lane->rails; r++) {
		bool up = lane->shard->rail[r].up;

		look_for_downs(lane, r);
		if (lane->ctl.rail[r].fence.healthy != up)
			set_health(lane, r, up);
	}
}

void mpib_engine_rail_port(struct mpib_engine *engine, unsigned shard,
			   unsigned rail, bool up)
{
	struct mpib_shard *s = &engine->shard[shard];
	uint64_t now = mpib_now_ns();
	struct mpib_lane *lane;

	s->rail[rail].up = up;
	s->rail[rail].downs += !up;
	TAILQ_FOREACH(lane, &engine->lanes, made_link)
	{
		if (lane->shard != s || rail >= lane->rails)
			continue;
		if (mpib_now_ns() - now >= MPIB_RAIL_TURN_NS) {
			mpib_rail_arm(engine, now);
			return;
		}
		look_for_downs(lane, rail);
		set_health(lane, rail, up);
	}
}

void mpib_lane_established(struct mpib_lane *lane)
{
	uint8_t drained = mpib_rail_bits(
		lane->shard, mpib_engine_drained(lane->shard->engine));

	for (unsigned r = 0; r < lane->rails; r++)
		mpib_fence_init(&lane->ctl.rail[r].fence, true);
	lane->ctl.settled = true;
	mpib_rail_look(lane);
	for (unsigned r = 0; r < lane->rails; r++) {
		if (drained & mpib_rail_bit(r))
			mpib_rail_tell_drain(lane, r, true);
	}
}

void mpib_failover_end(struct mpib_lane *lane)
{
	lane->ctl.over = true;
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		struct mpib_rail_control *ctl = &lane->ctl.rail[r];

		free_bitmaps(&ctl->theirs);
		free_bitmaps(&ctl->ours[0]);
		free_bitmaps(&ctl->ours[1]);
	}
}

static bool take_bitmaps(struct mpib_lane *lane,
			 const struct mpib_rail_msg *msg)
{
	struct mpib_rail_control *ctl = &lane->ctl.rail[msg->rail];
	struct mpib_recv_bitmaps *a = &ctl->theirs;
	uint64_t all = (uint64_t)a->n + msg->bitmaps;

	if (mpib_fence_past(&ctl->fence, msg->epoch) || ctl->fence.peer_fenced)
		return true; /* repeated bitmaps */
	if (msg->epoch != ctl->fence.epoch ||
	    msg->bitmaps > MPIB_RECV_BITMAPS || all > ANSWERS_MAX ||
	    all > lane->ctl.conns)
		return false;
	while (a->n + msg->bitmaps > a->room) {
		a->room = a->room ? 2 * a->room : 64;
		a->v = mpib_xrealloc(a->v, a->room * sizeof(*a->v));
	}
	for (unsigned i = 0; i < msg->bitmaps; i++)
		a->v[a->n++] = msg->bitmap[i];
	a->lost = msg->lost;
	return true;
}

static bool fence_message(struct mpib_lane *lane, enum mpib_fence_msg type,
			  const struct mpib_rail_msg *msg)
{
	struct mpib_rail_control *ctl = &lane->ctl.rail[msg->rail];
	uint32_t epoch = ctl->fence.epoch;
	unsigned actions;

	/* The peer completed the last fence: it has this end's bitmaps. */
	if (msg->epoch == epoch)
		free_bitmaps(&ctl->ours[(epoch - 1) & 1]);
	if (!mpib_fence_message(&ctl->fence, type, msg->epoch, &actions))
		return false;
	if (actions & MPIB_FENCE_STOP) {
		ctl->cause = MPIB_CAUSE_PEER;
		ctl->retry = msg->cause == MPIB_CAUSE_PROBE;
	}
	mpib_rail_act(lane, msg->rail, actions);
	return true;
}

bool mpib_lane_receive(struct mpib_lane *lane, const struct mpib_rail_msg *msg)
{
	struct mpib_rail_control *ctl;

	if (lane->ctl.over)
		return true;
	if (!lane->ctl.settled || !lane->failover || msg->rail >= lane->rails)
		return false;
	ctl = &lane->ctl.rail[msg->rail];
	switch ((enum mpib_rail_msg_type)msg->type) {
	case MPIB_RAIL_FENCE:
		return fence_message(lane, MPIB_FENCE_MSG_FENCE, msg);
	case MPIB_RAIL_FENCED:
		if (!take_bitmaps(lane, msg))
			return false;
		return msg->more ||
		       fence_message(lane, MPIB_FENCE_MSG_FENCED, msg);
	case MPIB_RAIL_RECONNECT:
		if (msg->info.qps != lane->qps[msg->rail])
			return false;
		if (msg->epoch == ctl->fence.epoch &&
		    !ctl->fence.peer_reconnects)
			ctl->reconnect = msg->info;
		return fence_message(lane, MPIB_FENCE_MSG_RECONNECT, msg);
	case MPIB_RAIL_UP:
		return fence_message(lane, MPIB_FENCE_MSG_UP, msg);
	case MPIB_RAIL_DRAIN:
		ctl->peer_drains = msg->on;
		mpib_rail_drained_set(lane);
		return true;
	case MPIB_RAIL_LOOK:
		mpib_rail_asked(lane, msg);
		return true;
	case MPIB_RAIL_LOOKED:
		mpib_rail_answered(lane, msg);
		return true;
	}
	return false;
}

/*
 * Evidence before a verdict. A silent rail may only mean that the peer's proxy,
 * or this one, gets no core. So the peer's shard is asked to look (LOOK), after
 * its answer (LOOKED) this end's shard looks, and only then the rail is judged.
 * A question that was lost with its peer link is asked again on the next one
 * (mpib_lane_retell()). So each is answered, or the rail stops, or the lane
 * ends by peer.silence. Control thread.
 */

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

	/* The peer asks again without an answer only after the rail stopped.
	 * Make one look at a time, however often a peer asks. */
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
	/* A rail that has stopped meanwhile has no more questions. */
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

/* What this end of a lane sends about its rails after the peer link broke.
 * Messages of a broken link may be lost. So each end repeats those that the
 * state of its fence implies, and the other ignores what it has already
 * (failover/fence.h). Control thread. */

/* Send at least one message, even without bitmaps; the last one has more ==
 * 0. */
void mpib_rail_tell_fenced(struct mpib_lane *lane, unsigned rail,
			   uint32_t epoch)
{
	const struct mpib_recv_bitmaps *a =
		&lane->ctl.rail[rail].ours[epoch & 1];
	struct mpib_rail_msg msg = { .more = true, .lost = a->lost };
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

	/* The peer may not have completed the previous fence. */
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
