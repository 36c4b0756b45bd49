/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer's messages about lanes: those that make one are lane_setup.c's. Each may
 * come twice, or about a lane that has ended here. Control thread.
 */
#include <errno.h>

#include "peer/internal.h"

void peer_lane_tell_gone(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	struct mpib_peer_msg gone = {
		.type = MPIB_PEER_LANE_CLOSE,
		.to = m->from,
		.from = m->to,
		.error = -ECANCELED,
		.why = "the other end has it no more",
	};

	mpib_peer_tell(p, &gone);
}

static bool on_kept(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	const struct peer_lane *l = peer_lane_find(p, m->to);

	if (l && l->state == PEER_LANE_ASKED)
		return l->ours; /* its LANE_OPEN is answered again */
	if (l && l->state == PEER_LANE_UP)
		return l->their_id == m->from;
	peer_lane_tell_gone(p, m);
	return true;
}

/* After a connection was refused for now the first of the others asks for a lane. So
 * many that wait make a lane each that time, and not all of them at once. */
#define OTHERS_NS (10 * MPIB_MSEC)

/* The peer refused the connection for which the lane was asked for, or its listener.
 * Others leave the lane, to ask for themselves. */
static void ask_by_others(struct peer_lane *l, const struct mpib_peer_msg *m)
{
	struct peer_conn_list others = TAILQ_HEAD_INITIALIZER(others);
	struct peer_conn *c, *next;

	l->uses++;
	for (c = TAILQ_FIRST(&l->waiting); c; c = next) {
		next = TAILQ_NEXT(c, entry);
		if (c->name.key == l->asker.key)
			continue;
		TAILQ_REMOVE(&l->waiting, c, entry);
		TAILQ_INSERT_TAIL(&others, c, entry);
		c->state = PEER_CONN_NEW;
		peer_lane_leave(c);
	}
	peer_lane_kill(l, m->error, m->why);
	peer_lane_put(l);
	while ((c = TAILQ_FIRST(&others))) {
		TAILQ_REMOVE(&others, c, entry);
		if (m->error == -EAGAIN)
			peer_conn_begin_later(c, OTHERS_NS);
		else
			peer_conn_linked(c);
	}
}

static bool on_reject(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	struct peer_lane *l = peer_lane_find(p, m->to);

	if (!l || l->state == PEER_LANE_DEAD)
		return true;
	if (!l->ours || l->state != PEER_LANE_ASKED)
		return false;
	l->muted = true; /* the peer kept nothing of the lane */
	if (m->error == -ECONNREFUSED || m->error == -EACCES ||
	    m->error == -EAGAIN)
		ask_by_others(l, m);
	else
		peer_lane_kill(l, m->error, m->why);
	return true;
}

static bool on_close(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	/* 0: the opener had not seen the LANE_ACCEPT. */
	struct peer_lane *l = m->to ? peer_lane_find(p, m->to)
				    : peer_lane_of_opener(p, m->from);

	/* A lane that is asked for has a LANE_OPEN on its way behind it. */
	if (!l || l->state != PEER_LANE_UP)
		return true;
	if (l->their_id != m->from)
		return false;
	l->muted = true;
	if (m->error == -ECANCELED)
		peer_lane_renew(l);
	if (m->error == -ECANCELED || m->error == MPIB_BROKEN_LOST)
		peer_lane_lose(l, m->why);
	else
		peer_lane_kill(l, -ECONNRESET, m->why);
	return true;
}

static bool on_rail(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	struct peer_lane *l = peer_lane_find(p, m->to);

	/* Of another state the peer is told, or tells all again with its
	 * LANE_ACCEPT. */
	return !l || l->state != PEER_LANE_UP ||
	       mpib_lane_receive(l->lane, &m->rail);
}

bool peer_lane_message(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	switch (m->type) {
	case MPIB_PEER_LANE_OPEN:
		return peer_lane_on_open(p, m);
	case MPIB_PEER_LANE_ACCEPT:
		return peer_lane_on_accept(p, m);
	case MPIB_PEER_LANE_REJECT:
		return on_reject(p, m);
	case MPIB_PEER_LANE_KEPT:
		return on_kept(p, m);
	case MPIB_PEER_LANE_RAIL:
		return on_rail(p, m);
	default:
		return on_close(p, m);
	}
}
