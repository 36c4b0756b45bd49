/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control thread's part of a rail's life: faults and the peer's messages
 * go into the fence, its actions come out and are done here.
 */
#include "engine/recovery/stop.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/event.h"
#include "base/sure.h"
#include "base/trace.h"
#include "engine/lane/lane.h"

/* Both directions of every flow of a shard. */
#define ANSWERS_MAX (2 * MPIB_FLOWS_MAX)

const char *mpib_rail_cause_name(enum mpib_rail_cause cause)
{
	static const char *const name[MPIB_CAUSES] = {
		[MPIB_CAUSE_NONE] = "no cause",
		[MPIB_CAUSE_PORT] = "port down",
		[MPIB_CAUSE_ERROR] = "error completion",
		[MPIB_CAUSE_STUCK] = "black hole",
		[MPIB_CAUSE_PEER] = "the peer's notice",
		[MPIB_CAUSE_PROBE] = "probe without answer",
		[MPIB_CAUSE_UPGRADE] = "an upgrade",
	};

	return cause < MPIB_CAUSES ? name[cause] : "?";
}

static void answers_free(struct mpib_answers *a)
{
	free(a->v);
	*a = (struct mpib_answers){ 0 };
}

struct mpib_rail_job *mpib_rail_job_new(struct mpib_lane *lane, unsigned rail)
{
	struct mpib_rail_job *job = mpib_sure_alloc(sizeof(*job));

	job->lane = lane;
	job->rail = rail;
	job->epoch = lane->life.rail[rail].fence.epoch;
	job->cause = lane->life.rail[rail].cause;
	return job;
}

void mpib_rail_job_free(struct mpib_rail_job *job)
{
	answers_free(&job->answers);
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

/* The last message has more == 0, and there is always one. */
static void send_answers(struct mpib_lane *lane, unsigned rail, uint32_t epoch,
			 const struct mpib_answers *a)
{
	struct mpib_rail_msg msg = { .more = true };
	uint32_t at = 0;

	while (msg.more) {
		uint32_t n = a->n - at;

		if (n > MPIB_ANSWERS)
			n = MPIB_ANSWERS;
		for (uint32_t i = 0; i < n; i++)
			msg.answer[i] = a->v[at + i];
		at += n;
		msg.answers = (uint8_t)n;
		msg.more = at < a->n;
		mpib_rail_send(lane, &msg, MPIB_RAIL_FENCED, rail, epoch);
	}
}

/* As judge.c searches them. */
static int order(const void *pa, const void *pb)
{
	const struct mpib_answer *a = pa, *b = pb;

	if (a->sender != b->sender)
		return a->sender - b->sender;
	return (a->flow > b->flow) - (a->flow < b->flow);
}

static void on_stopped(void *arg, int status)
{
	struct mpib_rail_job *job = arg;
	struct mpib_lane *lane = job->lane;
	struct mpib_fence *fence = &lane->life.rail[job->rail].fence;
	uint32_t epoch = fence->epoch;

	(void)status;
	if (!lane->life.over) {
		unsigned actions = mpib_fence_drained(fence);

		if (actions & MPIB_FENCE_ANSWER)
			send_answers(lane, job->rail, epoch, &job->answers);
		mpib_rail_act(lane, job->rail, actions);
	}
	mpib_rail_job_free(job);
}

static void tell_failover(const struct mpib_rail_job *job, uint64_t us)
{
	const struct mpib_lane *lane = job->lane;
	enum mpib_rail_cause cause = lane->life.rail[job->rail].cause;
	const struct mpib_event_about about = {
		.rails = (uint8_t)(1u << job->rail),
		.peer = lane->peer,
		.ns = us * 1000,
		.bytes = job->lost_bytes,
	};

	MPIB_TRACE(failover, job->rail, cause, us, job->lost_chunks,
		   job->lost_bytes);
	mpib_event(cause == MPIB_CAUSE_UPGRADE ? MPIB_LOG_INFO : MPIB_LOG_WARN,
		   "failover", &about,
		   "rail %s to %s: %s, fenced in %llu.%llu ms, %u chunks (%llu "
		   "bytes) take another way",
		   mpib_rail_name(job->rail), lane->peer,
		   mpib_rail_cause_name(cause), (unsigned long long)us / 1000,
		   (unsigned long long)us / 100 % 10, job->lost_chunks,
		   (unsigned long long)job->lost_bytes);
}

static void on_replayed(void *arg, int status)
{
	struct mpib_rail_job *job = arg;
	struct mpib_lane *lane = job->lane;
	struct mpib_rail_life *life = &lane->life.rail[job->rail];

	(void)status;
	if (!lane->life.over) {
		uint64_t us = (mpib_now_ns() - life->stopped_ns) / 1000;

		tell_failover(job, us);
		/* The shard has let go of its QPs. */
		life->replaying = false;
		mpib_rail_hold(lane, job->rail);
	}
	mpib_rail_job_free(job);
}

static void begin_grace(struct mpib_lane *lane)
{
	struct mpib_engine *e = lane->shard->engine;

	for (unsigned r = 0; r < lane->rails; r++) {
		if (lane->life.rail[r].fence.state == MPIB_FENCE_LIVE)
			return;
	}
	if (lane->life.grace_until)
		return;
	lane->life.grace_until = mpib_now_ns() + e->cfg.grace_ms * 1000000ull;
	mpib_rail_arm(e, lane->life.grace_until);
	mpib_rail_hold_last(lane);
}

static void stop(struct mpib_lane *lane, unsigned rail)
{
	struct mpib_rail_life *life = &lane->life.rail[rail];
	uint64_t now = mpib_now_ns();
	uint64_t calm = 4000000ull * lane->shard->engine->cfg.hold_ms;

	/* What held for a while was sound. */
	if (life->resumed_ns && now - life->resumed_ns > calm)
		life->failures = 0;
	life->failures += life->cause != MPIB_CAUSE_UPGRADE;
	life->stopped_ns = now;
	lane->life.last = (uint8_t)rail;
	life->hold_until = life->probe_until = 0;
	mpib_lane_rail_to_err(lane, rail);
	mpib_rail_job_run(mpib_rail_job_new(lane, rail), mpib_rail_on_stop,
			  on_stopped);
	begin_grace(lane);
}

static void replay(struct mpib_lane *lane, unsigned rail)
{
	struct mpib_rail_life *life = &lane->life.rail[rail];
	struct mpib_rail_job *job = mpib_rail_job_new(lane, rail);

	life->replaying = true;
	job->answers = life->theirs;
	life->theirs = (struct mpib_answers){ 0 };
	if (job->answers.n)
		qsort(job->answers.v, job->answers.n, sizeof(*job->answers.v),
		      order);
	mpib_rail_job_run(job, mpib_rail_on_answers, on_replayed);
}

void mpib_rail_act(struct mpib_lane *lane, unsigned rail, unsigned actions)
{
	struct mpib_rail_life *life = &lane->life.rail[rail];
	struct mpib_rail_msg msg = { .cause = life->cause };

	if (actions & MPIB_FENCE_STOP)
		stop(lane, rail);
	if (actions & MPIB_FENCE_TELL)
		mpib_rail_send(lane, &msg, MPIB_RAIL_FENCE, rail,
			       life->fence.epoch);
	if (actions & MPIB_FENCE_REPLAY)
		replay(lane, rail); /* and then the hold-down */
	if (actions & MPIB_FENCE_OFFER)
		mpib_rail_offer(lane, rail);
	/* Unless there was nothing to offer. */
	if (actions & MPIB_FENCE_CONNECT &&
	    life->fence.state == MPIB_FENCE_PROBING)
		mpib_rail_connect(lane, rail);
	if (actions & MPIB_FENCE_TELL_UP)
		mpib_rail_send(lane, &msg, MPIB_RAIL_UP, rail,
			       life->fence.epoch);
	if (actions & MPIB_FENCE_RESUME)
		mpib_rail_resume(lane, rail);
}

void mpib_failover_fault(struct mpib_lane *lane, unsigned rail,
			 enum mpib_rail_cause cause)
{
	struct mpib_rail_life *life = &lane->life.rail[rail];
	unsigned actions;

	if (lane->life.over)
		return;
	actions = mpib_fence_fault(&life->fence);
	if (actions & MPIB_FENCE_STOP)
		life->cause = (uint8_t)cause;
	mpib_rail_act(lane, rail, actions);
}

static void set_health(struct mpib_lane *lane, unsigned rail, bool up)
{
	struct mpib_rail_life *life = &lane->life.rail[rail];
	unsigned actions;

	if (!lane->failover || !lane->life.settled || lane->life.over)
		return;
	/* It has to stay up for the whole hold-down. */
	if (up && life->fence.state == MPIB_FENCE_DOWN && !life->replaying) {
		life->fence.held = true;
		mpib_rail_hold(lane, rail);
	}
	actions = mpib_fence_health(&life->fence, up);
	if (actions & MPIB_FENCE_STOP)
		life->cause = MPIB_CAUSE_PORT;
	mpib_rail_act(lane, rail, actions);
}

void mpib_engine_rail_port(struct mpib_engine *engine, unsigned shard,
			   unsigned rail, bool up)
{
	struct mpib_shard *s = &engine->shard[shard];
	struct mpib_lane *lane;

	s->rail[rail].up = up;
	TAILQ_FOREACH(lane, &engine->lanes, made_link)
	{
		if (lane->shard == s && rail < lane->rails)
			set_health(lane, rail, up);
	}
}

void mpib_lane_settled(struct mpib_lane *lane)
{
	unsigned drained = mpib_engine_drained(lane->shard->engine);

	for (unsigned r = 0; r < lane->rails; r++)
		mpib_fence_init(&lane->life.rail[r].fence, true);
	lane->life.settled = true;
	for (unsigned r = 0; r < lane->rails; r++) {
		if (!lane->shard->rail[r].up)
			set_health(lane, r, false);
	}
	for (unsigned r = 0; r < lane->rails; r++) {
		if (drained & 1u << r)
			mpib_rail_tell_drain(lane, r, true);
	}
}

void mpib_failover_end(struct mpib_lane *lane)
{
	lane->life.over = true;
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		answers_free(&lane->life.rail[r].theirs);
}

static bool take_answers(struct mpib_rail_life *life,
			 const struct mpib_rail_msg *msg)
{
	struct mpib_answers *a = &life->theirs;

	if (msg->epoch != life->fence.epoch || life->fence.peer_fenced ||
	    msg->answers > MPIB_ANSWERS || a->n + msg->answers > ANSWERS_MAX)
		return false;
	while (a->n + msg->answers > a->room) {
		a->room = a->room ? 2 * a->room : 64;
		a->v = mpib_sure_grow(a->v, a->n * sizeof(*a->v),
				      a->room * sizeof(*a->v));
	}
	for (unsigned i = 0; i < msg->answers; i++)
		a->v[a->n++] = msg->answer[i];
	return true;
}

static bool fence_message(struct mpib_lane *lane, enum mpib_fence_msg type,
			  const struct mpib_rail_msg *msg)
{
	struct mpib_rail_life *life = &lane->life.rail[msg->rail];
	unsigned actions;

	if (!mpib_fence_message(&life->fence, type, msg->epoch, &actions))
		return false;
	if (actions & MPIB_FENCE_STOP)
		life->cause = msg->cause == MPIB_CAUSE_UPGRADE
				      ? MPIB_CAUSE_UPGRADE
				      : MPIB_CAUSE_PEER;
	mpib_rail_act(lane, msg->rail, actions);
	return true;
}

bool mpib_lane_receive(struct mpib_lane *lane, const struct mpib_rail_msg *msg)
{
	struct mpib_rail_life *life;

	if (lane->life.over)
		return true;
	if (!lane->life.settled || !lane->failover || msg->rail >= lane->rails)
		return false;
	life = &lane->life.rail[msg->rail];
	switch ((enum mpib_rail_msg_type)msg->type) {
	case MPIB_RAIL_FENCE:
		return fence_message(lane, MPIB_FENCE_MSG_FENCE, msg);
	case MPIB_RAIL_FENCED:
		if (!take_answers(life, msg))
			return false;
		return msg->more ||
		       fence_message(lane, MPIB_FENCE_MSG_FENCED, msg);
	case MPIB_RAIL_OFFER:
		if (msg->info.qps != lane->qps[msg->rail] ||
		    life->fence.peer_offered)
			return false;
		life->offer = msg->info;
		return fence_message(lane, MPIB_FENCE_MSG_OFFER, msg);
	case MPIB_RAIL_UP:
		return fence_message(lane, MPIB_FENCE_MSG_UP, msg);
	case MPIB_RAIL_DRAIN:
		life->peer_drains = msg->on;
		mpib_rail_drained_set(lane);
		return true;
	}
	return false;
}
