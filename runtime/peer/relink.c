/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a link to a peer was made: list this end's lanes and connections there.
 * Messages on a link that broke may be lost, so nothing is known of what the
 * peer has; protocol.h says which messages list what. A lane is listed as a
 * whole, and until then nothing else is said about it but answers: so the
 * messages that follow fit what the peer was told. Control thread.
 */
#include "peer/internal.h"

/* Lanes listed in one turn of the loop. */
#define SLICE 64u
/* While more bytes wait for the peer, the next lanes wait so long. */
#define WAITS_MOST MPIB_FIFO_SMALL
#define WAITS_NS (10 * MPIB_MSEC)

static void relink_conn(struct peer_conn *c)
{
	if (c->offered && c->state == PEER_CONN_OPEN)
		peer_conn_tell_tables(c, MPIB_PEER_CONN_OPEN);
	else if (c->offered)
		peer_conn_tell_end(c, MPIB_PEER_CONN_CANCEL);
	else if (c->close_sent && !c->quiet)
		peer_conn_tell_end(c, MPIB_PEER_CONN_CLOSE);
}

void mpib_relink_lane(struct peer_lane *l)
{
	const struct mpib_peer_msg kept = {
		.type = MPIB_PEER_LANE_KEPT,
		.to = l->their_id,
		.from = l->id,
	};
	struct peer_conn *c;

	l->listed = true;
	if (l->state == PEER_LANE_ASKED)
		peer_lane_ask(l);
	if (l->state != PEER_LANE_UP)
		return;
	peer_lane_tell(l, &kept);
	TAILQ_FOREACH(c, &l->conns, lane_entry)
	relink_conn(c);
	mpib_lane_retell(l->lane);
}

/* Lanes that are not listed come before those that are. */
static void relink_on_turn(void *arg)
{
	struct mpib_peer *p = arg;
	struct peer_lane *l = TAILQ_FIRST(&p->lanes);
	const struct mpib_fifo *out = &p->link->out.bytes;

	for (unsigned n = 0; l && !l->listed; n++) {
		bool full = mpib_fifo_waits(out) > WAITS_MOST;

		if (full || n == SLICE) {
			mpib_timer_arm(p->broker->loop, &p->relink,
				       full ? WAITS_NS : 0, relink_on_turn, p);
			return;
		}
		TAILQ_REMOVE(&p->lanes, l, entry);
		TAILQ_INSERT_TAIL(&p->lanes, l, entry);
		mpib_relink_lane(l);
		l = TAILQ_FIRST(&p->lanes);
	}
}

void mpib_relink(struct mpib_peer *p)
{
	peer_ask_relink(p);
	relink_on_turn(p);
}

void mpib_relink_end(struct mpib_peer *p)
{
	struct peer_lane *l;

	mpib_timer_disarm(p->broker->loop, &p->relink);
	TAILQ_FOREACH(l, &p->lanes, entry)
	{
		l->listed = l->accept_sent = false;
		if (l->state == PEER_LANE_UP)
			mpib_lane_unlinked(l->lane);
	}
}
