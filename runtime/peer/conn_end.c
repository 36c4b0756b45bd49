/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a connection ends. Whatever ends it, an end first stops its own flow,
 * then says CONN_CLOSE and waits for the peer's CONN_CLOSED, or for the peer's
 * own CONN_CLOSE, or for its lane to be killed; then nothing can write to its
 * memory and the flow is destroyed. That does not wait for the client, which
 * may be waiting for this very flow to let go of a region; the index stays
 * FAILED until the client closes it.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "peer/internal.h"

static void tell(struct mpib_bconn *c, enum mpib_peer_type type, uint32_t to)
{
	struct mpib_peer_msg m = {
		.type = type,
		.to = to,
		.error = c->error,
	};

	snprintf(m.why, sizeof(m.why), "%.*s", (int)sizeof(m.why) - 1, c->why);
	if (c->lane)
		mpib_blane_tell(c->lane, &m);
}

void mpib_bconn_unlist(struct mpib_bconn *c)
{
	if (c->state == MPIB_BCONN_LINK)
		TAILQ_REMOVE(&c->peer->waiting, c, entry);
	else if (c->state == MPIB_BCONN_LANE)
		TAILQ_REMOVE(&c->lane->waiting, c, entry);
	else if (c->state == MPIB_BCONN_ACCEPT)
		TAILQ_REMOVE(&c->listener->accepts, c, entry);
	c->listener = NULL;
}

static void free_conn(struct mpib_bconn *c)
{
	struct mpib_owner *o = c->owner;

	HASH_DELETE(hh, c->broker->conns, c);
	mpib_bconn_set_peer(c, NULL);
	o->conn[c->index] = NULL;
	o->conns--;
	mpib_bconn_set_state(c, MPIB_CONN_FREE);
	free(c);
	if (o->leaving && o->conns == 0 && o->done) {
		mpib_done_fn *done = o->done;

		o->done = NULL;
		done(o->arg, 0);
	}
}

static void on_destroyed(void *arg, int status)
{
	struct mpib_bconn *c = arg;

	(void)status;
	HASH_DELETE(hh_flow, c->broker->by_flow, c);
	c->flow = NULL;
	mpib_bconn_step(c);
}

static void on_stopped(void *arg, int status)
{
	struct mpib_bconn *c = arg;

	(void)status;
	c->stopped = true;
	mpib_bconn_step(c);
}

/* Writes that nobody stops can only be stopped with the lane. */
static void on_silence(void *arg)
{
	struct mpib_bconn *c = arg;

	mpib_warn("peer %s: connection %u does not come to its end, its lane "
		  "is cut",
		  c->peer->label, c->index);
	mpib_blane_kill(c->lane, -ECONNRESET,
			"a connection of this lane could not be closed");
}

static void stop(struct mpib_bconn *c)
{
	uint64_t ns = c->lane->key.serial ? MPIB_CLOSE_PRIVATE_NS
					  : MPIB_CLOSE_SHARED_NS;

	c->stopping = true;
	mpib_agent_del(c->hint);
	c->hint = NULL;
	mpib_timer_arm(c->broker->loop, &c->timer, ns, on_silence, c);
	/* They answer whether they had begun to write. */
	if (c->offered && !c->recalled)
		tell(c, MPIB_PEER_CONN_CANCEL, c->id);
	mpib_flow_stop(c->flow, c->error, on_stopped, c);
}

static void part(struct mpib_bconn *c)
{
	if (c->asked && !c->quiet) {
		/* It stopped before it asked, and learns that we have too. */
		c->quiet = true;
		tell(c, MPIB_PEER_CONN_CLOSED, c->their_id);
	}
	if (c->known && !c->quiet && !c->close_sent) {
		c->close_sent = true;
		tell(c, MPIB_PEER_CONN_CLOSE, c->their_id);
	}
	if (c->quiet && !c->destroying) {
		c->destroying = true;
		mpib_timer_disarm(c->broker->loop, &c->timer);
		mpib_flow_destroy(c->flow, on_destroyed, c);
	}
}

void mpib_bconn_step(struct mpib_bconn *c)
{
	if (c->state != MPIB_BCONN_OVER)
		return;
	if (c->flow && !c->stopping) {
		stop(c);
		return;
	}
	if (c->flow && c->stopped)
		part(c);
	if (c->flow)
		return;
	mpib_blane_leave(c);
	if (c->dropped)
		free_conn(c);
	else if (c->again)
		mpib_bconn_held(c);
}

void mpib_bconn_fail(struct mpib_bconn *c, int error, const char *fmt, ...)
{
	va_list ap;

	if (c->state == MPIB_BCONN_OVER)
		return;
	va_start(ap, fmt);
	vsnprintf(c->why, sizeof(c->why), fmt, ap);
	va_end(ap);
	mpib_bconn_unlist(c);
	mpib_timer_disarm(c->broker->loop, &c->timer);
	c->state = MPIB_BCONN_OVER;
	c->error = error;
	c->owner->reply->conn[c->index].error = error;
	if (!c->dropped)
		mpib_bconn_set_state(c, MPIB_CONN_FAILED);
	mpib_bconn_step(c);
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
	mpib_bconn_set_state(c, MPIB_CONN_CLOSING);
	if (c->state == MPIB_BCONN_OVER)
		mpib_bconn_step(c);
	else
		mpib_bconn_fail(c, -ECANCELED, "it closed the connection");
	return 0;
}

struct mpib_bconn *mpib_bconn_of_flow(struct mpib_broker *b,
				      struct mpib_flow *flow)
{
	struct mpib_bconn *c;

	HASH_FIND(hh_flow, b->by_flow, &flow, sizeof(flow), c);
	return c;
}
