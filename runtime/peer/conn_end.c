/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How one end of a connection ends, gets lost with its lane, or is tried again.
 *
 * Ending a connection. This end first stops its engine connection, then sends
 * CONN_CLOSE. Then this end waits until the peer sends CONN_CLOSED or
 * CONN_CLOSE, or until the lane is killed. After that, the peer cannot write to
 * this end's memory, and this end destroys the engine connection. This end does
 * not wait for the client's close, because the client may be waiting for a
 * region that is in use. Until the client's close, the state stays FAILED.
 *
 * Control thread.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "peer/internal.h"

void peer_conn_tell_end(const struct peer_conn *c, enum mpib_peer_type type)
{
	struct mpib_peer_msg m = {
		.type = type,
		.name = c->name,
		.to = c->their_id,
		.from = c->id,
		.error = c->error,
	};

	if (type == MPIB_PEER_CONN_CLOSE)
		m.ended = engine_conn_ended(c->conn);
	if (!c->lane)
		return;
	mpib_peer_text(m.why, sizeof(m.why), c->why);
	if (type == MPIB_PEER_CONN_CLOSED)
		peer_lane_answer(c->lane, &m);
	else
		peer_lane_tell(c->lane, &m);
}

/* Pause before the first retry of a connect that was refused. Each further
 * pause is twice as long as the one before, up to AGAIN_MOST_NS. */
#define AGAIN_NS (100 * MPIB_MSEC)
#define AGAIN_MOST_NS (400 * MPIB_MSEC)

static void conn_end_free_conn(struct peer_conn *c)
{
	struct peer_client *o = c->client;

	mpib_timer_disarm(c->broker->loop, &c->timer);
	HASH_DELETE(hh, c->broker->conns, c);
	if (c->name.key)
		HASH_DELETE(hh_name, c->broker->by_name, c);
	peer_conn_set_peer(c, NULL);
	o->conn[c->index] = NULL;
	mpib_sum_less(&o->conns);
	if (!c->was_lost)
		mpib_sum_less(&o->quota_conns);
	peer_conn_set_state(c, MPIB_CONN_FREE);
	free(c);
	if (o->leaving && o->conns == 0 && o->done) {
		mpib_done_fn *done = o->done;

		o->done = NULL;
		done(o->arg, 0);
	}
}

static void conn_end_on_destroyed(void *arg, int status)
{
	struct peer_conn *c = arg;

	(void)status;
	HASH_DELETE(hh_engine, c->broker->by_engine, c);
	c->conn = NULL;
	peer_conn_step(c);
}

static void conn_end_on_stopped(void *arg, int status)
{
	struct peer_conn *c = arg;

	(void)status;
	c->end = PEER_END_STOPPED;
	/* A peer's proxy may end again and again: each end is a new failure. */
	c->unmoved = engine_conn_unmoved(c->conn) && !c->lane->peer_lost;
	peer_conn_step(c);
}

static uint64_t close_ns(const struct peer_conn *c)
{
	return c->lane->key.serial ? MPIB_CLOSE_PRIVATE_NS
				   : MPIB_CLOSE_SHARED_NS;
}

/* Return whether the peer's link is down or was silent for `ns` ns. */
static bool conn_end_unheard(const struct mpib_peer *p, uint64_t ns)
{
	return p->state != MPIB_PEER_UP || p->link->silent >= ns / MPIB_SEC - 1;
}

/* The peer has not confirmed in time that it stopped writing. If the peer's
 * link is silent, wait up to `silence_s` seconds. If the peer then sends
 * something, wait again for the full time. Otherwise kill the lane. */
static void on_silence(void *arg)
{
	struct peer_conn *c = arg;
	bool was_unheard = c->unheard;
	uint64_t ns = close_ns(c);

	c->unheard = conn_end_unheard(c->peer, ns);
	if ((c->unheard || was_unheard) &&
	    ++c->waited * ns < c->broker->silence_s * MPIB_SEC) {
		mpib_timer_arm(c->broker->loop, &c->timer, ns, on_silence, c);
		return;
	}
	mpib_warn("peer %s: connection %u does not close in time, its lane "
		  "is cut",
		  c->peer->label, c->index);
	peer_lane_lose(c->lane,
		       "a connection of this lane could not be closed");
}

static void conn_end_stop(struct peer_conn *c)
{
	c->end = PEER_END_STOPPING;
	c->unheard = false;
	c->waited = 0;
	mpib_agent_del(c->hint);
	c->hint = NULL;
	mpib_timer_arm(c->broker->loop, &c->timer, close_ns(c), on_silence, c);
	/* The peer's answer will tell whether the peer had begun to write. */
	if (c->offered)
		peer_conn_tell_end(c, MPIB_PEER_CONN_CANCEL);
	engine_conn_stop(c->conn, c->error, conn_end_on_stopped, c);
}

static void conn_end_part(struct peer_conn *c)
{
	if (c->asked && !c->quiet) {
		/* The peer had stopped writing before it sent CONN_CLOSE. Tell
		 * the peer that this end has stopped, too. */
		c->quiet = true;
		peer_conn_tell_end(c, MPIB_PEER_CONN_CLOSED);
	}
	if (c->their_id && !c->quiet && !c->close_sent) {
		c->close_sent = true;
		peer_conn_tell_end(c, MPIB_PEER_CONN_CLOSE);
	}
	if (c->quiet) {
		c->end = PEER_END_DESTROYED;
		mpib_timer_disarm(c->broker->loop, &c->timer);
		engine_conn_destroy(c->conn, conn_end_on_destroyed, c);
	}
}

static void conn_end_on_again(void *arg)
{
	peer_conn_begin(arg);
}

void peer_conn_begin_later(struct peer_conn *c, uint64_t ns)
{
	c->state = PEER_CONN_NEW;
	mpib_timer_arm(c->broker->loop, &c->timer, ns, conn_end_on_again, c);
}

/* After the clean-up of this end, start the connect again over another lane. */
static void conn_end_begin_again(struct peer_conn *c)
{
	bool later = c->error == -EAGAIN;

	c->end = PEER_END_RUNS;
	c->quiet = false;
	c->error = 0;
	c->state = PEER_CONN_NEW;
	if (!later) {
		peer_conn_begin(c);
		return;
	}
	c->pause_ns = c->pause_ns ? 2 * c->pause_ns : AGAIN_NS;
	if (c->pause_ns > AGAIN_MOST_NS)
		c->pause_ns = AGAIN_MOST_NS;
	peer_conn_begin_later(c, c->pause_ns);
}

/* Retry a connect. If `error` is -EAGAIN, the peer refused the connect
 * temporarily. If `error` is -ECANCELED, the peer lost the lane and the
 * CONN_OPEN. The next CONN_OPEN has a new id, so that this end ignores late
 * answers to the previous one. */
static void conn_end_renew(struct peer_conn *c, int error)
{
	struct mpib_broker *b = c->broker;

	HASH_DELETE(hh, b->conns, c);
	c->id = mpib_broker_new_id(b);
	HASH_ADD(hh, b->conns, id, sizeof(c->id), c);
	peer_conn_unlist(c);
	mpib_timer_disarm(b->loop, &c->timer);
	c->offered = false;
	c->state = PEER_CONN_AGAIN;
	c->error = error;
	peer_conn_step(c);
}

void peer_lane_renew(struct peer_lane *l)
{
	struct peer_conn *c, *next;

	for (c = TAILQ_FIRST(&l->conns); c; c = next) {
		next = TAILQ_NEXT(c, lane_entry);
		if (c->state == PEER_CONN_OPEN)
			conn_end_renew(c, -ECANCELED);
	}
}

/*
 * Whether a rail works shows only when it moves data. So a lost connection can
 * be READY again and again on new lanes whose rails are all dead. Such lanes
 * are one failure, with one time limit.
 */

/* A lane without a working rail breaks within this time and failover.grace. The
 * time contains the retries of the HCA. */
#define DEAD_LANE_NS (150 * MPIB_SEC)

bool peer_conn_is_same_loss(const struct peer_conn *c)
{
	const struct mpib_broker *b = c->broker;
	uint64_t age = mpib_loop_now(b->loop) - c->since;

	return c->unmoved && c->number > 1 &&
	       age < DEAD_LANE_NS + b->grace_ns +
			       mpib_engine_grace_ns(b->engine);
}

/* The connection failed for the reason in c->why, and will not be resumed. */
static void conn_end_give_up(struct peer_conn *c, int error)
{
	struct mpib_reply *reply = c->client->reply;

	c->state = PEER_CONN_OVER;
	c->error = error;
	mpib_timer_disarm(c->broker->loop, &c->timer);
	reply->conn[c->index].error = error;
	mpib_peer_text(reply->why[c->index], sizeof(reply->why[0]), c->why);
	if (!c->dropped)
		peer_conn_set_state(c, MPIB_CONN_FAILED);
}

static void conn_end_on_grace(void *arg)
{
	conn_end_give_up(arg, -ETIMEDOUT);
}

/* Mark the connection as lost. The client can request the connection again,
 * because nothing writes to this end any more. */
static void conn_end_lost(struct peer_conn *c)
{
	uint64_t ns = c->broker->grace_ns;

	if (peer_conn_is_same_loss(c))
		ns = peer_conn_left_ns(c);
	c->error = 0; /* the client learns of the loss from MPIB_CONN_LOST */
	c->was_lost = true;
	mpib_sum_less(&c->client->quota_conns);
	mpib_timer_arm(c->broker->loop, &c->timer, ns, conn_end_on_grace, c);
	peer_conn_set_state(c, MPIB_CONN_LOST);
	if (c->client->lost)
		c->client->lost(c->client);
}

int peer_lost_error(const struct mpib_broker *b)
{
	return b->grace_ns ? MPIB_BROKEN_LOST : -ECONNRESET;
}

void peer_conn_step(struct peer_conn *c)
{
	if (c->state < PEER_CONN_OVER)
		return;
	if (c->conn && c->end == PEER_END_RUNS)
		conn_end_stop(c);
	else if (c->conn && c->end == PEER_END_STOPPED)
		conn_end_part(c);
	if (c->conn)
		return;
	peer_lane_leave(c);
	if (c->dropped)
		conn_end_free_conn(c);
	else if (c->state == PEER_CONN_AGAIN)
		conn_end_begin_again(c);
	else if (c->error == MPIB_BROKEN_LOST)
		conn_end_lost(c);
}

/* Return whether to retry a connect that failed with `error`. -EAGAIN: retry
 * any connect. -ENETDOWN (no rail is up): retry if the connect resumes a
 * connection. No connect is retried after its time limit. */
static bool conn_end_may_again(const struct peer_conn *c, int error)
{
	return (error == -EAGAIN || (c->number > 1 && error == -ENETDOWN)) &&
	       c->sender && !c->dropped && c->state < PEER_CONN_READY &&
	       mpib_loop_now(c->broker->loop) < c->until;
}

void peer_conn_fail(struct peer_conn *c, int error, const char *fmt, ...)
{
	char why[2 * sizeof(c->why)];
	va_list ap;

	if (c->state >= PEER_CONN_OVER)
		return;
	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	mpib_peer_text(c->why, sizeof(c->why), why);
	if (conn_end_may_again(c, error)) {
		conn_end_renew(c, -EAGAIN);
		return;
	}
	peer_conn_unlist(c);
	conn_end_give_up(c, error);
	peer_conn_step(c);
}

void peer_conn_lose(struct peer_conn *c, const char *cause)
{
	char why[2 * sizeof(c->why)];

	if (c->state >= PEER_CONN_OVER)
		return;
	if (c->state < PEER_CONN_READY) {
		peer_conn_fail(c, -EAGAIN, "peer %s: %s", c->peer->label,
			       cause);
		return;
	}
	snprintf(why, sizeof(why),
		 "peer %s: the lane was lost: %s; the connection was not "
		 "resumed in time (resume.grace; check that mpib-proxy and the "
		 "job run on that node)",
		 c->peer->label, cause);
	mpib_peer_text(c->why, sizeof(c->why), why);
	c->state = PEER_CONN_LOST;
	c->error = MPIB_BROKEN_LOST;
	peer_conn_step(c);
}

void peer_conn_closed_there(struct peer_conn *c, const char *why)
{
	if (c->asked)
		return;
	c->asked = true;
	if (c->state == PEER_CONN_LOST) {
		snprintf(c->why, sizeof(c->why), "peer %s: %s", c->peer->label,
			 why);
		/* The peer's end is closed, so the client must not resume the
		 * connection. */
		conn_end_give_up(c, -ECONNRESET);
	}
	if (c->state >= PEER_CONN_OVER)
		peer_conn_step(c);
	else
		peer_conn_fail(c, -ECONNRESET, "peer %s: %s", c->peer->label,
			       why);
}

int mpib_broker_drop(struct mpib_broker *b, struct peer_client *client,
		     uint32_t index)
{
	struct peer_conn *c =
		index < MPIB_INDEXES_MAX ? client->conn[index] : NULL;

	(void)b;
	if (!c || c->dropped)
		return -ENOENT;
	c->dropped = true;
	peer_conn_set_state(c, MPIB_CONN_CLOSING);
	if (c->state >= PEER_CONN_OVER)
		peer_conn_step(c);
	else
		peer_conn_fail(c, -ECANCELED, "it closed the connection");
	return 0;
}
