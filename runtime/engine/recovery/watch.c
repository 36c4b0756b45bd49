/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress watchdog, for rails that fail without an event. A rail is stuck
 * while signalled WRs are outstanding and none retires. The rail is suspected
 * if both of these hold:
 *
 *  - It is stuck for longer than the sum of two times. One is 8 smoothed
 *    round-trip times, but at least 50 and at most 120 ms. The other is twice
 *    the time that the transfer of the bytes in flight takes at the rail's
 *    rate. If the watchdog pauses between two checks, only two check intervals
 *    of the pause count.
 *
 *  - During that time the other rail of the lane makes progress. If the other
 *    rail is idle, a probe is posted on it to find that out. If the other rail
 *    is not in use, this condition does not apply, and the first time is
 *    ALONE_NS.
 *
 * If neither rail makes progress, the watchdog assumes that the peer's node has
 * stopped, which is not a fault of a rail. A suspected rail is at fault if it
 * is still stuck after the checks by the peer's shard and then by this end's
 * shard (failover.c). Without these checks, a shard without CPU time would look
 * like a failed rail. Shard thread.
 */
#include "engine/conn/conn.h"

#include "engine/recovery/stop.h"

#define WATCH_NS (MPIB_WATCH_MS * 1000000ull)
#define STUCK_MIN_NS 50000000ull
#define STUCK_MAX_NS 120000000ull
#define USUAL 8
#define NS_PER_BYTE_MAX 100u
/* Time limit if no other rail can carry the stuck rail's bytes. */
#define ALONE_NS 3000000000ull
/* Minimum number of checks in which the other rail must have made progress. */
#define MOVES 2

struct watch_sums {
	uint32_t retired, unsignaled;
	bool outstanding;
};

static void watch_add_up(const struct mpib_lane *lane, unsigned r,
			 struct watch_sums *sum)
{
	*sum = (struct watch_sums){ 0 };
	for (unsigned i = 0; i < lane->qps[r]; i++) {
		const struct mpib_lane_qp *q = &lane->qp[r][i];

		sum->retired += q->retired;
		sum->unsignaled += q->posted - q->asked;
		sum->outstanding |= (int32_t)(q->asked - q->retired) > 0;
	}
}

/* Post a probe after unsignalled WRs. Most CTS are unsignalled, so the loss of
 * a CTS would not be noticed. Each unsignalled WR also occupies a place of the
 * CQ's budget, and many idle lanes together can use up the CQ. Therefore post a
 * signalled probe if the newest WRs of a QP are unsignalled at two successive
 * checks. */
static void ask_unsignaled(struct mpib_lane *lane, unsigned r,
			   const struct watch_sums *sum)
{
	struct mpib_rail_watch *w = &lane->watch[r];

	if (sum->unsignaled && sum->unsignaled >= w->unsignaled &&
	    w->unsignaled) {
		for (unsigned i = 0; i < lane->qps[r]; i++) {
			if (lane->qp[r][i].posted != lane->qp[r][i].asked)
				mpib_qp_probe(&lane->qp[r][i]);
		}
		w->unsignaled = 0;
		return;
	}
	w->unsignaled = sum->unsignaled;
}

/* Return the time that the transfer of the bytes in flight takes at the rate
 * measured up to the last ack. A rate below 10 MB/s counts as 10 MB/s. */
static uint64_t transfer_ns(const struct mpib_tracker *t)
{
	uint64_t most = t->inflight * NS_PER_BYTE_MAX;
	double ns;

	if (!t->acked_bytes)
		return most;
	ns = (double)t->inflight * (double)mpib_tracker_busy(t, t->last_ack) /
	     (double)t->acked_bytes;
	return ns < (double)most ? (uint64_t)ns : most;
}

static bool is_stuck(const struct mpib_lane *lane, unsigned r)
{
	const struct mpib_rail_watch *w = &lane->watch[r];
	uint64_t usual = USUAL * lane->track[r].srtt;

	if (!(lane->open & mpib_rail_bit(r ^ 1)))
		usual = ALONE_NS;
	else if (usual < STUCK_MIN_NS)
		usual = STUCK_MIN_NS;
	/* Use STUCK_MAX_NS even for a rail that usually needs longer, because
	 * the other rail makes progress. */
	else if (usual > STUCK_MAX_NS)
		usual = STUCK_MAX_NS;
	return w->stuck > usual + 2 * transfer_ns(&lane->track[r]);
}

bool mpib_watch_is_stuck(struct mpib_lane *lane, unsigned rail, bool moved)
{
	struct mpib_rail_watch *w = &lane->watch[rail];
	struct watch_sums sum;

	watch_add_up(lane, rail, &sum);
	w->asked = false;
	if (!moved && sum.retired == w->asked_retired)
		return true;
	w->stuck = 0;
	return false;
}

/* Check a rail. Return true while WRs of the rail are outstanding; without
 * failover, only while some are unsignalled. */
static bool watch_rail(struct mpib_lane *lane, unsigned r, uint64_t ns)
{
	struct mpib_rail_watch *w = &lane->watch[r];
	struct mpib_rail_watch *other = &lane->watch[r ^ 1];
	bool other_open = lane->open & mpib_rail_bit(r ^ 1);
	struct watch_sums sum;

	watch_add_up(lane, r, &sum);
	ask_unsignaled(lane, r, &sum);
	if (sum.retired != w->seen) {
		w->seen = sum.retired;
		w->moves++;
		w->stuck = 0;
		lane->moved = true;
	}
	if (!lane->failover)
		return sum.unsignaled;
	if (!sum.outstanding) {
		w->stuck = 0;
		return sum.unsignaled;
	}
	if (w->stuck == 0)
		w->moves_other = other->moves;
	w->stuck += ns;
	if (w->asked || !is_stuck(lane, r))
		return true;
	if (!other_open || other->moves - w->moves_other >= MOVES) {
		w->asked = true;
		w->asked_retired = sum.retired;
		mpib_lane_suspect(lane, r);
		return true;
	}
	watch_add_up(lane, r ^ 1, &sum);
	if (!sum.outstanding)
		mpib_qp_probe(&lane->qp[r ^ 1][0]);
	return true;
}

/* Check a lane. Return true while WRs of its open rails are outstanding. */
static bool watch_lane(struct mpib_lane *lane, uint64_t ns)
{
	bool still = false;

	for (unsigned r = 0; r < lane->rails; r++) {
		if (!(lane->open & mpib_rail_bit(r))) /* 0 if broken */
			continue;
		still |= watch_rail(lane, r, ns);
	}
	return still;
}

/* A check of a rail (see failover.c). The shard continues its turns. The check
 * ends when the device has had time to make progress on the rail. A software
 * HCA makes progress only in the turns that the shard makes for it, so the
 * check counts these turns. A real HCA makes progress by itself. It needs
 * nothing from this end except posted receives. Shard thread. */

/* Number of calls of end_looks() in a check. A call comes after
 * MPIB_WATCH_TURNS turns or before a sleep. */
#define PASSES 2
/* Number of turns that a check waits for at a device. A turn serves 64 sockets
 * and reads at least 96 KiB from each. So DEVICE_TURNS turns serve thousands of
 * sockets, or read all data in the buffers of one socket. */
#define DEVICE_TURNS 64
/* During a check the shard stays awake for at most this many turns. A check
 * takes longer only while another thread uses the device. */
#define AWAKE_TURNS 1024

static bool get_motion(const struct mpib_lane *lane, unsigned r,
		       struct mpib_motion *motion)
{
	const struct mpib_rail *rail = &lane->shard->rail[r];
	/* In DOWN the control thread may free the QPs, so do not use them. */
	unsigned qps = lane->rail[r].state == MPIB_RAIL_DOWN ? 0 : lane->qps[r];

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

static void end_looks(struct mpib_shard *s)
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
	look_is_over(job); /* begin the check if the device is free */
}

void mpib_watch(struct mpib_shard *s)
{
	uint64_t now = s->now, ns = now - s->watched_ns;
	struct mpib_lane *lane, *next;

	s->watch_turns = 0;
	end_looks(s);
	if (ns < WATCH_NS)
		return;
	s->watched_ns = now;
	/* The shard thread may not have run between the two checks. */
	if (ns > 2 * WATCH_NS)
		ns = 2 * WATCH_NS;
	/* Usually only a few of many lanes have traffic. Skip a lane without
	 * traffic until qp_post_chain() posts to it again. */
	for (lane = LIST_FIRST(&s->watched); lane; lane = next) {
		next = LIST_NEXT(lane, watch_link);
		if (watch_lane(lane, ns))
			continue;
		LIST_REMOVE(lane, watch_link);
		lane->watched = false;
	}
	s->watching = !LIST_EMPTY(&s->watched);
}
