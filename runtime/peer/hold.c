/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects that wait while the broker is handed over. Control thread. A
 * CONN_OPEN on its way is taken back, since it names memory of this process;
 * then only the client's request is left, and the process that takes over (or
 * this one, if the hand-over fails) begins it again. A connect that is accepted
 * before the peer sees the CONN_CANCEL becomes an ordinary connection.
 */
#include <errno.h>

#include "peer/handover/handover.h"
#include "peer/internal.h"

static void hold_one(struct peer_conn *c)
{
	switch (c->state) {
	case PEER_CONN_LINK:
	case PEER_CONN_LANE:
		peer_conn_unlist(c);
		mpib_timer_disarm(c->broker->loop, &c->timer);
		c->state = PEER_CONN_HELD;
		peer_lane_leave(c);
		break;
	case PEER_CONN_OPEN:
		if (!c->recalled)
			peer_conn_tell_end(c, MPIB_PEER_CONN_CANCEL);
		c->recalled = true;
		break;
	default:
		break;
	}
}

static void hold_end_force(struct mpib_broker *b)
{
	struct mpib_peer *p;

	b->forced = false;
	mpib_broker_shut(b, false);
	TAILQ_FOREACH(p, &b->peers, entry)
	p->shut = false;
}

void mpib_broker_hold(struct mpib_broker *b, bool on)
{
	struct peer_conn *c, *next;

	b->holding = on;
	if (!on)
		hold_end_force(b);
	HASH_ITER(hh, b->conns, c, next)
	{
		if (on)
			hold_one(c);
		else if (c->state == PEER_CONN_HELD)
			peer_conn_begin(c);
	}
}

void mpib_broker_force(struct mpib_broker *b)
{
	b->forced = true;
}

void mpib_broker_shut(struct mpib_broker *b, bool on)
{
	if (b->shut != on)
		mpib_hello_pause(b, on);
	b->shut = on;
}

/* The next CONN_OPEN has another id, so that a late answer to the last one is
 * to none. */
static void hold_renumber(struct peer_conn *c)
{
	struct mpib_broker *b = c->broker;

	HASH_DELETE(hh, b->conns, c);
	c->id = mpib_broker_new_id(b);
	HASH_ADD(hh, b->conns, id, sizeof(c->id), c);
}

/* The lane is gone at the peer, and what was offered over it with it: no
 * CONN_CANCEL has to go. */
static void hold_renew(struct peer_conn *c)
{
	hold_renumber(c);
	c->offered = c->recalled = false;
	peer_conn_recall(c);
}

void peer_lane_renew(struct peer_lane *l)
{
	struct peer_conn *c, *next;

	for (c = TAILQ_FIRST(&l->conns); c; c = next) {
		next = TAILQ_NEXT(c, lane_entry);
		if (c->state == PEER_CONN_OPEN)
			hold_renew(c);
	}
}

void peer_conn_recall(struct peer_conn *c)
{
	mpib_timer_disarm(c->broker->loop, &c->timer);
	c->state = PEER_CONN_OVER;
	c->again = true;
	c->error = -ECANCELED;
	peer_conn_step(c);
}

void peer_conn_held(struct peer_conn *c)
{
	hold_renumber(c);
	c->recalled = c->again = false;
	c->stopping = c->stopped = c->quiet = c->destroying = false;
	c->error = 0;
	c->state = PEER_CONN_HELD;
	if (!c->broker->holding)
		peer_conn_begin(c);
}
