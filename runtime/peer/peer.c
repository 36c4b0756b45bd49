/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers, and the messages on their links. call.c and hello.c set up the links.
 * Control thread.
 *
 * Each peer has one link. If the link breaks, either end can make a new one.
 * Then each end lists its lanes and connections on the new link. The lanes are
 * lost if the peer is silent for too long, refuses the call, or was restarted.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/event.h"
#include "base/users.h"
#include "peer/internal.h"

static const struct mpib_link_events up_events;

bool mpib_peer_we_are_lower(const struct mpib_peer *p)
{
	const struct mpib_node_id *a = &p->broker->self, *b = &p->node;

	/* The addresses are in network byte order, so memcmp() compares them
	 * like numbers. All IPv4 addresses have the same prefix. */
	int order = memcmp(&a->addr, &b->addr, sizeof(a->addr));

	return order ? order < 0 : a->port < b->port;
}

/*
 * List this end's lanes and connections on a new link to a peer. This is
 * necessary because messages on the broken link may be lost. To list a lane or
 * a connection, this end sends its state to the peer. protocol.h says which
 * messages carry this state. A lane and its connections are listed in the same
 * turn of the loop. Before a lane is listed, this end sends only answers about
 * the lane, because other messages could depend on messages that were lost.
 */

/* Maximum number of lanes that are listed in one turn of the loop. */
#define SLICE 64u
/* If more than WAITS_MOST bytes wait for the peer, list the next lanes WAITS_NS
 * later. */
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

/* List the next lanes. In p->lanes, lanes with `listed` unset come first. */
static void relink_on_turn(void *arg)
{
	struct mpib_peer *p = arg;
	struct peer_lane *l = TAILQ_FIRST(&p->lanes);
	const struct mpib_fifo *out = &p->link->out;

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

/* Mark all lanes as not listed, because the link is lost. */
static void relink_end(struct mpib_peer *p)
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

static void peer_forget(struct mpib_peer *p, int error, const char *why)
{
	mpib_timer_disarm(p->broker->loop, &p->away);
	peer_ask_forget(p);
	if (TAILQ_EMPTY(&p->lanes))
		return;
	mpib_event(MPIB_LOG_WARN, "peer_down",
		   &(struct mpib_event_about){ .peer = p->label },
		   "peer %s: its lanes are lost: %s", p->label, why);
	peer_lanes_end(p, error, why);
}

void mpib_peer_forget(struct mpib_peer *p, const char *why)
{
	peer_forget(p, peer_lost_error(p->broker), why);
}

static void on_away_end(void *arg)
{
	struct mpib_peer *p = arg;
	char why[200];

	snprintf(why, sizeof(why),
		 "its link broke (%s) and could not be re-established",
		 p->last_error);
	mpib_peer_forget(p, why);
}

/* Kill the peer's lanes after `seconds` seconds, unless a new link to the peer
 * comes up earlier. */
static void await_link(struct mpib_peer *p, unsigned seconds)
{
	mpib_timer_arm(p->broker->loop, &p->away, seconds * MPIB_SEC,
		       on_away_end, p);
}

/* Let the lanes wait for a new link. The silence on the broken link and this
 * wait together last at most `silence_s` seconds. */
static void go_away(struct mpib_peer *p, const struct mpib_link *link,
		    const char *why)
{
	unsigned all = p->broker->silence_s;
	unsigned left = link->silent < all ? all - link->silent : 0;

	if (link->error == -EPROTO) {
		peer_forget(p, -ECONNRESET, why);
		return;
	}
	if (TAILQ_EMPTY(&p->lanes) || left == 0 || link->overflow) {
		mpib_peer_forget(p, why);
		return;
	}
	mpib_event(MPIB_LOG_WARN, "peer_away",
		   &(struct mpib_event_about){ .peer = p->label },
		   "peer %s: link broke: %s; its lanes wait %u s for a new "
		   "link",
		   p->label, why, left);
	await_link(p, left);
}

void mpib_peer_lost(void *peer, struct mpib_link *link, const char *why)
{
	struct mpib_peer *p = peer;
	bool was_up = p->state == MPIB_PEER_UP;

	mpib_timer_disarm(p->broker->loop, &p->retry);
	p->held = false;
	p->link = NULL;
	p->state = MPIB_PEER_IDLE;
	if (why != p->last_error)
		snprintf(p->last_error, sizeof(p->last_error), "%s", why);
	if (!was_up) {
		mpib_call_failed(p, link->error);
		return;
	}
	relink_end(p);
	mpib_second_turn(p, mpib_address_same(&link->addr, &p->node.second));
	go_away(p, link, why);
	mpib_call_again(p, 0);
}

void mpib_peer_cut(struct mpib_peer *p, const char *why)
{
	struct mpib_link *link = p->link;

	if (!link)
		return;
	mpib_peer_lost(p, link, why);
	mpib_link_close(link);
}

void mpib_peer_tell(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	if (p->state == MPIB_PEER_UP)
		mpib_link_send(p->link, m);
}

void mpib_peer_refuse(struct mpib_peer *p, enum mpib_peer_type type,
		      uint32_t to, int error, const char *why)
{
	struct mpib_peer_msg m = { .type = type, .to = to, .error = error };

	mpib_peer_text(m.why, sizeof(m.why), why);
	mpib_peer_tell(p, &m);
}

/* Kill the lanes and close the link of a peer that broke the protocol. */
static void peer_broke(struct mpib_peer *p, const char *what)
{
	mpib_warn("peer %s: %s, its link is cut", p->label, what);
	peer_forget(p, -ECONNRESET, "it broke the protocol");
	p->link->error = -EPROTO;
	mpib_peer_cut(p, "it broke the protocol");
}

/* By message type. NULL: on a link that is up, a correct peer never sends this
 * type, or link.c handles it. */
static peer_message_fn *const handlers[] = {
	[MPIB_PEER_LANE_OPEN] = peer_lane_on_open,
	[MPIB_PEER_LANE_ACCEPT] = peer_lane_on_accept,
	[MPIB_PEER_LANE_REJECT] = peer_lane_on_reject,
	[MPIB_PEER_LANE_CLOSE] = peer_lane_on_close,
	[MPIB_PEER_LANE_KEPT] = peer_lane_on_kept,
	[MPIB_PEER_LANE_RAIL] = peer_lane_on_rail,
	[MPIB_PEER_CONN_OPEN] = peer_conn_on_open,
	[MPIB_PEER_CONN_ACCEPT] = peer_conn_on_accept,
	[MPIB_PEER_CONN_REJECT] = peer_conn_on_reject,
	[MPIB_PEER_CONN_CANCEL] = peer_conn_on_cancel,
	[MPIB_PEER_CONN_CLOSE] = peer_conn_on_close,
	[MPIB_PEER_CONN_CLOSED] = peer_conn_on_closed,
	[MPIB_PEER_CONN_WAIT] = peer_conn_on_wait,
	[MPIB_PEER_ASK] = peer_ask_on_ask,
	[MPIB_PEER_REPORT] = peer_ask_on_report,
};

static void peer_on_message(void *ctx, struct mpib_link *link,
			    const struct mpib_peer_msg *m)
{
	struct mpib_peer *p = ctx;
	peer_message_fn *handle = handlers[m->type];
	char what[64];

	(void)link;
	if (!handle || !handle(p, m)) {
		snprintf(what, sizeof(what), "%s out of turn",
			 mpib_peer_type_name(m->type));
		peer_broke(p, what);
	}
}

static const struct mpib_link_events up_events = {
	.message = peer_on_message,
	.down = mpib_peer_lost,
};

enum mpib_path mpib_peer_path(const struct mpib_peer *p)
{
	const struct mpib_broker *b = p->broker;

	return b->islands ? mpib_islands_path(b->islands, b->self.sout,
					      p->node.sout)
			  : MPIB_PATH_UNKNOWN;
}

void mpib_peer_is_up(struct mpib_peer *p, struct mpib_link *link,
		     const struct mpib_node_id *node)
{
	const char *by = mpib_address_same(&link->addr, &p->node.second)
				 ? " by its second address"
				 : "";
	struct peer_conn *c;

	link->events = &up_events;
	link->ctx = p;
	link->up = true;
	mpib_fifo_count(&link->out, &p->broker->waits);
	p->link = link;
	p->state = MPIB_PEER_UP;
	p->node.boot = node->boot;
	p->node.sout = node->sout;
	p->last_error[0] = 0;
	mpib_refusal_forget(p->broker, &node->addr);
	mpib_refusal_forget(p->broker, &link->addr);
	mpib_timer_disarm(p->broker->loop, &p->retry);
	mpib_event(MPIB_LOG_INFO, "peer_up",
		   &(struct mpib_event_about){ .peer = p->label },
		   p->away.armed
			   ? "peer %s: link is up again%s, its lanes continue"
			   : "peer %s: link is up%s",
		   p->label, by);
	mpib_timer_disarm(p->broker->loop, &p->away);
	mpib_second_take(p, &node->second);
	peer_ask_relink(p);
	relink_on_turn(p);
	while ((c = TAILQ_FIRST(&p->waiting))) {
		TAILQ_REMOVE(&p->waiting, c, entry);
		peer_conn_linked(c);
	}
}

/* The table of peers: finding, creating and evicting entries. Two kinds of
 * peers get an entry: peers that have proved their identity, and peers that a
 * client of this node needs to reach. A caller that has not proved its identity
 * gets no entry. */

/* These limits bound this proxy's memory. PEERS_MAX: maximum number of peers.
 * PEERS_OF_ONE_MAX: maximum number of peers for which one user waits. */
#define PEERS_MAX 8192u
#define PEERS_OF_ONE_MAX (PEERS_MAX / 4)

static struct mpib_peer_key key_of(const struct in6_addr *addr, uint16_t port,
				   bool called)
{
	return (struct mpib_peer_key){ *addr, port, called };
}

static struct mpib_peer *new_peer(struct mpib_broker *b,
				  const struct in6_addr *addr, uint16_t port,
				  bool called)
{
	struct mpib_peer *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->broker = b;
	p->node.addr = *addr;
	p->node.port = port;
	p->called = called;
	p->maker = MPIB_NOBODY;
	TAILQ_INIT(&p->lanes);
	TAILQ_INIT(&p->waiting);
	mpib_address_text(addr, port, p->label, sizeof(p->label));
	TAILQ_INSERT_TAIL(&b->peers, p, entry);
	p->key = key_of(addr, port, called);
	HASH_ADD(hh, b->by_key, key, sizeof(p->key), p);
	return p;
}

/* Return whether the entry is unused, except by a link. Such an entry can be
 * freed. If a connection needs the peer later, the entry is created again. */
static bool peer_idle(const struct mpib_peer *p)
{
	return p->state != MPIB_PEER_CALLING && !p->conns && !p->away.armed &&
	       TAILQ_EMPTY(&p->lanes);
}

static void free_peer(struct mpib_peer *p)
{
	struct mpib_broker *b = p->broker;

	TAILQ_REMOVE(&b->peers, p, entry);
	HASH_DELETE(hh, b->by_key, p);
	mpib_timer_disarm(b->loop, &p->retry);
	mpib_timer_disarm(b->loop, &p->away);
	mpib_timer_disarm(b->loop, &p->relink);
	free(p->asking.report);
	if (p->link)
		mpib_link_close(p->link);
	free(p);
}

/* Return the oldest unneeded entry, preferably one without a link. */
static struct mpib_peer *idlest(const struct mpib_broker *b)
{
	struct mpib_peer *p, *linked = NULL;

	TAILQ_FOREACH(p, &b->peers, entry)
	{
		if (!peer_idle(p))
			continue;
		if (p->state == MPIB_PEER_IDLE)
			return p;
		if (!linked)
			linked = p;
	}
	return linked;
}

bool mpib_peer_room(const struct mpib_broker *b, uid_t uid)
{
	return HASH_COUNT(b->by_key) < mpib_places_for(PEERS_MAX, uid) ||
	       idlest(b);
}

struct mpib_peer *mpib_peer_lookup(const struct mpib_broker *b,
				   const struct in6_addr *addr, uint16_t port,
				   bool called)
{
	struct mpib_peer_key key = key_of(addr, port, called);
	struct mpib_peer *p;

	HASH_FIND(hh, b->by_key, &key, sizeof(key), p);
	return p;
}

struct mpib_peer *mpib_peer_find(struct mpib_broker *b, uid_t uid,
				 const struct in6_addr *addr, uint16_t port,
				 bool called)
{
	struct mpib_peer *p = mpib_peer_lookup(b, addr, port, called);

	if (p)
		return p;
	if (HASH_COUNT(b->by_key) >= mpib_places_for(PEERS_MAX, uid)) {
		p = idlest(b);
		if (!p)
			return NULL;
		free_peer(p);
	}
	return new_peer(b, addr, port, called);
}

bool mpib_peer_at(const struct mpib_broker *b, const struct in6_addr *addr)
{
	return !b->networks || mpib_address_same(addr, &b->self.addr) ||
	       mpib_networks_have(b->networks, addr);
}

static struct in6_addr address_of_handle(const struct mpib_handle *handle)
{
	struct in6_addr addr = mpib_address_of_ip(handle->addr);

	if (handle->addr == 0)
		memcpy(&addr, handle->addr6, sizeof(addr));
	return addr;
}

/* Count the peers that have no link yet and that the user waits for. */
static unsigned peers_wanted_by(const struct mpib_broker *b, uid_t uid)
{
	const struct mpib_peer *p;
	unsigned n = 0;

	TAILQ_FOREACH(p, &b->peers, entry)
	n += p->maker == uid && p->state != MPIB_PEER_UP && !peer_idle(p);
	return n;
}

int mpib_peer_for(struct mpib_broker *b, uid_t uid,
		  const struct mpib_handle *handle, struct mpib_peer **peer)
{
	struct in6_addr addr = address_of_handle(handle);
	struct mpib_peer *p = mpib_peer_lookup(b, &addr, handle->port, false);

	*peer = p;
	if (p) {
		mpib_second_hear(p, handle);
		return 0;
	}
	if (!mpib_peer_at(b, &addr))
		return -EACCES;
	if (peers_wanted_by(b, uid) >= PEERS_OF_ONE_MAX)
		return -EDQUOT;
	if (!mpib_peer_room(b, uid))
		return -ENOSPC;
	p = mpib_peer_find(b, uid, &addr, handle->port, false);
	if (!p)
		return -ENOMEM;
	mpib_second_hear(p, handle);
	p->maker = uid;
	*peer = p;
	return 0;
}

void mpib_peers_free(struct mpib_broker *b)
{
	struct mpib_peer *p;

	while ((p = TAILQ_FIRST(&b->peers)))
		free_peer(p);
}
