/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A look at a rail (see ask.c): the shard goes on with its turns, and the look ends
 * when the device had its chance to move the rail. A software HCA moves only in
 * turns that the shard makes for it, so these are counted; an HCA moves by itself,
 * and needs this end's receives at most.
 * Shard thread.
 */
#include "engine/conn/conn.h"
#include "engine/recovery/stop.h"

/* Calls of mpib_looks(), each after MPIB_WATCH_TURNS turns or before a sleep. */
#define PASSES 2
/* A turn serves 64 sockets and reads 96 KiB or more from each: so many turns serve
 * thousands, or read what the buffers of one socket hold. */
#define DEVICE_TURNS 64
/* The shard does not sleep while it looks, unless another thread has the device
 * for longer than so many turns. */
#define AWAKE_TURNS 1024

static bool get_motion(const struct mpib_lane *lane, unsigned r,
		       struct mpib_motion *motion)
{
	const struct mpib_rail *rail = &lane->shard->rail[r];
	/* Before the probes the control thread may free the QPs. */
	unsigned qps = lane->stop[r].fault_ns ? 0 : lane->qps[r];

	*motion = (struct mpib_motion){ 0 };
	if (rail->lost || !rail->ctx || !rail->verbs->motion)
		return true;
	if (!rail->verbs->motion(rail->ctx, NULL, motion))
		return false;
	for (unsigned i = 0; i < qps; i++) {
		struct ibv_qp *qp = lane->qp[r][i].qp;

		if (qp && !rail->verbs->motion(rail->ctx, qp, motion))
			return false;
	}
	return true;
}

static bool look_is_over(struct mpib_rail_job *job)
{
	struct mpib_rail_look *look = &job->look;
	struct mpib_motion motion;

	if (!get_motion(job->lane, job->rail, &motion))
		return false;
	if (!look->begun) {
		look->begun = true;
		look->from = motion;
		return false;
	}
	look->passes++;
	if (motion.turns && motion.turns - look->from.turns < DEVICE_TURNS)
		return false;
	if (look->passes < PASSES)
		return false;
	look->moved |= motion.came != look->from.came;
	return true;
}

static void look_end(struct mpib_shard *s, struct mpib_call *call)
{
	struct mpib_rail_job *job = call->what;

	TAILQ_REMOVE(&s->looks, call, link);
	if (job->look.stuck)
		job->look.moved |= !mpib_watch_is_stuck(job->lane, job->rail,
							job->look.moved);
	mpib_call_done(s, call, 0);
}

void mpib_looks(struct mpib_shard *s)
{
	struct mpib_call *call, *next;

	for (call = TAILQ_FIRST(&s->looks); call; call = next) {
		next = TAILQ_NEXT(call, link);
		if (look_is_over(call->what))
			look_end(s, call);
	}
}

void mpib_looks_end(struct mpib_lane *lane)
{
	struct mpib_shard *s = lane->shard;
	struct mpib_call *call, *next;

	for (call = TAILQ_FIRST(&s->looks); call; call = next) {
		const struct mpib_rail_job *job = call->what;

		next = TAILQ_NEXT(call, link);
		if (job->lane == lane)
			look_end(s, call);
	}
}

bool mpib_looks_keep_awake(const struct mpib_shard *s)
{
	return !TAILQ_EMPTY(&s->looks) &&
	       s->n.turns - s->look_turn < AWAKE_TURNS;
}

void mpib_rail_on_look(struct mpib_msg *msg)
{
	struct mpib_call *call = container_of(msg, struct mpib_call, msg);
	struct mpib_rail_job *job = call->what;
	struct mpib_shard *s = job->lane->shard;

	s->look_turn = s->n.turns;
	TAILQ_INSERT_TAIL(&s->looks, call, link);
	look_is_over(job); /* it begins, if the device is free */
}
