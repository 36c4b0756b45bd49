/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control thread's part in the failover of a rail. Faults and the messages
 * of the peer's proxy are events for the rail's struct mpib_fence. This file
 * carries out the actions that the fence returns. A rail comes back after the
 * hold-down. Both ends then create new QPs with new PSNs and the port's current
 * GID, and connect and probe the new QPs before traffic uses them. This file
 * also drains rails and has the timer for all time limits.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/event.h"
#include "base/xalloc.h"
#include "engine/lane/lane.h"
#include "engine/recovery/stop.h"
#include "engine/trace.h"

/* Time limit of an attempt to reconnect, and pause before the next attempt.
 * After the rail works again, an attempt succeeds within 2 s, unless a node has
 * no free core. */
#define PROBE_NS 1250000000ull
#define AGAIN_NS 500000000ull
/* Number of lanes that may retry with this pause. If more lanes retry, each
 * lane pauses longer, because each attempt creates QPs, which takes the control
 * thread some ms. */
#define AGAIN_LANES 64
/* A failure soon after the rail's return makes the hold-down four times as
 * long. This happens at most HOLD_GROWS times in a row. */
#define HOLD_GROWS 3
/* Time limits of a stop, in ticks of the control thread, so that a pause of the
 * whole process does not count. A device flushes its QPs within milliseconds.
 * The peer's shard has the same limit. A shard exceeds the limit only if it
 * hangs. */
#define STOP_TICK_NS 1000000000ull
#define FLUSH_TICKS 30
#define PEER_STOP_TICKS 120
/* Hold-down of a lane that has no live rail. */
#define HOLD_LAST_NS 100000000ull
/* Maximum number of bitmaps in one fence: two for every connection of a shard.
 * There are also at most as many as the lane ever had connections, because the
 * peer starts no connection that this end has not created before. */
#define ANSWERS_MAX (2ull * ENGINE_CONNS_MAX)

static void rail_act(struct mpib_lane *lane, unsigned rail, unsigned actions);

int mpib_failover_init(struct mpib_engine *engine)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int rc;

	TAILQ_INIT(&engine->lanes);
	TAILQ_INIT(&engine->asked);
	engine->timer =
		timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (engine->timer < 0)
		return -errno;
	if (epoll_ctl(engine->epfd, EPOLL_CTL_ADD, engine->timer, &ev) == 0)
		return 0;
	rc = -errno;
	close(engine->timer);
	return rc;
}

void mpib_failover_fini(struct mpib_engine *engine)
{
	close(engine->timer);
}

void mpib_rail_arm(struct mpib_engine *engine, uint64_t at)
{
	struct itimerspec set = { .it_value = mpib_timespec(at) };

	/* Do not set the timer again, because that would clear an expiry that
	 * has not been read. */
	if (engine->armed && engine->armed <= at)
		return;
	engine->armed = at;
	timerfd_settime(engine->timer, TFD_TIMER_ABSTIME, &set, NULL);
}

static void free_bitmaps(struct mpib_recv_bitmaps *a)
{
	free(a->v);
	*a = (struct mpib_recv_bitmaps){ 0 };
}

static struct mpib_rail_job *rail_job_new(struct mpib_lane *lane, unsigned rail)
{
	struct mpib_rail_job *job = mpib_xcalloc(sizeof(*job));

	job->lane = lane;
	job->rail = rail;
	job->epoch = lane->ctl.rail[rail].fence.epoch;
	job->cause = lane->ctl.rail[rail].cause;
	job->stopped_ns = lane->ctl.rail[rail].stopped_ns;
	return job;
}

void mpib_rail_job_free(struct mpib_rail_job *job)
{
	free_bitmaps(&job->bitmaps);
	free(job);
}

static void on_job_done(void *arg, int status)
{
	struct mpib_rail_job *job = arg;

	if (job->then && !job->lane->ctl.over)
		job->then(job, status);
	mpib_rail_job_free(job);
}

/* Run fn() on the shard, and afterwards then() on the control thread, unless
 * the lane is being killed. */
static void rail_job_run(struct mpib_rail_job *job, mpib_msg_fn *fn,
			 mpib_rail_then_fn *then)
{
	job->then = then;
	mpib_mailbox_send(&job->lane->shard->mailbox,
			  &mpib_call_new(job, on_job_done, job)->msg, fn);
}

static void rail_send(struct mpib_lane *lane, struct mpib_rail_msg *msg,
		      unsigned type, unsigned rail, uint32_t epoch)
{
	struct mpib_engine *e = lane->shard->engine;

	msg->type = (uint8_t)type;
	msg->rail = (uint8_t)rail;
	msg->epoch = epoch;
	if (e->events && e->events->lane_send)
		e->events->lane_send(e->ctx, lane, msg);
}

/* Set the time limit of the rail's current state. */
static void rail_due(struct mpib_lane *lane, unsigned rail, uint64_t at)
{
	lane->ctl.rail[rail].due = at;
	mpib_rail_arm(lane->shard->engine, at);
}

/* Send FENCED with this end's bitmaps of the epoch. Send at least one message,
 * even if there are no bitmaps. In the last message, `more` is false. */
static void rail_tell_fenced(struct mpib_lane *lane, unsigned rail,
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
		rail_send(lane, &msg, MPIB_RAIL_FENCED, rail, epoch);
	}
}

static void on_stopped(struct mpib_rail_job *job, int status)
{
	struct mpib_rail_control *ctl = &job->lane->ctl.rail[job->rail];
	uint32_t epoch = ctl->fence.epoch;
	unsigned actions = mpib_fence_stopped(&ctl->fence);

	(void)status;
	if (actions & MPIB_FENCE_ANSWER) {
		free_bitmaps(&ctl->ours[epoch & 1]);
		ctl->ours[epoch & 1] = job->bitmaps;
		ctl->ours[epoch & 1].kept = true;
		job->bitmaps = (struct mpib_recv_bitmaps){ 0 };
		rail_tell_fenced(job->lane, job->rail, epoch);
	}
	rail_act(job->lane, job->rail, actions);
}

static void on_replayed(struct mpib_rail_job *job, int status)
{
	struct mpib_lane *lane = job->lane;
	struct mpib_rail_control *ctl = &lane->ctl.rail[job->rail];
	uint64_t us = job->fenced_ns / 1000;
	const struct mpib_event_about about = {
		.rails = 1u << mpib_rail_number(lane->shard, job->rail),
		.peer = lane->peer,
		.ns = job->fenced_ns,
		.bytes = job->lost_bytes,
	};

	(void)status;
	MPIB_TRACE(failover, job->rail, ctl->cause, us, job->lost_stripes,
		   job->lost_bytes);
	mpib_event(MPIB_LOG_WARN, "failover", &about,
		   "rail %s to %s: %s, fenced in %llu.%llu ms, replaying %u "
		   "stripes (%llu bytes) on the other rail",
		   mpib_rail_label(lane->shard, job->rail), lane->peer,
		   mpib_rail_cause_name((enum mpib_rail_cause)ctl->cause),
		   (unsigned long long)us / 1000,
		   (unsigned long long)us / 100 % 10, job->lost_stripes,
		   (unsigned long long)job->lost_bytes);
	rail_act(lane, job->rail, mpib_fence_replayed(&ctl->fence));
}

/* Return the length of the rail's hold-down. */
static uint64_t hold_ns(const struct mpib_lane *lane, unsigned rail)
{
	const struct mpib_rail_control *ctl = &lane->ctl.rail[rail];
	const struct mpib_engine *e = lane->shard->engine;
	unsigned times = ctl->failures ? ctl->failures - 1 : 0;
	unsigned crowd = e->retried / AGAIN_LANES;
	uint64_t ns;

	if (times > HOLD_GROWS)
		times = HOLD_GROWS;
	ns = ((uint64_t)e->cfg.hold_ms << 2 * times) * 1000000u;
	/* If no rail is live, use a short hold-down, because there is no
	 * traffic to disturb. */
	if (lane->ctl.grace_until)
		return ns > HOLD_LAST_NS ? HOLD_LAST_NS : ns;
	if (ctl->cause == MPIB_CAUSE_PROBE &&
	    (ns > AGAIN_NS || e->retried > AGAIN_LANES))
		return AGAIN_NS * (crowd ? crowd : 1);
	return ns;
}

/* If no rail is live, start the grace period and shorten the hold-downs. */
static void begin_grace(struct mpib_lane *lane)
{
	struct mpib_engine *e = lane->shard->engine;
	uint64_t now = mpib_now_ns();

	for (unsigned r = 0; r < lane->rails; r++) {
		if (lane->ctl.rail[r].fence.state == MPIB_FENCE_LIVE)
			return;
	}
	if (lane->ctl.grace_until)
		return;
	lane->ctl.grace_until = now + e->cfg.grace_ms * 1000000ull;
	mpib_rail_arm(e, lane->ctl.grace_until);
	for (unsigned r = 0; r < lane->rails; r++) {
		if (lane->ctl.rail[r].fence.state == MPIB_FENCE_DOWN &&
		    lane->ctl.rail[r].due > now + HOLD_LAST_NS)
			rail_due(lane, r, now + HOLD_LAST_NS);
	}
}

static void failover_stop(struct mpib_lane *lane, unsigned rail)
{
	struct mpib_rail_control *ctl = &lane->ctl.rail[rail];
	uint64_t now = mpib_now_ns();
	uint64_t calm = 16000000ull * lane->shard->engine->cfg.hold_ms;
	bool carried = ctl->resumed_ns >= ctl->stopped_ns;

	/* A rail that was up for sixteen hold-downs counts as healthy, so reset
	 * its count of failures. */
	if (carried && ctl->resumed_ns && now - ctl->resumed_ns > calm)
		ctl->failures = 0;
	/* Do not count a failed attempt to reconnect, because the attempt
	 * disturbed no traffic. */
	ctl->failures += ctl->cause != MPIB_CAUSE_PROBE;
	ctl->stopped_ns = now;
	ctl->stop_ticks = 0;
	rail_due(lane, rail, now + STOP_TICK_NS);
	lane->ctl.last = (uint8_t)rail;
	ctl->asks = MPIB_ASK_NOTHING;
	mpib_lane_rail_to_err(lane, rail);
	rail_job_run(rail_job_new(lane, rail), mpib_rail_on_stop, on_stopped);
	begin_grace(lane);
}

static void failover_replay(struct mpib_lane *lane, unsigned rail)
{
	struct mpib_rail_control *ctl = &lane->ctl.rail[rail];
	struct mpib_rail_job *job = rail_job_new(lane, rail);

	job->bitmaps = ctl->theirs;
	ctl->theirs = (struct mpib_recv_bitmaps){ 0 };
	if (job->bitmaps.n)
		qsort(job->bitmaps.v, job->bitmaps.n, sizeof(*job->bitmaps.v),
		      mpib_recv_bitmap_order);
	rail_job_run(job, mpib_rail_on_bitmaps, on_replayed);
}

/*
 * Checks before a rail is judged as failed. A healthy rail may be silent
 * because one of the two proxies gets no CPU time. So this end asks the peer's
 * shard to check the rail (LOOK). After the peer's answer (LOOKED), this end's
 * shard checks the rail, too. The rail is judged after both checks. If the peer
 * link breaks before the answer, the question is repeated on the next link
 * (mpib_lane_retell()). So each question ends in one of three ways: the peer
 * answers, the rail stops, or the lane ends after peer.silence.
 */
static void rail_ask(struct mpib_lane *lane, unsigned rail,
		     enum mpib_rail_ask what)
{
	struct mpib_rail_control *ctl = &lane->ctl.rail[rail];
	struct mpib_rail_msg msg = { 0 };

	ctl->asks = (uint8_t)what;
	ctl->answered = false;
	rail_send(lane, &msg, MPIB_RAIL_LOOK, rail, ctl->fence.epoch);
}

static void failover_refuse(struct mpib_lane *lane, unsigned rail,
			    const char *what, int rc)
{
	mpib_warn("rail %s to %s: %s: %s", mpib_rail_label(lane->shard, rail),
		  lane->peer, what, strerror(-rc));
	mpib_failover_fault(lane, rail, MPIB_CAUSE_ERROR);
}

static void rail_reconnect(struct mpib_lane *lane, unsigned rail)
{
	struct mpib_rail_msg msg = { 0 };
	int rc;

	mpib_lane_free_qps(lane, rail);
	rc = mpib_lane_make_qps(lane, rail, lane->qps[rail]);
	if (rc < 0) {
		failover_refuse(lane, rail, "no QPs", rc);
		return;
	}
	mpib_lane_rail_local(lane, rail, &msg.info);
	rail_send(lane, &msg, MPIB_RAIL_RECONNECT, rail,
		  lane->ctl.rail[rail].fence.epoch);
}

static void rail_connect(struct mpib_lane *lane, unsigned rail)
{
	int rc = mpib_lane_connect_rail(lane, rail,
					&lane->ctl.rail[rail].reconnect);

	if (rc < 0) {
		failover_refuse(lane, rail, "QPs cannot be connected", rc);
		return;
	}
	/* Ask whether the peer has connected its QPs, because data that arrives
	 * earlier is lost. The device repeats lost data only after qp.timeout,
	 * which by default is longer than the attempt. */
	rail_ask(lane, rail, MPIB_ASK_CONNECTED);
}

static void rail_await_probes(struct mpib_lane *lane, unsigned rail)
{
	rail_due(lane, rail, mpib_now_ns() + PROBE_NS);
}

static void on_probed(struct mpib_rail_job *job, int status)
{
	struct mpib_lane *lane = job->lane;
	struct mpib_rail_control *ctl = &lane->ctl.rail[job->rail];

	/* Ignore probes of an attempt that has already ended. */
	if (ctl->fence.state != MPIB_FENCE_PROBING ||
	    job->epoch != ctl->fence.epoch)
		return;
	ctl->due = 0;
	if (status < 0)
		ctl->cause = MPIB_CAUSE_PROBE;
	rail_act(lane, job->rail, mpib_fence_probed(&ctl->fence, status == 0));
}

/* Probe the new QPs, after the peer has connected its QPs. */
static void rail_probe(struct mpib_lane *lane, unsigned rail)
{
	rail_job_run(rail_job_new(lane, rail), mpib_rail_on_connect, on_probed);
	rail_await_probes(lane, rail);
}

static void rail_resume(struct mpib_lane *lane, unsigned rail)
{
	struct mpib_rail_control *ctl = &lane->ctl.rail[rail];
	struct mpib_event_about about = {
		.rails = 1u << mpib_rail_number(lane->shard, rail),
		.peer = lane->peer,
	};

	ctl->resumed_ns = mpib_now_ns();
	lane->ctl.grace_until = 0;
	about.ns = ctl->resumed_ns - ctl->stopped_ns;
	mpib_event(MPIB_LOG_WARN, "failback", &about,
		   "rail %s to %s: back after %.1f s",
		   mpib_rail_label(lane->shard, rail), lane->peer,
		   (double)about.ns / 1e9);
	rail_job_run(rail_job_new(lane, rail), mpib_rail_on_resume, NULL);
}

/* Carry out the fence's actions (MPIB_FENCE_ bits). */
static void rail_act(struct mpib_lane *lane, unsigned rail, unsigned actions)
{
	struct mpib_rail_control *ctl = &lane->ctl.rail[rail];
	struct mpib_rail_msg msg = { .cause = ctl->cause };

	if (actions & MPIB_FENCE_STOP)
		failover_stop(lane, rail);
	if (actions & MPIB_FENCE_TELL)
		rail_send(lane, &msg, MPIB_RAIL_FENCE, rail, ctl->fence.epoch);
	if (actions & MPIB_FENCE_REPLAY)
		failover_replay(lane, rail);
	if (actions & MPIB_FENCE_HOLD)
		rail_due(lane, rail, mpib_now_ns() + hold_ns(lane, rail));
	if (actions & MPIB_FENCE_RECONNECT)
		rail_reconnect(lane, rail);
	/* Skip this if rail_reconnect() has just failed to create QPs. */
	if (actions & MPIB_FENCE_CONNECT &&
	    ctl->fence.state == MPIB_FENCE_PROBING)
		rail_connect(lane, rail);
	if (actions & MPIB_FENCE_TELL_UP)
		rail_send(lane, &msg, MPIB_RAIL_UP, rail, ctl->fence.epoch);
	if (actions & MPIB_FENCE_RESUME)
		rail_resume(lane, rail);
}

void mpib_failover_fault(struct mpib_lane *lane, unsigned rail,
			 enum mpib_rail_cause cause)
{
	struct mpib_rail_control *ctl = &lane->ctl.rail[rail];
	unsigned actions;

	if (lane->ctl.over)
		return;
	/* In PROBING only probes are posted, so the cause is a failed probe. */
	if (ctl->fence.state == MPIB_FENCE_PROBING && cause == MPIB_CAUSE_ERROR)
		cause = MPIB_CAUSE_PROBE;
	actions = mpib_fence_fault(&ctl->fence);
	if (actions & MPIB_FENCE_STOP)
		ctl->cause = (uint8_t)cause;
	rail_act(lane, rail, actions);
}

void mpib_failover_suspect(struct mpib_lane *lane, unsigned rail,
			   uint32_t epoch)
{
	const struct mpib_fence *fence = &lane->ctl.rail[rail].fence;

	/* In other states the rail has already failed. */
	if (!lane->ctl.over && fence->state == MPIB_FENCE_LIVE &&
	    fence->epoch == epoch)
		rail_ask(lane, rail, MPIB_ASK_STUCK);
}

static void set_health(struct mpib_lane *lane, unsigned rail, bool up)
{
	struct mpib_rail_control *ctl = &lane->ctl.rail[rail];
	unsigned actions;

	if (!lane->failover || !lane->ctl.settled || lane->ctl.over)
		return;
	actions = mpib_fence_health(&ctl->fence, up);
	if (actions & (MPIB_FENCE_HOLD | MPIB_FENCE_STOP))
		ctl->cause = MPIB_CAUSE_PORT;
	rail_act(lane, rail, actions);
}

/* Report changes of the ports to the lane's fences. Also report a port that
 * went down and is up again: its QPs may use an address that no longer
 * exists. */
static void rail_look(struct mpib_lane *lane)
{
	for (unsigned r = 0; r < lane->rails; r++) {
		const struct mpib_rail *rail = &lane->shard->rail[r];
		struct mpib_rail_control *ctl = &lane->ctl.rail[r];

		if (ctl->downs != rail->downs) {
			ctl->downs = rail->downs;
			set_health(lane, r, false);
		}
		if (ctl->fence.healthy != rail->up)
			set_health(lane, r, rail->up);
	}
}

void mpib_rail_port(struct mpib_shard *s, unsigned rail, bool up)
{
	s->rail[rail].up = up;
	s->rail[rail].downs += !up;
	/* mpib_failover_dispatch() informs the lanes. */
	mpib_rail_arm(s->engine, mpib_now_ns());
}

/* Count a tick of the rail's stop, and enforce the limits. Without these
 * limits, messages with a stripe on the rail could wait for ever. The peer
 * would still answer PING on the peer link. The grace period does not begin
 * while the other rail is live. */
static void stop_tick(struct mpib_lane *lane, unsigned r, uint64_t now)
{
	struct mpib_rail_control *ctl = &lane->ctl.rail[r];
	bool stopped = ctl->fence.state == MPIB_FENCE_STOPPED;

	rail_due(lane, r, now + STOP_TICK_NS);
	ctl->stop_ticks++;
	if (!stopped && ctl->stop_ticks >= FLUSH_TICKS)
		mpib_rail_lose(lane->shard, r, "its QPs were not flushed");
	if (stopped && ctl->stop_ticks >= PEER_STOP_TICKS)
		rail_job_run(rail_job_new(lane, r), mpib_rail_on_late, NULL);
}

/* The time limit of the rail's state has expired: act on it. */
static void rail_time_over(struct mpib_lane *lane, unsigned r, uint64_t now)
{
	struct mpib_rail_control *ctl = &lane->ctl.rail[r];

	ctl->due = 0;
	switch (ctl->fence.state) {
	case MPIB_FENCE_STOPPING:
	case MPIB_FENCE_STOPPED:
		stop_tick(lane, r, now);
		break;
	case MPIB_FENCE_DOWN:
		rail_act(lane, r, mpib_fence_hold_over(&ctl->fence));
		break;
	case MPIB_FENCE_PROBING:
		rail_ask(lane, r, MPIB_ASK_PROBES);
		break;
	default:
		break;
	}
}

/* Check the lane's deadlines. Return the next deadline; UINT64_MAX: none. */
static uint64_t failover_look(struct mpib_lane *lane, uint64_t now)
{
	struct mpib_lane_control *ctl = &lane->ctl;
	struct mpib_rail_job *job;
	uint64_t next = UINT64_MAX;

	rail_look(lane);
	if (ctl->over)
		return next;
	if (ctl->grace_until && now >= ctl->grace_until) {
		ctl->grace_until = 0;
		job = rail_job_new(lane, ctl->last);
		job->grace = true;
		rail_job_run(job, mpib_rail_on_late, NULL);
	} else if (ctl->grace_until) {
		next = ctl->grace_until;
	}
	for (unsigned r = 0; r < lane->rails; r++) {
		const uint64_t *due = &ctl->rail[r].due;

		if (*due && now >= *due)
			rail_time_over(lane, r, now);
		if (*due && *due < next)
			next = *due;
	}
	return next;
}

/* Return the number of lanes on which a rail's probes failed recently. */
static unsigned count_retried(const struct mpib_engine *engine)
{
	const struct mpib_lane *lane;
	unsigned lanes = 0;

	TAILQ_FOREACH(lane, &engine->lanes, made_link)
	{
		bool retried = false;

		for (unsigned r = 0; r < lane->rails; r++)
			retried |=
				lane->ctl.rail[r].cause == MPIB_CAUSE_PROBE &&
				lane->ctl.rail[r].fence.state !=
					MPIB_FENCE_LIVE;
		lanes += retried;
	}
	return lanes;
}

void mpib_failover_dispatch(struct mpib_engine *engine)
{
	const struct mpib_lane *last;
	struct mpib_lane *lane = NULL;
	uint64_t count, now, next = UINT64_MAX;

	if (read(engine->timer, &count, sizeof(count)) != sizeof(count))
		return;
	engine->armed = 0;
	now = mpib_now_ns();
	last = TAILQ_LAST(&engine->lanes, mpib_made_list);
	while (lane != last) {
		uint64_t at;

		lane = TAILQ_FIRST(&engine->lanes);
		TAILQ_REMOVE(&engine->lanes, lane, made_link);
		TAILQ_INSERT_TAIL(&engine->lanes, lane, made_link);
		at = failover_look(lane, now);
		next = at < next ? at : next;
		if (mpib_now_ns() - now >= MPIB_RAIL_TURN_NS)
			break;
	}
	engine->retried = count_retried(engine);
	if (lane != last)
		next = now;
	if (next != UINT64_MAX)
		mpib_rail_arm(engine, next);
}

/* Tell the shard which rails are drained by this proxy or by the peer's
 * proxy. */
static void rail_drained_set(struct mpib_lane *lane)
{
	struct mpib_rail_job *job = rail_job_new(lane, 0);

	job->drain = mpib_rail_bits(lane->shard,
				    mpib_engine_drained(lane->shard->engine));
	for (unsigned r = 0; r < lane->rails; r++)
		job->drain |= (uint8_t)(lane->ctl.rail[r].peer_drains << r);
	rail_job_run(job, mpib_rail_on_drain, NULL);
}

/* Tell the peer and the shard which rails are drained by this proxy. */
static void tell_drains(struct mpib_lane *lane)
{
	uint8_t drained = mpib_rail_bits(
		lane->shard, mpib_engine_drained(lane->shard->engine));

	for (unsigned r = 0; lane->failover && r < lane->rails; r++) {
		struct mpib_rail_msg msg = { .on = drained >> r & 1 };

		rail_send(lane, &msg, MPIB_RAIL_DRAIN, r, 0);
	}
	rail_drained_set(lane);
}

void mpib_rail_drain(struct mpib_engine *engine, unsigned device)
{
	struct mpib_lane *lane;

	TAILQ_FOREACH(lane, &engine->lanes, made_link)
	{
		if (lane->shard->device == device && lane->ctl.settled &&
		    !lane->ctl.over)
			tell_drains(lane);
	}
}

void mpib_lane_established(struct mpib_lane *lane)
{
	for (unsigned r = 0; r < lane->rails; r++)
		mpib_fence_init(&lane->ctl.rail[r].fence, true);
	lane->ctl.settled = true;
	rail_look(lane);
	if (mpib_rail_bits(lane->shard,
			   mpib_engine_drained(lane->shard->engine)))
		tell_drains(lane);
}

void mpib_failover_end(struct mpib_lane *lane)
{
	lane->ctl.over = true;
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		free_bitmaps(&lane->ctl.rail[r].theirs);
		free_bitmaps(&lane->ctl.rail[r].ours[0]);
		free_bitmaps(&lane->ctl.rail[r].ours[1]);
	}
}

static void look_for_peer(struct mpib_lane *lane, unsigned rail);

static void on_looked_for_peer(struct mpib_rail_job *job, int status)
{
	struct mpib_rail_control *ctl = &job->lane->ctl.rail[job->rail];
	struct mpib_rail_msg msg = { .moved = job->look.moved };

	(void)status;
	ctl->looking = false;
	if (ctl->look_again)
		look_for_peer(job->lane, job->rail);
	else
		rail_send(job->lane, &msg, MPIB_RAIL_LOOKED, job->rail,
			  ctl->look_epoch);
}

static void look_for_peer(struct mpib_lane *lane, unsigned rail)
{
	lane->ctl.rail[rail].looking = true;
	lane->ctl.rail[rail].look_again = false;
	rail_job_run(rail_job_new(lane, rail), mpib_rail_on_look,
		     on_looked_for_peer);
}

/* Handle the peer's LOOK. */
static void rail_asked(struct mpib_lane *lane, const struct mpib_rail_msg *msg)
{
	struct mpib_rail_control *ctl = &lane->ctl.rail[msg->rail];

	/* A correct peer does not repeat an unanswered question unless the rail
	 * has stopped since. Run one check at a time, however often a peer
	 * asks. */
	ctl->look_epoch = msg->epoch;
	if (ctl->looking)
		ctl->look_again = true;
	else
		look_for_peer(lane, msg->rail);
}

static void judge_probes(struct mpib_lane *lane, unsigned rail, bool moved)
{
	struct mpib_rail_control *ctl = &lane->ctl.rail[rail];

	if (ctl->fence.probed)
		return; /* the probes were answered during the check */
	if (moved) {
		rail_await_probes(lane, rail);
		return;
	}
	ctl->cause = MPIB_CAUSE_PROBE;
	rail_act(lane, rail, mpib_fence_probed(&ctl->fence, false));
}

static void on_looked(struct mpib_rail_job *job, int status)
{
	struct mpib_rail_control *ctl = &job->lane->ctl.rail[job->rail];
	uint8_t what = ctl->asks;

	(void)status;
	/* Ignore the answer if the rail has stopped since the question. A stop
	 * cancels the question, and a later question may be open now. */
	if (job->epoch != ctl->fence.epoch || what == MPIB_ASK_NOTHING ||
	    job->look.stuck != (what == MPIB_ASK_STUCK))
		return;
	ctl->asks = MPIB_ASK_NOTHING;
	if (what == MPIB_ASK_PROBES)
		judge_probes(job->lane, job->rail, job->look.moved);
	else if (!job->look.moved)
		mpib_failover_fault(job->lane, job->rail, MPIB_CAUSE_STUCK);
}

/* Handle the peer's LOOKED. */
static void rail_answered(struct mpib_lane *lane,
			  const struct mpib_rail_msg *msg)
{
	struct mpib_rail_control *ctl = &lane->ctl.rail[msg->rail];
	struct mpib_rail_job *job;

	if (!ctl->asks || ctl->answered || msg->epoch != ctl->fence.epoch)
		return;
	if (ctl->asks == MPIB_ASK_CONNECTED) {
		ctl->asks = MPIB_ASK_NOTHING;
		rail_probe(lane, msg->rail);
		return;
	}
	ctl->answered = true;
	job = rail_job_new(lane, msg->rail);
	job->look.stuck = ctl->asks == MPIB_ASK_STUCK;
	job->look.moved = msg->moved;
	rail_job_run(job, mpib_rail_on_look, on_looked);
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
	for (unsigned i = 0; i < msg->bitmaps; i++)
		*mpib_recv_bitmap_add(a) = msg->bitmap[i];
	a->lost = msg->lost;
	return true;
}

static bool fence_message(struct mpib_lane *lane, enum mpib_fence_msg type,
			  const struct mpib_rail_msg *msg)
{
	struct mpib_rail_control *ctl = &lane->ctl.rail[msg->rail];
	uint32_t epoch = ctl->fence.epoch;
	unsigned actions;

	/* The peer has completed the last fence, so it has this end's
	 * bitmaps. */
	if (msg->epoch == epoch)
		free_bitmaps(&ctl->ours[(epoch - 1) & 1]);
	if (!mpib_fence_message(&ctl->fence, type, msg->epoch, &actions))
		return false;
	if (actions & MPIB_FENCE_STOP)
		ctl->cause = msg->cause == MPIB_CAUSE_PROBE ? MPIB_CAUSE_PROBE
							    : MPIB_CAUSE_PEER;
	rail_act(lane, msg->rail, actions);
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
		rail_drained_set(lane);
		return true;
	case MPIB_RAIL_LOOK:
		rail_asked(lane, msg);
		return true;
	case MPIB_RAIL_LOOKED:
		rail_answered(lane, msg);
		return true;
	}
	return false;
}

/* Messages of a broken peer link may be lost, so repeat the messages that the
 * state of the fence implies. The other end ignores repetitions
 * (failover/fence.h). */
static void retell_fence(struct mpib_lane *lane, unsigned rail)
{
	const struct mpib_rail_control *ctl = &lane->ctl.rail[rail];
	struct mpib_rail_msg msg = { .cause = ctl->cause };
	uint32_t epoch = ctl->fence.epoch;
	enum mpib_fence_state state = ctl->fence.state;

	/* Also repeat the FENCED of the previous fence, because the peer may
	 * not have completed that fence. */
	if (ctl->ours[(epoch - 1) & 1].kept)
		rail_tell_fenced(lane, rail, epoch - 1);
	if (state == MPIB_FENCE_STOPPING || state == MPIB_FENCE_STOPPED)
		rail_send(lane, &msg, MPIB_RAIL_FENCE, rail, epoch);
	if (state == MPIB_FENCE_STOPPED)
		rail_tell_fenced(lane, rail, epoch);
	if (state == MPIB_FENCE_RECONNECTING || state == MPIB_FENCE_PROBING) {
		mpib_lane_rail_local(lane, rail, &msg.info);
		rail_send(lane, &msg, MPIB_RAIL_RECONNECT, rail, epoch);
	}
	if ((state == MPIB_FENCE_PROBING || state == MPIB_FENCE_LIVE) &&
	    ctl->fence.probed)
		rail_send(lane, &msg, MPIB_RAIL_UP, rail, epoch);
	if (ctl->asks && !ctl->answered)
		rail_ask(lane, rail, (enum mpib_rail_ask)ctl->asks);
}

void mpib_lane_retell(struct mpib_lane *lane)
{
	if (!lane->failover || !lane->ctl.settled || lane->ctl.over)
		return;
	for (unsigned r = 0; r < lane->rails; r++)
		retell_fence(lane, r);
	tell_drains(lane);
}

void mpib_lane_unlinked(struct mpib_lane *lane)
{
	for (unsigned r = 0; r < lane->rails; r++) {
		if (!lane->ctl.rail[r].fence.peer_fenced)
			lane->ctl.rail[r].theirs.n = 0;
	}
}
