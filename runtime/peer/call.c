/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calling side of a peer link; hello.c is the called side. Control thread.
 *
 * For the calling end, a link is up after the WELCOME has arrived; for the
 * called end, after the READY has arrived. At each end, a new link replaces an
 * older one only when the new link is up. If the caller gives up a handshake,
 * both ends keep the older link.
 *
 * When two nodes call each other at the same time, the call of the node with
 * the lower node id wins: that node refuses the other's call.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "peer/internal.h"

/*
 * The first address of a proxy identifies the proxy. A proxy can accept calls
 * at a second address, of another interface. Each end sends its second address
 * in the handshake. Before the first link to a peer, this node can learn the
 * peer's second address from a handle. This node uses an address from a handle
 * only if the cluster has a key, because then both ends prove their identity.
 * Two proxies have one link. If the link breaks, or is silent for too long
 * (LINK_PART), the caller calls the peer's two addresses in turn. If no new
 * link is up when the peer has been silent for `silence_s` seconds, the lanes
 * are lost. The caller uses its own first address to call the peer's first
 * address, and its own second address to call the peer's second address.
 */

/* Time limits, as fractions of `silence_s`, the maximum silence of a peer.
 * After a link has been silent for 1/LINK_PART of that time, the caller tries
 * the other address. Time limit of a call: 1/QUICK_PART of that time. The
 * peer's kernel must acknowledge sent bytes within 1/QUICK_PART of that time.
 * The kernel does so even if the peer's process is stopped. */
#define LINK_PART 3
#define QUICK_PART 20
/* Minimum of the limits on a link's silence and on a call's duration, in
 * seconds. A shorter limit would leave too little time for an answer, because a
 * silent peer gets only one PING per second. */
#define LINK_LEAST_S 3

static bool is_there(const struct in6_addr *addr)
{
	return !IN6_IS_ADDR_UNSPECIFIED(addr);
}

/* Return whether both nodes have a second address. If only one node has a
 * second address, the other node may be unable to reach it, so it is not
 * used. */
static bool both_have(const struct mpib_peer *p)
{
	return is_there(&p->node.second) && is_there(&p->broker->self.second);
}

static unsigned part_of(unsigned all, unsigned parts, unsigned least)
{
	unsigned part = all / parts < least ? least : all / parts;

	return part < all ? part : all;
}

/* Set the time limits of the peer's link. `call` is true if the link is an
 * outgoing call that is not up yet. */
static void second_patience(const struct mpib_peer *p, struct mpib_link *link,
			    bool call)
{
	unsigned all = p->broker->silence_s, quick = all, silent = all;

	if (both_have(p)) {
		quick = part_of(all, QUICK_PART, 1);
		silent = part_of(all, call ? QUICK_PART : LINK_PART,
				 LINK_LEAST_S);
	}
	mpib_link_set_patience(link, silent, quick);
}

void mpib_second_take(struct mpib_peer *p, const struct in6_addr *addr)
{
	if (is_there(addr) && !mpib_peer_at(p->broker, addr)) {
		mpib_debug("peer %s: its second address is not in "
			   "peer.networks",
			   p->label);
		p->node.second = in6addr_any;
	} else {
		p->node.second = *addr;
	}
	second_patience(p, p->link, false);
}

/* Return whether this node has never had a link to the peer. If so, the peer
 * has not sent its second address yet, and this node can know that address only
 * from a handle. */
static bool is_new(const struct mpib_peer *p)
{
	return p->node.boot == 0;
}

/* Use the address only if the cluster has a key: without a key, any host at
 * that address could pose as the peer. */
void mpib_second_hear(struct mpib_peer *p, const struct mpib_handle *handle)
{
	struct in6_addr addr;

	memcpy(&addr, handle->second, sizeof(addr));
	if (!p->broker->key.set || !is_new(p) || !is_there(&addr) ||
	    !mpib_peer_at(p->broker, &addr))
		return;
	p->node.second = addr;
	/* A call that started before the second address was known has a longer
	 * time limit. Shorten that limit. */
	if (p->link)
		second_patience(p, p->link, true);
}

bool mpib_second_speaks(struct mpib_broker *b, const struct mpib_node_id *node,
			const struct in6_addr *from)
{
	const struct mpib_peer *p;

	if (mpib_address_same(&node->addr, from))
		return true;
	p = mpib_peer_lookup(b, &node->addr, node->port, false);
	if (!is_there(from) || !mpib_peer_at(b, from))
		return false;
	if (!p || is_new(p))
		return b->key.set;
	return mpib_address_same(&p->node.second, from);
}

void mpib_second_turn(struct mpib_peer *p, bool second)
{
	p->by_second = both_have(p) && !second;
}

/* Return the address to call next, and set *from to the source address to
 * use. */
static const struct in6_addr *second_to(const struct mpib_peer *p,
					const struct in6_addr **from)
{
	bool second = p->by_second && both_have(p);

	*from = second ? &p->broker->self.second : &p->broker->self.addr;
	return second ? &p->node.second : &p->node.addr;
}

/* Calling a peer. */

#define RETRY_NS (100 * MPIB_MSEC)
/* A call that is still connecting keeps its precedence for this time. If a
 * pending caller claims to be the peer, this node delays the READY of its own
 * call by at most this time. */
#define DEFER_NS MPIB_SEC

/* End a call that got no answer in time. The answer may have been lost with the
 * peer's end of the TCP connection. The call must not stay pending, because a
 * pending call can make this node refuse the peer's calls. */
static void on_no_answer(void *arg)
{
	mpib_peer_cut(arg, "it did not answer the greeting");
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

	mpib_auth_challenge(&p->broker->key, hello.challenge);
	p->auth = (struct mpib_auth){ 0 };
	mpib_hello_said(&p->auth, &hello);
	mpib_link_send(link, &hello);
	mpib_timer_arm(p->broker->loop, &p->retry, MPIB_GREETING_NS,
		       on_no_answer, p);
}

/* Give up the call, for the reason `why`. */
static void no_use(struct mpib_peer *p, const char *why)
{
	mpib_refusal_note(p->broker, &p->node.addr, p->node.port, why);
	mpib_peer_cut(p, why);
}

static void send_ready(struct mpib_peer *p, struct mpib_link *link)
{
	const struct mpib_cluster_key *key = &p->broker->key;
	struct mpib_peer_msg ready = { .type = MPIB_PEER_READY };

	mpib_seal_init(&link->rx_seal, key, &p->auth, true);
	mpib_hello_said(&p->auth, &ready);
	mpib_auth_prove(key, &p->auth, false, ready.proof);
	mpib_link_send(link, &ready);
	mpib_seal_init(&link->tx_seal, key, &p->auth, false);
}

static void call_finish(struct mpib_peer *p)
{
	struct mpib_node_id node = p->answer;

	p->held = false;
	mpib_timer_disarm(p->broker->loop, &p->retry);
	/* A call that took long to connect lost its precedence, but has
	 * precedence again from here on. Otherwise both calls could succeed,
	 * and the two ends would keep different links. */
	if (mpib_peer_we_are_lower(p))
		mpib_hello_overtaken(p);
	if (node.boot != p->node.boot)
		mpib_peer_forget(p, "its proxy was restarted");
	send_ready(p, p->link);
	mpib_peer_is_up(p, p->link, &node);
}

static void on_hold_end(void *arg)
{
	call_finish(arg);
}

static void call_on_answer(void *ctx, struct mpib_link *link,
			   const struct mpib_peer_msg *m)
{
	struct mpib_peer *p = ctx;

	(void)link;
	mpib_timer_disarm(p->broker->loop, &p->retry);
	if (m->type == MPIB_PEER_REFUSED) {
		if (m->error != -EALREADY)
			no_use(p, m->why);
		else /* the peer's own call wins: keep the earlier reason */
			mpib_peer_cut(p, p->last_error[0] ? p->last_error
							  : m->why);
		return;
	}
	if (m->type != MPIB_PEER_WELCOME) {
		no_use(p, "it answered the greeting with a wrong message");
		return;
	}
	if (m->version < MPIB_PEER_VERSION_MIN ||
	    m->version > MPIB_PEER_VERSION) {
		no_use(p, "it chose a protocol version that was not offered");
		return;
	}
	if (!mpib_address_same(&m->node.addr, &p->node.addr) ||
	    m->node.port != p->node.port) {
		no_use(p, "the called proxy states another address or port "
			  "(check peer.addr on its node)");
		return;
	}
	mpib_hello_said(&p->auth, m);
	if (!mpib_auth_check(&p->broker->key, &p->auth, true, m->proof)) {
		no_use(p, "it does not know the cluster's key (give both "
			  "nodes the same peer.key_file)");
		return;
	}
	p->answer = m->node;
	p->version = m->version;
	/* The call of the node with the lower node id has precedence. If the
	 * peer has precedence and its call is pending here, delay the READY.
	 * Otherwise both calls could succeed, and the two ends would keep
	 * different links. */
	if (!mpib_peer_we_are_lower(p) && mpib_hello_expected(p)) {
		p->held = true;
		mpib_timer_arm(p->broker->loop, &p->retry, DEFER_NS,
			       on_hold_end, p);
		return;
	}
	call_finish(p);
}

static const struct mpib_link_events link_events = {
	.up = on_called,
	.message = call_on_answer,
	.down = mpib_peer_lost,
};

static void call_on_retry(void *arg)
{
	mpib_peer_want(arg);
}

/* Return whether connections wait for a link to the peer, or lanes wait for a
 * new link. */
static bool call_wanted(const struct mpib_peer *p)
{
	return !p->called && (!TAILQ_EMPTY(&p->waiting) || p->away.armed);
}

void mpib_call_again(struct mpib_peer *p, uint64_t ns)
{
	if (call_wanted(p))
		mpib_timer_arm(p->broker->loop, &p->retry, ns, call_on_retry,
			       p);
}

/* Call again after a pause. If the peer's host refuses the TCP connection, the
 * peer's proxy has ended, so end the waiting lanes. A refusal at the peer's
 * second address does not count, because a firewall can cause it. */
void mpib_call_failed(struct mpib_peer *p, int error)
{
	if (p->away.armed && error == -ECONNREFUSED && !p->by_second)
		mpib_peer_forget(p, "its proxy is gone");
	mpib_second_turn(p, p->by_second);
	mpib_call_again(p, RETRY_NS);
}

static void call_one(struct mpib_peer *p)
{
	struct mpib_broker *b = p->broker;
	const struct in6_addr *from, *to = second_to(p, &from);
	int rc = mpib_link_connect(b->loop, from, to, p->node.port,
				   &link_events, p, &p->link);

	if (rc < 0) {
		p->link = NULL;
		snprintf(p->last_error, sizeof(p->last_error), "%s",
			 strerror(-rc));
		mpib_call_failed(p, rc);
		return;
	}
	second_patience(p, p->link, true);
	p->called_ns = mpib_loop_now(b->loop);
	p->state = MPIB_PEER_CALLING;
}

bool mpib_call_wins(const struct mpib_peer *p)
{
	/* A firewall may allow calls in one direction only. So if this node's
	 * call takes long to connect, do not refuse the peer's call. */
	uint64_t age = mpib_loop_now(p->broker->loop) - p->called_ns;

	return p->state == MPIB_PEER_CALLING && mpib_peer_we_are_lower(p) &&
	       (!p->link->connecting || age < DEFER_NS);
}

void mpib_peer_want(struct mpib_peer *p)
{
	if (p->state == MPIB_PEER_IDLE && !p->retry.armed && call_wanted(p))
		call_one(p);
}

void mpib_call_release(struct mpib_peer *p)
{
	if (p->held && !mpib_hello_expected(p))
		call_finish(p);
}
