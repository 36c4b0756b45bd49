/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects that wait while the broker is handed over. What one has on its way is
 * taken back, for it names memory of this process; then it is no more than what
 * the client asked for, and is begun again by whoever goes on. One that is
 * accepted before the peer hears of it is a connection like any.
 */
#include <errno.h>

#include "peer/handover/handover.h"
#include "peer/internal.h"

static void hold(struct mpib_bconn *c)
{
	struct mpib_peer_msg m = {
		.type = MPIB_PEER_CONN_CANCEL,
		.to = c->id,
		.error = -ECANCELED,
		.why = "its proxy is upgraded",
	};

	switch (c->state) {
	case MPIB_BCONN_LINK:
	case MPIB_BCONN_LANE:
		mpib_bconn_unlist(c);
		mpib_timer_disarm(c->broker->loop, &c->timer);
		c->state = MPIB_BCONN_HELD;
		mpib_blane_leave(c);
		break;
	case MPIB_BCONN_OPEN:
		if (!c->recalled)
			mpib_blane_tell(c->lane, &m);
		c->recalled = true;
		break;
	default:
		break;
	}
}

void mpib_broker_hold(struct mpib_broker *b, bool on)
{
	struct mpib_bconn *c, *next;

	b->holding = on;
	HASH_ITER(hh, b->conns, c, next)
	{
		if (on)
			hold(c);
		else if (c->state == MPIB_BCONN_HELD)
			mpib_bconn_begin(c);
	}
}

void mpib_bconn_recall(struct mpib_bconn *c)
{
	mpib_timer_disarm(c->broker->loop, &c->timer);
	c->state = MPIB_BCONN_OVER;
	c->again = true;
	c->error = -ECANCELED;
	mpib_bconn_step(c);
}

void mpib_bconn_held(struct mpib_bconn *c)
{
	c->recalled = c->again = false;
	c->stopping = c->stopped = c->quiet = c->destroying = false;
	c->error = 0;
	c->state = MPIB_BCONN_HELD;
	if (!c->broker->holding)
		mpib_bconn_begin(c);
}
