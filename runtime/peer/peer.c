/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers, and the calling side of their links; hello.c is the called side.
 *
 * There is one link a peer. It is up for the caller with the WELCOME, for the
 * called with the READY that follows; only then does it replace another, so a
 * greeting that was given up meanwhile, and is read late, replaces nothing.
 * When two nodes greet each other at once, the caller with the lower node id
 * stays: it refuses the other, which drops its own call for the lower's.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/event.h"
#include "peer/internal.h"

#define RETRY_NS (100 * MPIB_MSEC)
/* So that nobody fills our memory by greeting from every port. */
#define PEERS_MAX 8192

static const struct mpib_link_events link_events;

bool mpib_peer_we_are_lower(const struct mpib_peer *p)
{
	const struct mpib_node_id *a = &p->broker->self, *b = &p->node;

	if (a->addr != b->addr)
		return ntohl(a->addr) < ntohl(b->addr);
	return a->port < b->port;
}

static struct mpib_peer *new_peer(struct mpib_broker *b, uint32_t addr,
				  uint16_t port, bool called)
{
	struct mpib_peer *p = calloc(1, sizeof(*p));
	char ip[INET_ADDRSTRLEN];

	if (!p)
		return NULL;
	p->broker = b;
	p->node.addr = addr;
	p->node.port = port;
	p->called = called;
	TAILQ_INIT(&p->lanes);
	TAILQ_INIT(&p->waiting);
	inet_ntop(AF_INET, &addr, ip, sizeof(ip));
	snprintf(p->label, sizeof(p->label), "%s:%u", ip, port);
	TAILQ_INSERT_TAIL(&b->peers, p, entry);
	b->peer_count++;
	return p;
}

struct mpib_peer *mpib_peer_find(struct mpib_broker *b, uint32_t addr,
				 uint16_t port, bool called)
{
	struct mpib_peer *p;

	TAILQ_FOREACH(p, &b->peers, entry)
	{
		if (p->node.addr == addr && p->node.port == port &&
		    p->called == called)
			return p;
	}
	return b->peer_count < PEERS_MAX ? new_peer(b, addr, port, called)
					 : NULL;
}

static void call(struct mpib_peer *p);

static void on_retry(void *arg)
{
	mpib_peer_want(arg);
}

/* Calls wait a little after a failure, so as not to knock without end. */
static void retry(struct mpib_peer *p)
{
	if (!TAILQ_EMPTY(&p->waiting))
		mpib_timer_arm(p->broker->loop, &p->retry, RETRY_NS, on_retry,
			       p);
}

static void call(struct mpib_peer *p)
{
	struct mpib_broker *b = p->broker;
	int rc = mpib_link_connect(b->loop, b->self.addr, p->node.addr,
				   p->node.port, &link_events, p, &p->link);

	if (rc < 0) {
		p->link = NULL;
		snprintf(p->trouble, sizeof(p->trouble), "%s", strerror(-rc));
		retry(p);
		return;
	}
	mpib_link_set_patience(p->link, b->silence_s);
	p->state = MPIB_PEER_CALLING;
}

void mpib_peer_want(struct mpib_peer *p)
{
	if (p->state == MPIB_PEER_IDLE && !p->retry.armed && !p->candidate &&
	    !p->called && !TAILQ_EMPTY(&p->waiting))
		call(p);
}

void mpib_peer_lost(struct mpib_peer *p, const char *why)
{
	bool was_up = p->state == MPIB_PEER_UP;

	p->link = NULL;
	p->state = MPIB_PEER_IDLE;
	snprintf(p->trouble, sizeof(p->trouble), "%s", why);
	if (was_up) {
		mpib_event(MPIB_LOG_WARN, "peer_down",
			   &(struct mpib_event_about){ .peer = p->label },
			   "peer %s: link is down: %s", p->label, why);
		mpib_blanes_lost(p, why);
	}
	retry(p);
}

void mpib_peer_cut(struct mpib_peer *p, const char *why)
{
	if (!p->link)
		return;
	mpib_link_close(p->link);
	mpib_peer_lost(p, why);
}

static void on_down(void *ctx, struct mpib_link *link, const char *why)
{
	(void)link;
	mpib_peer_lost(ctx, why);
}

static void on_message(void *ctx, struct mpib_link *link,
		       const struct mpib_peer_msg *m)
{
	struct mpib_peer *p = ctx;
	bool sound = false;

	(void)link;
	switch (m->type) {
	case MPIB_PEER_LANE_OPEN:
	case MPIB_PEER_LANE_ACCEPT:
	case MPIB_PEER_LANE_REJECT:
	case MPIB_PEER_LANE_CLOSE:
	case MPIB_PEER_LANE_RAIL:
		sound = mpib_blane_message(p, m);
		break;
	case MPIB_PEER_CONN_OPEN:
	case MPIB_PEER_CONN_ACCEPT:
	case MPIB_PEER_CONN_REJECT:
	case MPIB_PEER_CONN_CANCEL:
	case MPIB_PEER_CONN_CLOSE:
	case MPIB_PEER_CONN_CLOSED:
		sound = mpib_bconn_message(p, m);
		break;
	case MPIB_PEER_HELLO:
	case MPIB_PEER_WELCOME:
	case MPIB_PEER_REFUSED:
	case MPIB_PEER_READY:
	case MPIB_PEER_PING:
	case MPIB_PEER_PONG:
		break;
	}
	if (sound)
		return;
	mpib_warn("peer %s: %s out of turn, its link is cut", p->label,
		  mpib_peer_type_name(m->type));
	mpib_peer_cut(p, "it broke the protocol");
}

static const struct mpib_link_events up_events = {
	.message = on_message,
	.down = on_down,
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
	struct mpib_bconn *c;

	link->events = &up_events;
	link->ctx = p;
	p->link = link;
	p->state = MPIB_PEER_UP;
	p->node.boot = node->boot;
	p->node.sout = node->sout;
	p->trouble[0] = 0;
	mpib_timer_disarm(p->broker->loop, &p->retry);
	mpib_event(MPIB_LOG_INFO, "peer_up",
		   &(struct mpib_event_about){ .peer = p->label },
		   "peer %s: link is up", p->label);
	while ((c = TAILQ_FIRST(&p->waiting))) {
		TAILQ_REMOVE(&p->waiting, c, entry);
		mpib_bconn_linked(c);
	}
}

static void on_called(void *ctx, struct mpib_link *link)
{
	struct mpib_peer *p = ctx;
	struct mpib_peer_msg hello = {
		.type = MPIB_PEER_HELLO,
		.magic = MPIB_PEER_MAGIC,
		.version_min = MPIB_PEER_VERSION_MIN,
		.version = MPIB_PEER_VERSION,
		.node = p->broker->self,
	};

	mpib_auth_challenge(&p->broker->key, p->auth.caller);
	memcpy(hello.challenge, p->auth.caller, sizeof(hello.challenge));
	mpib_link_send(link, &hello);
}

static void no_use(struct mpib_peer *p, const char *why)
{
	mpib_warn("peer %s: %s", p->label, why);
	mpib_peer_cut(p, why);
}

static void send_ready(struct mpib_peer *p, struct mpib_link *link)
{
	const struct mpib_cluster_key *key = &p->broker->key;
	struct mpib_peer_msg ready = { .type = MPIB_PEER_READY };

	mpib_auth_prove(key, &p->auth, false, ready.proof);
	mpib_link_send(link, &ready);
	mpib_seal_init(&link->tx_seal, key, &p->auth, false);
	mpib_seal_init(&link->rx_seal, key, &p->auth, true);
}

static void on_answer(void *ctx, struct mpib_link *link,
		      const struct mpib_peer_msg *m)
{
	struct mpib_peer *p = ctx;

	if (m->type == MPIB_PEER_REFUSED) {
		if (m->error == -EALREADY)
			mpib_peer_cut(p, m->why); /* its own call comes */
		else
			no_use(p, m->why);
		return;
	}
	if (m->type != MPIB_PEER_WELCOME) {
		no_use(p, "it answered the greeting with something else");
		return;
	}
	if (m->version < MPIB_PEER_VERSION_MIN ||
	    m->version > MPIB_PEER_VERSION) {
		no_use(p, "it chose a protocol that was not offered");
		return;
	}
	if (m->node.addr != p->node.addr || m->node.port != p->node.port) {
		no_use(p, "it says that it is another node (is its peer "
			  "address right?)");
		return;
	}
	memcpy(p->auth.called, m->challenge, sizeof(p->auth.called));
	if (!mpib_auth_check(&p->broker->key, &p->auth, true, m->proof)) {
		no_use(p, "it does not know the cluster's key (give both the "
			  "same peer.key_file)");
		return;
	}
	send_ready(p, link);
	mpib_peer_is_up(p, link, &m->node);
}

static const struct mpib_link_events link_events = {
	.up = on_called,
	.message = on_answer,
	.down = on_down,
};

void mpib_peers_free(struct mpib_broker *b)
{
	struct mpib_peer *p;

	while ((p = TAILQ_FIRST(&b->peers))) {
		TAILQ_REMOVE(&b->peers, p, entry);
		mpib_timer_disarm(b->loop, &p->retry);
		if (p->link)
			mpib_link_close(p->link);
		free(p);
	}
}
