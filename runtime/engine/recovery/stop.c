/* SPDX-License-Identifier: Apache-2.0 */
/* The shard thread's part in stopping and restarting a rail of a lane. To stop
 * a rail, the thread posts nothing more and waits until the last WR of each QP
 * is flushed. Then, in one step, it makes the receive bitmaps and sets the
 * state STOPPED. In this state, completions of the rail are ignored, so the
 * bitmaps stay valid. */
#include "engine/recovery/stop.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/xalloc.h"
#include "engine/conn/conn.h"
#include "engine/lane/spread.h"

struct fault {
	struct mpib_msg msg;
	struct mpib_lane *lane;
	unsigned rail;
	enum mpib_rail_cause cause;
	bool suspected; /* only a suspicion: the rail is not stopped yet */
	uint32_t epoch; /* the rail's epoch when the fault was found */
};

static void on_fault(struct mpib_msg *msg)
{
	struct fault *fault = container_of(msg, struct fault, msg);

	if (fault->suspected)
		mpib_failover_suspect(fault->lane, fault->rail, fault->epoch);
	else
		mpib_failover_fault(fault->lane, fault->rail, fault->cause);
	free(fault);
}

/* Send a fault to the control thread. As in mpib_broken_tell(), the shard may
 * allocate memory here, because this happens only after a failure. */
static void send_fault(struct mpib_lane *lane, unsigned rail,
		       enum mpib_rail_cause cause, bool suspected)
{
	struct fault *fault = mpib_xcalloc(sizeof(*fault));

	*fault = (struct fault){ .lane = lane,
				 .rail = rail,
				 .cause = cause,
				 .suspected = suspected,
				 .epoch = lane->epoch[rail] };
	mpib_mailbox_send(&lane->shard->engine->mailbox, &fault->msg, on_fault);
}

bool mpib_lane_fault(struct mpib_lane *lane, unsigned rail,
		     enum mpib_rail_cause cause)
{
	enum mpib_lane_rail_state state = lane->rail[rail].state;

	if (!lane->failover || lane->broken)
		return false;
	if (state != MPIB_RAIL_LIVE && state != MPIB_RAIL_PROBING)
		return true;
	/* Post nothing more to the rail. mpib_rail_on_stop() will follow. */
	mpib_rail_enter(lane, rail, MPIB_RAIL_STOPPING);
	send_fault(lane, rail, cause, false);
	return true;
}

void mpib_lane_suspect(struct mpib_lane *lane, unsigned rail)
{
	send_fault(lane, rail, MPIB_CAUSE_STUCK, true);
}

struct mpib_recv_bitmap *mpib_recv_bitmap_add(struct mpib_recv_bitmaps *a)
{
	if (a->n == a->room) {
		a->room = a->room ? 2 * a->room : 64;
		a->v = mpib_xrealloc(a->v, a->room * sizeof(*a->v));
	}
	memset(&a->v[a->n], 0, sizeof(*a->v));
	return &a->v[a->n++];
}

static void bitmap_of_receiver(struct engine_conn *f, unsigned rail,
			       struct mpib_recv_bitmap *a)
{
	struct mpib_receiver *rx = &f->rx;

	/* Writes of the rail without a completion may still be in flight to a
	 * GPU. So a flush must read back through the rail before the buffer is
	 * used again. */
	rx->flush.arrived[rail] = f->shard->now;
	a->conn = f->id;
	a->first = rx->tail;
	for (uint64_t i = rx->tail; i < rx->cts_posted; i++) {
		const struct mpib_slot *s = mpib_slot_at(f, i);
		unsigned bit = (unsigned)(i - rx->tail) * MPIB_RAILS;
		uint8_t seen = s->seen;

		/* Report a cancelled slot as received, so that the sender does
		 * not send it again. */
		if (s->state == MPIB_SLOT_CANCELLED)
			seen = (1u << MPIB_RAILS) - 1;
		if (!seen)
			continue;
		a->seen[bit / 8] |= (uint8_t)(seen << bit % 8);
		a->slots = (uint16_t)(i - rx->tail + 1);
	}
}

static void bitmap_of_sender(struct engine_conn *f, struct mpib_recv_bitmap *a)
{
	struct mpib_cts cts;

	a->conn = f->remote.id;
	a->sender = true;
	a->first = f->tx.cts_next;
	while (a->first - f->tx.cts_next < MPIB_TABLE_SLOTS &&
	       mpib_sender_cts(f, a->first, &cts))
		a->first++;
}

static void stop_bitmap(struct mpib_lane *lane, unsigned rail,
			struct mpib_recv_bitmaps *out)
{
	struct engine_conn *f;

	out->lost = lane->shard->rail[rail].lost;
	TAILQ_FOREACH(f, &lane->conns, lane_link)
	{
		if (f->is_sender)
			bitmap_of_sender(f, mpib_recv_bitmap_add(out));
		else
			bitmap_of_receiver(f, rail, mpib_recv_bitmap_add(out));
	}
}

void mpib_rail_check_stopped(struct mpib_lane *lane, unsigned rail)
{
	struct mpib_call *call = lane->rail[rail].stopped;
	struct mpib_rail_job *job;

	if (!call)
		return;
	if (!mpib_rail_stopped(lane, rail)) {
		mpib_rail_post_last(lane, rail);
		return;
	}
	lane->rail[rail].stopped = NULL;
	job = call->what;
	stop_bitmap(lane, rail, &job->bitmaps);
	if (lane->rail[rail].state != MPIB_RAIL_DOWN)
		mpib_rail_enter(lane, rail, MPIB_RAIL_STOPPED);
	mpib_call_done(lane->shard, call, 0);
}

static void give_up_probes(struct mpib_lane *lane, unsigned rail, int status)
{
	struct mpib_call *call = lane->rail[rail].probed;

	lane->rail[rail].probed = NULL;
	lane->rail[rail].probes = 0;
	if (call)
		mpib_call_done(lane->shard, call, status);
}

/* Stop the rail. The control thread has already moved its QPs to ERR. */
void mpib_rail_on_stop(struct mpib_msg *msg)
{
	struct mpib_call *call = container_of(msg, struct mpib_call, msg);
	struct mpib_rail_job *job = call->what;
	struct mpib_lane *lane = job->lane;
	unsigned rail = job->rail;

	if (lane->rail[rail].state != MPIB_RAIL_DOWN)
		mpib_rail_enter(lane, rail, MPIB_RAIL_STOPPING);
	give_up_probes(lane, rail, -ECANCELED);
	lane->rail[rail].stopped = call;
	/* If a QP refuses the last WR, poll the CQs. If the QP's send queue was
	 * full, the QP accepts the WR after the poll. If the device is gone,
	 * the QP never accepts the WR, but the poll handles the completions
	 * that have arrived. */
	if (!mpib_rail_post_last(lane, rail))
		mpib_cq_poll_all(lane->shard);
	mpib_rail_check_stopped(lane, rail);
}

/* Probe each of the rail's new QPs, which the control thread has connected. */
void mpib_rail_on_connect(struct mpib_msg *msg)
{
	struct mpib_call *call = container_of(msg, struct mpib_call, msg);
	struct mpib_rail_job *job = call->what;
	struct mpib_lane *lane = job->lane;
	struct mpib_lane_rail *rail = &lane->rail[job->rail];

	memset(&lane->watch[job->rail], 0, sizeof(lane->watch[0]));
	mpib_rail_enter(lane, job->rail, MPIB_RAIL_PROBING);
	rail->probed = call;
	rail->probes = lane->qps[job->rail];
	for (unsigned i = 0; i < lane->qps[job->rail]; i++) {
		if (!mpib_qp_probe(&lane->qp[job->rail][i])) {
			give_up_probes(lane, job->rail, -EIO);
			return;
		}
	}
}

void mpib_rail_probed(struct mpib_lane *lane, unsigned rail, bool ok)
{
	struct mpib_lane_rail *probed = &lane->rail[rail];

	if (!probed->probed)
		return;
	if (!ok)
		give_up_probes(lane, rail, -EIO);
	else if (--probed->probes == 0)
		give_up_probes(lane, rail, 0);
}

void mpib_rail_on_resume(struct mpib_msg *msg)
{
	struct mpib_call *call = container_of(msg, struct mpib_call, msg);
	struct mpib_rail_job *job = call->what;
	struct mpib_lane *lane = job->lane;

	/* Skip this if the rail has failed again and its next fence is in
	 * progress. */
	if (lane->rail[job->rail].state == MPIB_RAIL_PROBING)
		mpib_rail_enter(lane, job->rail, MPIB_RAIL_LIVE);
	lane->shard->rail[job->rail].n.failover.failbacks++;
	mpib_call_done(lane->shard, call, 0);
}

void mpib_rail_on_drain(struct mpib_msg *msg)
{
	struct mpib_call *call = container_of(msg, struct mpib_call, msg);
	struct mpib_rail_job *job = call->what;

	job->lane->drain = job->drain;
	mpib_lane_reckon(job->lane);
	mpib_call_done(job->lane->shard, call, 0);
}

/* A time limit of the control thread has expired: break the lane. The time
 * limit is either the grace period of a lane without a live rail, or the time
 * in which the peer must stop its end of the rail. */
void mpib_rail_on_late(struct mpib_msg *msg)
{
	struct mpib_call *call = container_of(msg, struct mpib_call, msg);
	struct mpib_rail_job *job = call->what;
	struct mpib_lane *lane = job->lane;
	const char *label = mpib_rail_label(lane->shard, job->rail);

	if (job->grace)
		mpib_lane_break(lane, -ETIMEDOUT,
				"no rail to %s for %u ms, the last to fail was "
				"%s: check links and cables",
				lane->peer, lane->shard->engine->cfg.grace_ms,
				label);
	else
		mpib_lane_break(lane, -ETIMEDOUT,
				"rail %s failed, and the proxy of %s does not "
				"stop using it: restart that proxy",
				label, lane->peer);
	mpib_call_done(lane->shard, call, 0);
}

/* How lanes break, together with their connections. Shard thread, except
 * mpib_lane_kill(). */

void mpib_lane_break(struct mpib_lane *lane, int error, const char *fmt, ...)
{
	struct mpib_engine *e = lane->shard->engine;
	int conn_error = error == -ETIMEDOUT && !e->cfg.resume
				 ? error
				 : mpib_conn_lost_error(e);
	struct engine_conn *f, *next;
	char why[MPIB_BROKEN_WHY];
	va_list ap;

	if (lane->broken)
		return;
	lane->broken = true;
	mpib_lane_reckon(lane);
	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	for (unsigned r = 0; r < lane->rails; r++)
		mpib_spread_reset(lane, r);
	for (f = TAILQ_FIRST(&lane->conns); f; f = next) {
		next = TAILQ_NEXT(f, lane_link);
		engine_conn_break(f, conn_error, "%s", why);
		if (f->state == ENGINE_CONN_STOPPING)
			engine_conn_check_stopped(f);
	}
	mpib_broken_tell(lane, NULL, error, why);
}

/* Handle WRs that the QP refused. With failover, a refused WR is a fault of the
 * rail. The WRs count as lost, and the fence finds them. */
static void break_refused(struct mpib_lane_qp *q)
{
	int error = q->refused;

	q->refused = 0;
	if (mpib_lane_fault(q->lane, q->rail, MPIB_CAUSE_ERROR))
		return;
	mpib_lane_break(q->lane, -EIO,
			"rail %s: ibv_post_send on QP 0x%x to %s: %s",
			mpib_rail_label(q->lane->shard, q->rail), q->qpn,
			q->lane->peer, strerror(-error));
}

void mpib_lanes_refused(struct mpib_shard *s)
{
	struct mpib_lane *lane;

	s->refused = false;
	TAILQ_FOREACH(lane, &s->lanes, link)
	{
		for (unsigned r = 0; r < lane->rails; r++) {
			for (unsigned i = 0; i < lane->qps[r]; i++) {
				if (lane->qp[r][i].refused)
					break_refused(&lane->qp[r][i]);
			}
		}
	}
}

static void on_kill(struct mpib_msg *msg)
{
	struct mpib_call *call = container_of(msg, struct mpib_call, msg);
	struct mpib_lane *lane = call->what;

	mpib_lane_break(lane, -ECONNRESET, "lane to %s was closed", lane->peer);
	mpib_looks_end(lane);
	lane->kill = call;
	mpib_lane_stop(lane);
}

void mpib_lane_kill(struct mpib_lane *lane, mpib_done_fn *done, void *arg)
{
	struct mpib_call *call = mpib_call_new(lane, done, arg);

	mpib_failover_end(lane);
	/* If a device hangs, the move to ERR takes effect later, but still
	 * before the memory is deregistered. */
	for (unsigned r = 0; r < lane->rails; r++)
		mpib_lane_rail_to_err(lane, r);
	mpib_mailbox_send(&lane->shard->mailbox, &call->msg, on_kill);
}

/*
 * A lost device context: the device failed or was removed, or its completion
 * queue overran. The context makes no more completions, not even of flushed
 * WRs. So the shard does not wait for completions, and the rail counts as
 * stopped immediately. An immediate stop is as safe as a flush. The peer's QPs
 * are in ERR before the peer answers the fence, so they refuse data that this
 * end still sends. This end does not accept data that the peer still sends,
 * because the device is gone or its QPs are in ERR. If the device hangs, its
 * QPs may accept data until the device answers again. But the peer sends
 * nothing more after it has answered the fence. If the peer never answers, its
 * data can reach only memory that is still registered. Memory is deregistered
 * after the move to ERR (hca/calls.c). The receive bitmap stays valid because
 * the shard handles no more completions of the rail. This engine never uses the
 * rail again.
 */

static void lose_lane(struct mpib_lane *lane, unsigned r)
{
	struct mpib_shard *s = lane->shard;
	struct engine_conn *f;

	if (!mpib_lane_fault(lane, r, MPIB_CAUSE_PORT))
		mpib_lane_break(lane, -EIO,
				"rail %s (%s): its device failed or was "
				"removed",
				mpib_rail_label(s, r),
				mpib_rail_spec(s, r)->name);
	/* Do this after the rail is closed, so that a last write uses the other
	 * rail. */
	TAILQ_FOREACH(f, &lane->conns, lane_link)
	{
		f->stop_posted &= (uint8_t)~mpib_rail_bit(r);
		if (f->is_sender)
			continue;
		mpib_flush_lost(f, r);
		if (f->state == ENGINE_CONN_STOPPING)
			engine_conn_check_stopped(f);
	}
	mpib_rail_check_stopped(lane, r);
	mpib_lane_check_stopped(lane);
}

static void on_lost(struct mpib_msg *msg)
{
	struct mpib_call *call = container_of(msg, struct mpib_call, msg);
	struct mpib_shard *s = call->what;
	struct mpib_rail *rail = &s->rail[call->rail];
	struct mpib_tenant *t;
	struct mpib_lane *lane;

	rail->lost = true;
	/* Remove the channel's descriptor from epoll. Otherwise the kernel
	 * would always report the descriptor as readable. */
	epoll_ctl(s->epfd, EPOLL_CTL_DEL, rail->channel->fd, NULL);
	TAILQ_FOREACH(t, &s->tenants, link)
	mpib_loopback_lost(t, call->rail);
	TAILQ_FOREACH(lane, &s->lanes, link)
	{
		if (call->rail < lane->rails)
			lose_lane(lane, call->rail);
	}
	mpib_call_done(s, call, 0);
}

static void after_lost(struct mpib_call *call)
{
	struct mpib_shard *s = call->what;

	mpib_async_port(s, call->rail, false, s->rail[call->rail].why);
}

void mpib_rail_lose(struct mpib_shard *s, unsigned rail, const char *why)
{
	struct mpib_call *call;

	if (s->rail[rail].dead)
		return;
	s->rail[rail].dead = true;
	s->rail[rail].why = why;
	s->rail[rail].up = false;
	s->rail[rail].port.state = IBV_PORT_NOP;
	epoll_ctl(s->engine->epfd, EPOLL_CTL_DEL, s->rail[rail].ctx->async_fd,
		  NULL);
	call = mpib_call_new(s, NULL, NULL);
	call->rail = rail;
	call->after = after_lost;
	mpib_mailbox_send(&s->mailbox, &call->msg, on_lost);
}

/* Return one bit per rail that is lost or, if `down` is true, not up. */
static uint32_t rails_away(const struct mpib_engine *engine, bool down)
{
	uint32_t mask = 0;

	for (unsigned i = 0; i < engine->shards; i++) {
		const struct mpib_shard *s = &engine->shard[i];

		for (unsigned r = 0; r < engine->cfg.rails; r++)
			mask |= (uint32_t)(down ? !s->rail[r].up
						: s->rail[r].dead)
				<< mpib_rail_number(s, r);
	}
	return mask;
}

uint32_t mpib_engine_lost(const struct mpib_engine *engine)
{
	return rails_away(engine, false);
}

uint32_t mpib_engine_down(const struct mpib_engine *engine)
{
	return rails_away(engine, true);
}
