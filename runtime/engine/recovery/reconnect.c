/* SPDX-License-Identifier: Apache-2.0 */
/* How a rail comes back: after the hold-down both ends create new QPs with new
 * PSNs and the port's present GID, and connect and probe them before traffic
 * uses them. Also draining of a rail by the operator, and the timer for
 * hold-downs, probes and grace periods. Control thread. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/event.h"
#include "engine/lane/lane.h"
#include "engine/recovery/stop.h"

/* Time limit of a try, and pause before the next. Once the rail works again, a
 * try succeeds within 2 s, unless a node has no free core. */
#define PROBE_NS 1250000000ull
#define AGAIN_NS 500000000ull
/* Limit the number of lanes that are tried in this rhythm: each try creates
 * QPs, which takes the control thread some ms. With more lanes, each pauses
 * longer. */
#define AGAIN_LANES 64
/* Each failure soon after a rail came back makes the hold-down four times as
 * long, at most this number of times. */
#define HOLD_GROWS 3
/* Time limits of a stop, in ticks of this control thread, so that a pause of
 * the whole process does not count. A device flushes its QPs in milliseconds.
 * The peer's shard, which has the same limit, takes longer only if it hangs. */
#define STOP_TICK_NS 1000000000ull
#define FLUSH_TICKS 30
#define PEER_STOP_TICKS 120
/* Hold-down of a lane that has no live rail. */
#define HOLD_LAST_NS 100000000ull

int mpib_failover_init(struct mpib_engine *engine)
{
	struct epoll_event ev = { .events = EPOLLIN };

	TAILQ_INIT(&engine->lanes);
	TAILQ_INIT(&engine->asked);
	engine->timer =
		timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (engine->timer < 0)
		return -errno;
	if (epoll_ctl(engine->epfd, EPOLL_CTL_ADD, engine->timer, &ev) < 0) {
		int rc = -errno;

		close(engine->timer);
		return rc;
	}
	return 0;
}

void mpib_failover_fini(struct mpib_engine *engine)
{
	close(engine->timer);
}

void mpib_rail_arm(struct mpib_engine *engine, uint64_t at)
{
	struct itimerspec set = { .it_value = {
					  .tv_sec = (time_t)(at / 1000000000u),
					  .tv_nsec = (long)(at % 1000000000u),
				  } };

	/* Setting the timer again would clear its expiry. */
	if (engine->armed && engine->armed <= at)
		return;
	engine->armed = at;
	timerfd_settime(engine->timer, TFD_TIMER_ABSTIME, &set, NULL);
}

static void reconnect_on_said(void *arg, int status)
{
	(void)status;
	mpib_rail_job_free(arg);
}

/* Check how long the rail has been stopping. Without this, messages with a
 * stripe on the rail would wait for ever: the peer link answers PING, and the
 * grace period does not begin while the other rail is live. Returns the rail's
 * next deadline, UINT64_MAX for none. */
static uint64_t reconnect_look_stop(struct mpib_lane *lane, unsigned r,
				    uint64_t now)
{
	struct mpib_rail_control *rail = &lane->ctl.rail[r];
	enum mpib_fence_state state = rail->fence.state;

	if (state != MPIB_FENCE_STOPPING && state != MPIB_FENCE_STOPPED)
		return UINT64_MAX;
	if (now < rail->stop_next)
		return rail->stop_next;
	rail->stop_next = now + STOP_TICK_NS;
	rail->stop_ticks++;
	if (state == MPIB_FENCE_STOPPING && rail->stop_ticks >= FLUSH_TICKS)
		mpib_rail_give_up(lane->shard, r, "its QPs were not flushed");
	if (state == MPIB_FENCE_STOPPED && rail->stop_ticks >= PEER_STOP_TICKS)
		mpib_rail_job_run(mpib_rail_job_new(lane, r),
				  mpib_rail_on_peer_late, reconnect_on_said);
	return rail->stop_next;
}

static uint64_t reconnect_look_rail(struct mpib_lane *lane, unsigned r,
				    uint64_t now)
{
	struct mpib_rail_control *rail = &lane->ctl.rail[r];
	uint64_t next = reconnect_look_stop(lane, r, now);

	if (rail->hold_until && now >= rail->hold_until) {
		rail->hold_until = 0;
		mpib_rail_act(lane, r, mpib_fence_hold_over(&rail->fence));
	}
	if (rail->probe_until && now >= rail->probe_until) {
		rail->probe_until = 0;
		mpib_rail_ask(lane, r, MPIB_ASK_PROBES);
	}
	if (rail->hold_until && rail->hold_until < next)
		next = rail->hold_until;
	if (rail->probe_until && rail->probe_until < next)
		next = rail->probe_until;
	return next;
}

/* Check the lane. Returns its next deadline, UINT64_MAX for none. */
static uint64_t reconnect_look(struct mpib_lane *lane, uint64_t now)
{
	struct mpib_lane_control *ctl = &lane->ctl;
	uint64_t next = UINT64_MAX;

	mpib_rail_look(lane);
	if (ctl->over)
		return next;
	if (ctl->grace_until && now >= ctl->grace_until) {
		ctl->grace_until = 0;
		mpib_rail_job_run(mpib_rail_job_new(lane, ctl->last),
				  mpib_rail_on_grace, reconnect_on_said);
	} else if (ctl->grace_until) {
		next = ctl->grace_until;
	}
	for (unsigned r = 0; r < lane->rails; r++) {
		uint64_t at = reconnect_look_rail(lane, r, now);

		next = at < next ? at : next;
	}
	return next;
}

static bool is_retried(const struct mpib_lane *lane)
{
	const struct mpib_rail_control *rail = lane->ctl.rail;

	for (unsigned r = 0; r < lane->rails; r++) {
		if (rail[r].retry && rail[r].fence.state != MPIB_FENCE_LIVE)
			return true;
	}
	return false;
}

static unsigned count_retried(const struct mpib_engine *engine)
{
	const struct mpib_lane *lane;
	unsigned retried = 0;

	TAILQ_FOREACH(lane, &engine->lanes, made_link)
	retried += is_retried(lane);
	return retried;
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
		at = reconnect_look(lane, now);
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

static uint64_t again_ns(const struct mpib_engine *e)
{
	unsigned times = e->retried / AGAIN_LANES;

	return AGAIN_NS * (times ? times : 1);
}

static uint64_t hold_ns(const struct mpib_lane *lane, unsigned rail)
{
	const struct mpib_rail_control *ctl = &lane->ctl.rail[rail];
	const struct mpib_engine *e = lane->shard->engine;
	unsigned times = ctl->failures ? ctl->failures - 1 : 0;
	uint64_t ns;

	if (times > HOLD_GROWS)
		times = HOLD_GROWS;
	ns = ((uint64_t)e->cfg.hold_ms << 2 * times) * 1000000u;
	/* Without a live rail there is no traffic to disturb: hold down
	 * briefly. */
	if (lane->ctl.grace_until)
		return ns > HOLD_LAST_NS ? HOLD_LAST_NS : ns;
	return ctl->retry && (ns > AGAIN_NS || e->retried > AGAIN_LANES)
		       ? again_ns(e)
		       : ns;
}

void mpib_rail_await_stop(struct mpib_lane *lane, unsigned rail)
{
	struct mpib_rail_control *ctl = &lane->ctl.rail[rail];

	ctl->stop_ticks = 0;
	ctl->stop_next = mpib_now_ns() + STOP_TICK_NS;
	mpib_rail_arm(lane->shard->engine, ctl->stop_next);
}

void mpib_rail_hold(struct mpib_lane *lane, unsigned rail)
{
	struct mpib_rail_control *ctl = &lane->ctl.rail[rail];

	ctl->hold_until = mpib_now_ns() + hold_ns(lane, rail);
	mpib_rail_arm(lane->shard->engine, ctl->hold_until);
}

void mpib_rail_hold_last(struct mpib_lane *lane)
{
	uint64_t at = mpib_now_ns() + HOLD_LAST_NS;

	for (unsigned r = 0; r < lane->rails; r++) {
		if (lane->ctl.rail[r].hold_until > at)
			lane->ctl.rail[r].hold_until = at;
	}
	mpib_rail_arm(lane->shard->engine, at);
}

static void reconnect_refuse(struct mpib_lane *lane, unsigned rail,
			     const char *what, int rc)
{
	mpib_warn("rail %s to %s: %s: %s", mpib_rail_label(lane->shard, rail),
		  lane->peer, what, strerror(-rc));
	mpib_failover_fault(lane, rail, MPIB_CAUSE_ERROR);
}

void mpib_rail_reconnect(struct mpib_lane *lane, unsigned rail)
{
	struct mpib_rail_msg msg = { 0 };
	int rc;

	mpib_lane_free_qps(lane, rail);
	rc = mpib_lane_make_qps(lane, rail, lane->qps[rail]);
	if (rc < 0) {
		reconnect_refuse(lane, rail, "no QPs", rc);
		return;
	}
	mpib_lane_rail_local(lane, rail, &msg.info);
	mpib_rail_send(lane, &msg, MPIB_RAIL_RECONNECT, rail,
		       lane->ctl.rail[rail].fence.epoch);
}

static void on_probed(void *arg, int status)
{
	struct mpib_rail_job *job = arg;
	struct mpib_lane *lane = job->lane;
	struct mpib_rail_control *ctl = &lane->ctl.rail[job->rail];

	/* Ignore the probes of an attempt that was given up meanwhile. */
	if (!lane->ctl.over && status != -ECANCELED &&
	    job->epoch == ctl->fence.epoch) {
		ctl->probe_until = 0;
		if (status < 0)
			ctl->cause = MPIB_CAUSE_PROBE;
		mpib_rail_act(lane, job->rail,
			      mpib_fence_probed(&ctl->fence, status == 0));
	}
	mpib_rail_job_free(job);
}

void mpib_rail_connect(struct mpib_lane *lane, unsigned rail)
{
	struct mpib_rail_control *ctl = &lane->ctl.rail[rail];
	int rc = mpib_lane_connect_rail(lane, rail, &ctl->reconnect);

	if (rc < 0) {
		reconnect_refuse(lane, rail, "QPs cannot be connected", rc);
		return;
	}
	/* What arrives before the peer has connected its QPs, too, is lost, and
	 * a device repeats it only after qp.timeout, which by default is longer
	 * than the try. */
	mpib_rail_ask(lane, rail, MPIB_ASK_CONNECTED);
}

void mpib_rail_await_probes(struct mpib_lane *lane, unsigned rail)
{
	struct mpib_rail_control *ctl = &lane->ctl.rail[rail];

	ctl->probe_until = mpib_now_ns() + PROBE_NS;
	mpib_rail_arm(lane->shard->engine, ctl->probe_until);
}

void mpib_rail_probe(struct mpib_lane *lane, unsigned rail)
{
	mpib_rail_job_run(mpib_rail_job_new(lane, rail), mpib_rail_on_connect,
			  on_probed);
	mpib_rail_await_probes(lane, rail);
}

void mpib_rail_resume(struct mpib_lane *lane, unsigned rail)
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
		   "rail %s to %s: back after %llu ms",
		   mpib_rail_label(lane->shard, rail), lane->peer,
		   (unsigned long long)about.ns / 1000000);
	mpib_rail_job_run(mpib_rail_job_new(lane, rail), mpib_rail_on_resume,
			  reconnect_on_said);
}

/* Tell the shard which rails are drained: by this proxy or by the peer's. */
void mpib_rail_drained_set(struct mpib_lane *lane)
{
	struct mpib_rail_job *job = mpib_rail_job_new(lane, 0);

	job->drain = mpib_rail_bits(lane->shard,
				    mpib_engine_drained(lane->shard->engine));
	for (unsigned r = 0; r < lane->rails; r++)
		job->drain |= (uint8_t)(lane->ctl.rail[r].peer_drains << r);
	mpib_rail_job_run(job, mpib_rail_on_drain, reconnect_on_said);
}

void mpib_rail_tell_drain(struct mpib_lane *lane, unsigned rail, bool on)
{
	struct mpib_rail_msg msg = { .on = on };

	if (lane->failover)
		mpib_rail_send(lane, &msg, MPIB_RAIL_DRAIN, rail, 0);
	mpib_rail_drained_set(lane);
}

void mpib_rail_drain(struct mpib_engine *engine, unsigned rail, bool on)
{
	unsigned device = rail / engine->cfg.rails;
	struct mpib_lane *lane;

	TAILQ_FOREACH(lane, &engine->lanes, made_link)
	{
		if (lane->shard->device == device && lane->ctl.settled &&
		    !lane->ctl.over)
			mpib_rail_tell_drain(lane, rail % engine->cfg.rails,
					     on);
	}
}
