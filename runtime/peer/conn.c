/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection's life, seen from one of its ends.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "peer/internal.h"

static void set_state(struct mpib_bconn *c, enum mpib_conn_state state)
{
	/* Release pairs with the acquire in the client's mpib_ready(). */
	atomic_store_explicit(&c->owner->reply->conn[c->index].state,
			      (uint32_t)state, memory_order_release);
}

int mpib_bconn_new(struct mpib_broker *b, struct mpib_owner *owner,
		   uint32_t index, bool sender, struct mpib_bconn **conn)
{
	struct mpib_bconn *c;

	if (index >= MPIB_CONNS_MAX || owner->conn[index])
		return -EINVAL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->broker = b;
	c->owner = owner;
	c->index = index;
	c->sender = sender;
	c->id = b->next_id++;
	HASH_ADD(hh, b->conns, id, sizeof(c->id), c);
	owner->conn[index] = c;
	owner->conns++;
	set_state(c, MPIB_CONN_PENDING);
	*conn = c;
	return 0;
}

static void tell(struct mpib_bconn *c, enum mpib_peer_type type, uint32_t to)
{
	struct mpib_peer_msg m = { .type = type, .to = to };

	mpib_peer_tell(c->peer, &m);
}

/* Off whichever list it waits on. */
static void unlist(struct mpib_bconn *c)
{
	if (c->state == MPIB_BCONN_LINK)
		TAILQ_REMOVE(&c->peer->waiting, c, entry);
	else if (c->state == MPIB_BCONN_LANE)
		TAILQ_REMOVE(&c->lane->waiting, c, entry);
	else if (c->state == MPIB_BCONN_ACCEPT && c->listener)
		TAILQ_REMOVE(&c->listener->accepts, c, entry);
	c->listener = NULL;
}

static void free_conn(struct mpib_bconn *c)
{
	struct mpib_owner *o = c->owner;
	struct mpib_blane *lane = c->lane;

	mpib_timer_disarm(c->broker->loop, &c->timer);
	HASH_DELETE(hh, c->broker->conns, c);
	o->conn[c->index] = NULL;
	o->conns--;
	set_state(c, MPIB_CONN_FREE);
	free(c);
	if (lane)
		mpib_blane_put(lane);
	if (o->leaving && o->conns == 0 && o->done) {
		mpib_done_fn *done = o->done;

		o->done = NULL;
		done(o->arg, 0);
	}
}

static void on_destroyed(void *arg, int status)
{
	(void)status;
	free_conn(arg);
}

static void on_stopped(void *arg, int status)
{
	struct mpib_bconn *c = arg;

	(void)status;
	c->stopped = true;
	mpib_bconn_step(c);
}

/* The peer keeps silent about our CONN_CLOSE: its writes can only be stopped
 * with the lane. */
static void on_silence(void *arg)
{
	struct mpib_bconn *c = arg;

	mpib_warn("peer %s: no answer to a close, its lane is cut",
		  c->peer->label);
	if (c->lane)
		mpib_blane_kill(c->lane, "the peer did not answer a close");
}

static bool lane_is_cut(const struct mpib_bconn *c)
{
	return c->lane->state == MPIB_BLANE_DEAD;
}

void mpib_bconn_step(struct mpib_bconn *c)
{
	if (c->state != MPIB_BCONN_OVER || c->destroying)
		return;
	if (c->flow && !c->stopping) {
		c->stopping = true;
		mpib_flow_stop(c->flow, c->asked ? -ECONNRESET : -ECANCELED,
			       on_stopped, c);
		return;
	}
	if (c->flow && !c->stopped)
		return;
	if (c->asked && !c->quiet) {
		/* It stopped before it asked, and learns that we have too. */
		c->quiet = true;
		tell(c, MPIB_PEER_CONN_CLOSED, c->their_id);
	}
	if (c->flow && !c->quiet && lane_is_cut(c))
		c->quiet = true;
	if (c->flow && c->known && !c->quiet && !c->close_sent) {
		c->close_sent = true;
		tell(c, MPIB_PEER_CONN_CLOSE, c->their_id);
		mpib_timer_arm(c->broker->loop, &c->timer, MPIB_CLOSE_NS,
			       on_silence, c);
	}
	if (!c->dropped || (c->flow && !c->quiet))
		return;
	c->destroying = true;
	if (c->flow)
		mpib_flow_destroy(c->flow, on_destroyed, c);
	else
		free_conn(c);
}

void mpib_bconn_fail(struct mpib_bconn *c, int error, const char *fmt, ...)
{
	va_list ap;

	if (c->state == MPIB_BCONN_OVER)
		return;
	unlist(c);
	mpib_timer_disarm(c->broker->loop, &c->timer);
	c->state = MPIB_BCONN_OVER;
	va_start(ap, fmt);
	vsnprintf(c->why, sizeof(c->why), fmt, ap);
	va_end(ap);
	c->owner->reply->conn[c->index].error = error;
	if (!c->dropped)
		set_state(c, MPIB_CONN_FAILED);
	mpib_bconn_step(c);
}

static void on_late(void *arg)
{
	struct mpib_bconn *c = arg;
	const char *what = c->state == MPIB_BCONN_LINK	 ? c->peer->trouble
			   : c->state == MPIB_BCONN_LANE ? "no lane came up"
							 : "nobody accepted";
	bool called_off = false;

	if (c->state == MPIB_BCONN_OPEN) {
		tell(c, MPIB_PEER_CONN_CANCEL, c->id);
		called_off = true;
	}
	mpib_bconn_fail(c, -ETIMEDOUT,
			"peer %s: not connected within %llu s: %s",
			c->peer->label,
			(unsigned long long)(c->broker->connect_ns / MPIB_SEC),
			what[0] ? what : "no answer");
	/* Not dropped by its client, so it is still there. */
	if (called_off)
		mpib_timer_arm(c->broker->loop, &c->timer, MPIB_CLOSE_NS,
			       on_silence, c);
}

int mpib_broker_connect(struct mpib_broker *b, struct mpib_owner *owner,
			uint32_t index, const struct mpib_handle *handle)
{
	bool self =
		handle->addr == b->self.addr && handle->port == b->self.port;
	struct mpib_bconn *c;
	int rc;

	if (handle->magic != MPIB_HANDLE_MAGIC || handle->port == 0 ||
	    handle->shard >= MPIB_SHARDS_MAX)
		return -EINVAL;
	rc = mpib_bconn_new(b, owner, index, true, &c);
	if (rc < 0)
		return rc;
	c->handle = *handle;
	c->peer = mpib_peer_find(b, handle->addr, handle->port, false);
	if (!c->peer) {
		c->state = MPIB_BCONN_OVER;
		c->dropped = true;
		mpib_bconn_step(c);
		return -ENOMEM;
	}
	if (self && handle->node != b->self.boot) {
		mpib_bconn_fail(c, -ECONNREFUSED,
				"the handle is of an earlier life of this "
				"proxy");
		return 0;
	}
	c->state = MPIB_BCONN_LINK;
	TAILQ_INSERT_TAIL(&c->peer->waiting, c, entry);
	mpib_timer_arm(b->loop, &c->timer, b->connect_ns, on_late, c);
	if (c->peer->state == MPIB_PEER_UP) {
		TAILQ_REMOVE(&c->peer->waiting, c, entry);
		mpib_bconn_linked(c);
	} else {
		mpib_peer_want(c->peer);
	}
	return 0;
}

/* Off peer->waiting already. */
void mpib_bconn_linked(struct mpib_bconn *c)
{
	c->state = MPIB_BCONN_OPEN; /* on no list, should it fail here */
	if (c->handle.node != c->peer->node.boot) {
		mpib_bconn_fail(c, -ECONNREFUSED,
				"peer %s: its proxy was restarted since it "
				"listened",
				c->peer->label);
		return;
	}
	c->lane = mpib_blane_get(c);
	if (!c->lane) {
		mpib_bconn_fail(c, -ENOMEM, "peer %s: no QPs for a lane",
				c->peer->label);
		return;
	}
	if (c->lane->state == MPIB_BLANE_UP) {
		mpib_bconn_laned(c);
		return;
	}
	c->state = MPIB_BCONN_LANE;
	TAILQ_INSERT_TAIL(&c->lane->waiting, c, entry);
}

/* Off lane->waiting already. */
void mpib_bconn_laned(struct mpib_bconn *c)
{
	struct mpib_peer_msg m = {
		.type = MPIB_PEER_CONN_OPEN,
		.from = c->id,
		.lane = c->lane->their_id,
		.listen_id = c->handle.listen_id,
		.nonce = c->handle.nonce,
		.uid = c->owner->uid,
	};
	int rc;

	c->state = MPIB_BCONN_OPEN;
	rc = mpib_flow_create(c->owner->attachment, c->index, true,
			      c->lane->lane, &c->flow);
	if (rc < 0) {
		c->flow = NULL;
		mpib_bconn_fail(c, rc, "no tables for a connection: %s",
				strerror(-rc));
		return;
	}
	mpib_flow_local(c->flow, &m.flow);
	mpib_peer_tell(c->peer, &m);
}

/* A CONN_OPEN was matched with this accept. */
void mpib_accept_begin(struct mpib_bconn *c, const struct mpib_waiter *w)
{
	struct mpib_peer_msg m = {
		.type = MPIB_PEER_CONN_ACCEPT,
		.to = w->from,
		.from = c->id,
	};
	int rc;

	c->peer = w->peer;
	c->lane = w->lane;
	c->lane->conns++;
	c->their_id = w->from;
	c->known = true;
	c->state = MPIB_BCONN_READY;
	rc = mpib_flow_create(c->owner->attachment, c->index, false,
			      c->lane->lane, &c->flow);
	if (rc < 0) {
		c->flow = NULL;
		m.type = MPIB_PEER_CONN_REJECT;
		m.error = rc;
		snprintf(m.why, sizeof(m.why), "its proxy has no tables: %s",
			 strerror(-rc));
		mpib_peer_tell(c->peer, &m);
		mpib_bconn_fail(c, rc, "no tables for a connection: %s",
				strerror(-rc));
		return;
	}
	mpib_flow_local(c->flow, &m.flow);
	mpib_flow_start(c->flow, &w->flow);
	mpib_peer_tell(c->peer, &m);
	set_state(c, MPIB_CONN_READY);
}

static void on_accepted(struct mpib_bconn *c, const struct mpib_peer_msg *m)
{
	if (c->known)
		return;
	c->known = true;
	c->their_id = m->from;
	if (c->state != MPIB_BCONN_OPEN) {
		mpib_bconn_step(c); /* closed meanwhile: tell them */
		return;
	}
	mpib_timer_disarm(c->broker->loop, &c->timer);
	c->state = MPIB_BCONN_READY;
	mpib_flow_start(c->flow, &m->flow);
	set_state(c, MPIB_CONN_READY);
}

static void on_rejected(struct mpib_bconn *c, const struct mpib_peer_msg *m)
{
	c->quiet = true; /* it never began to write */
	if (c->state == MPIB_BCONN_OVER)
		mpib_bconn_step(c);
	else
		mpib_bconn_fail(c, m->error, "peer %s: %s", c->peer->label,
				m->why);
}

static void on_close(struct mpib_bconn *c)
{
	c->asked = true;
	if (c->state == MPIB_BCONN_OVER)
		mpib_bconn_step(c);
	else
		mpib_bconn_fail(c, -ECONNRESET, "peer %s closed it",
				c->peer->label);
}

void mpib_bconn_message(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	struct mpib_bconn *c;

	if (m->type == MPIB_PEER_CONN_OPEN) {
		mpib_accept_open(p, m);
		return;
	}
	if (m->type == MPIB_PEER_CONN_CANCEL) {
		mpib_accept_cancel(p, m->to);
		return;
	}
	HASH_FIND(hh, p->broker->conns, &m->to, sizeof(m->to), c);
	if (!c || c->peer != p) {
		/* Gone here, so this end writes nothing either; the other must
		 * not wait for us. Ids are per proxy, so this cannot hit
		 * another's connection. */
		return;
	}
	if (m->type == MPIB_PEER_CONN_ACCEPT) {
		on_accepted(c, m);
	} else if (m->type == MPIB_PEER_CONN_REJECT) {
		on_rejected(c, m);
	} else if (m->type == MPIB_PEER_CONN_CLOSE) {
		on_close(c);
	} else {
		c->quiet = true;
		mpib_timer_disarm(c->broker->loop, &c->timer);
		mpib_bconn_step(c);
	}
}

int mpib_broker_drop(struct mpib_broker *b, struct mpib_owner *owner,
		     uint32_t index)
{
	struct mpib_bconn *c =
		index < MPIB_CONNS_MAX ? owner->conn[index] : NULL;

	(void)b;
	if (!c || c->dropped)
		return -ENOENT;
	c->dropped = true;
	set_state(c, MPIB_CONN_CLOSING);
	if (c->state == MPIB_BCONN_OPEN && !c->known) {
		/* The answer tells whether the peer has begun to write. */
		tell(c, MPIB_PEER_CONN_CANCEL, c->id);
		mpib_timer_arm(c->broker->loop, &c->timer, MPIB_CLOSE_NS,
			       on_silence, c);
		c->state = MPIB_BCONN_OVER;
		mpib_bconn_step(c);
	} else if (c->state == MPIB_BCONN_OVER) {
		mpib_bconn_step(c);
	} else {
		mpib_bconn_fail(c, -ECANCELED, "closed");
	}
	return 0;
}

struct mpib_bconn *mpib_bconn_of_flow(struct mpib_broker *b,
				      const struct mpib_flow *flow)
{
	struct mpib_bconn *c, *next;

	HASH_ITER(hh, b->conns, c, next)
	{
		if (c->flow == flow)
			return c;
	}
	return NULL;
}
