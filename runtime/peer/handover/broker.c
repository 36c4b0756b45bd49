/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "engine/handover/handover.h"
#include "peer/handover/parcel.h"

static bool conn_settled(const struct mpib_bconn *c)
{
	if (c->state == MPIB_BCONN_OVER)
		return !c->flow && !c->lane && !c->dropped;
	return c->state == MPIB_BCONN_READY || c->state == MPIB_BCONN_ACCEPT ||
	       c->state == MPIB_BCONN_HELD;
}

static int lane_settled(struct mpib_blane *l, char *why, size_t why_len)
{
	bool can = l->state == MPIB_BLANE_UP && mpib_lane_can_move(l->lane) &&
		   l->peer->version >= MPIB_PEER_VERSION_MOVE;

	if (!mpib_peer_settled(l->peer)) {
		snprintf(why, why_len, "the link to %s is being made again",
			 l->peer->label);
		return -EAGAIN;
	}
	if (can)
		return 0;
	if (l->state == MPIB_BLANE_UP && l->uses > 0) {
		snprintf(why, why_len,
			 "connections to %s cannot be moved: %s (close them "
			 "first)",
			 l->peer->label,
			 l->peer->version < MPIB_PEER_VERSION_MOVE
				 ? "its mpib-proxy is older"
				 : "they have no fail-over between two rails");
		return -EBUSY;
	}
	if (l->state == MPIB_BLANE_UP)
		mpib_blane_kill(l, -ECANCELED, "its proxy is upgraded");
	snprintf(why, why_len, "a lane to %s is on its way", l->peer->label);
	return -EAGAIN;
}

int mpib_broker_settled(struct mpib_broker *b, char *why, size_t why_len)
{
	struct mpib_blane *l, *next;
	int again = 0, rc;

	for (const struct mpib_bconn *c = b->conns; c; c = c->hh.next) {
		if (conn_settled(c))
			continue;
		snprintf(why, why_len,
			 "connection %u of client %u is being opened or closed",
			 c->index, mpib_attachment_id(c->owner->attachment));
		again = -EAGAIN;
	}
	HASH_ITER(hh, b->lanes, l, next)
	{
		rc = lane_settled(l, why, why_len);
		if (rc == -EBUSY)
			return rc;
		again = rc < 0 ? rc : again;
	}
	return again;
}

void mpib_broker_parcel(struct mpib_parcel *p, struct mpib_broker *b,
			mpib_owner_fn *by_id, void *arg)
{
	struct mpib_broker_parcel x = {
		.p = p, .b = b, .owner = by_id, .arg = arg
	};
	uint32_t sout = b->self.sout;

	mpib_parcel_mark(p, "broker");
	mpib_parcel_node(p, &b->self);
	b->self.sout = sout;
	mpib_parcel_u32(p, &b->next_id);
	mpib_parcel_u64(p, &b->serial);
	mpib_parcel_u64(p, &b->sessions);
	mpib_parcel_fd(p, &b->fd);
	mpib_parcel_peers(&x);
	mpib_parcel_listeners(&x);
	mpib_parcel_conns(&x);
	mpib_parcel_mark(p, "end");
}

int mpib_broker_go_on(struct mpib_broker *b)
{
	int rc = mpib_hello_accept(b);
	struct mpib_bconn *c;
	struct mpib_peer *p;

	for (c = b->conns; c; c = c->hh.next) {
		struct mpib_peer_msg m = {
			.type = MPIB_PEER_CONN_MOVED,
			.to = c->their_id,
		};

		if (c->state != MPIB_BCONN_READY)
			continue;
		mpib_flow_local(c->flow, &m.flow);
		mpib_blane_tell(c->lane, &m);
		mpib_bconn_want_hint(c);
	}
	TAILQ_FOREACH(p, &b->peers, entry)
	{
		if (p->state == MPIB_PEER_UP && rc == 0)
			rc = mpib_link_listen(p->link, true);
	}
	mpib_broker_hold(b, false);
	return rc;
}
