/* SPDX-License-Identifier: Apache-2.0 */
/* The called side of peer links; call.c is the calling side. A struct
 * mpib_pending_peer represents a caller until the caller sends READY. A caller
 * must send READY within MPIB_GREETING_NS. The READY proves that the caller has
 * the cluster's key. Until the READY arrives, the node id that the caller
 * claims has no effect: this node creates no struct mpib_peer for the caller.
 * If another proxy has this node id, the links and calls of that proxy
 * continue. Control thread. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/event.h"
#include "base/log.h"
#include "peer/internal.h"

/* Limit on the events about refusals: one for each entry of the table at once,
 * then one per REFUSED_NS. Otherwise any host could push all other events out
 * of the journal, by calls that are refused for different reasons in turn. */
#define REFUSED_NS (10 * MPIB_SEC)
#define TOO_OLD                                                                \
	"%s speaks peer protocol %u at most, %s %u at least (upgrade %s)"

void mpib_hello_said(struct mpib_auth *a, const struct mpib_peer_msg *m)
{
	struct mpib_peer_msg bare = *m;
	uint8_t frame[MPIB_PEER_FRAME_MAX];

	memset(bare.proof, 0, sizeof(bare.proof));
	mpib_auth_add(a, frame, mpib_peer_encode(&bare, frame));
}

static struct mpib_pending_peer *hello_of(const struct mpib_peer *p)
{
	struct mpib_pending_peer *s;

	TAILQ_FOREACH(s, &p->broker->pending_peers, entry)
	{
		if (s->welcomed && s->self == p->called &&
		    mpib_address_same(&s->node.addr, &p->node.addr) &&
		    s->node.port == p->node.port)
			return s;
	}
	return NULL;
}

bool mpib_hello_expected(const struct mpib_peer *p)
{
	return hello_of(p) != NULL;
}

/* Free the pending caller, but not its link. */
static void pending_peer_free(struct mpib_pending_peer *s)
{
	struct mpib_broker *b = s->broker;
	struct mpib_peer *p = NULL;

	if (s->welcomed)
		p = mpib_peer_lookup(b, &s->node.addr, s->node.port, s->self);
	mpib_timer_disarm(b->loop, &s->timer);
	TAILQ_REMOVE(&b->pending_peers, s, entry);
	free(s);
	if (p)
		mpib_call_release(p);
}

static void hello_drop(struct mpib_pending_peer *s)
{
	mpib_link_close(s->link);
	pending_peer_free(s);
}

void mpib_hello_overtaken(struct mpib_peer *p)
{
	struct mpib_pending_peer *s;

	while ((s = hello_of(p)))
		hello_drop(s);
}

/* Return the entry for the address `addr`. If there is none, use a free entry.
 * If none is free, use the entry whose last refusal is the oldest. */
static struct mpib_refusal *refusal_of(struct mpib_broker *b,
				       const struct in6_addr *addr)
{
	struct mpib_refusal *best = b->refusal;

	for (unsigned i = 0; i < PEER_REFUSALS; i++) {
		struct mpib_refusal *r = &b->refusal[i];

		if (r->count && mpib_address_same(&r->addr, addr))
			return r;
		if (best->count && (!r->count || r->last_ns < best->last_ns))
			best = r;
	}
	*best = (struct mpib_refusal){ .addr = *addr };
	return best;
}

void mpib_refusal_note(struct mpib_broker *b, const struct in6_addr *addr,
		       uint16_t port, const char *why)
{
	struct mpib_refusal *r = refusal_of(b, addr);

	if (port || !r->peer[0])
		mpib_address_text(addr, port, r->peer, sizeof(r->peer));
	if (strcmp(r->why, why) != 0)
		r->told = false;
	snprintf(r->why, sizeof(r->why), "%s", why);
	r->last_ns = mpib_loop_now(b->loop);
	r->count++;
	b->refused_count++;
	if (r->told || !mpib_rate_take(&b->refused_paid, r->last_ns,
				       PEER_REFUSALS, REFUSED_NS))
		return;
	r->told = true;
	mpib_event(MPIB_LOG_WARN, "peer_refused",
		   &(struct mpib_event_about){ .peer = r->peer },
		   "the link with %s is refused: %s", r->peer, why);
}

void mpib_refusal_forget(struct mpib_broker *b, const struct in6_addr *addr)
{
	for (unsigned i = 0; i < PEER_REFUSALS; i++) {
		if (mpib_address_same(&b->refusal[i].addr, addr))
			b->refusal[i] = (struct mpib_refusal){ 0 };
	}
}

/* Record the refusal of a caller. A caller that uses its second address is
 * recorded under the first address that it states, if that address was refused
 * before: the two are one node. The address is not proved, so it makes no new
 * entry. */
static void note_refused(const struct mpib_pending_peer *s, const char *why)
{
	const struct mpib_broker *b = s->broker;
	const struct in6_addr *addr = &s->link->addr;

	for (unsigned i = 0; i < PEER_REFUSALS; i++) {
		const struct mpib_refusal *r = &b->refusal[i];

		if (r->count && mpib_address_same(&r->addr, &s->node.addr) &&
		    mpib_address_same(addr, &s->node.second))
			addr = &r->addr;
	}
	mpib_refusal_note(s->broker, addr, 0, why);
}

static void hello_refuse(struct mpib_pending_peer *s, int error,
			 const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void hello_refuse(struct mpib_pending_peer *s, int error,
			 const char *fmt, ...)
{
	struct mpib_peer_msg m = {
		.type = MPIB_PEER_REFUSED,
		.error = error,
	};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(m.why, sizeof(m.why), fmt, ap);
	va_end(ap);
	if (error != -EALREADY)
		note_refused(s, m.why);
	mpib_link_send(s->link, &m);
	hello_drop(s);
}

static void peer_hello_welcome(struct mpib_pending_peer *s)
{
	struct mpib_peer_msg m = {
		.type = MPIB_PEER_WELCOME,
		.version = s->version,
		.node = s->broker->self,
	};
	const struct mpib_cluster_key *key = &s->broker->key;

	s->welcomed = true;
	mpib_auth_challenge(key, m.challenge);
	mpib_hello_said(&s->auth, &m);
	mpib_auth_prove(key, &s->auth, true, m.proof);
	mpib_link_send(s->link, &m);
	mpib_seal_init(&s->link->tx_seal, key, &s->auth, true);
}

/* Check that the caller and this node have a protocol version in common, that
 * both have a key or neither has one, and that this node's networks include the
 * caller. Otherwise refuse the caller. Both ends show the reason, and either
 * end may call, so the reason names the nodes by their addresses. */
static bool same_terms(struct mpib_pending_peer *s,
		       const struct mpib_peer_msg *m)
{
	bool ours = s->broker->key.set, theirs = mpib_auth_given(m->challenge);
	char us[MPIB_ADDRESS_MAX], them[MPIB_ADDRESS_MAX];

	mpib_address_text(&s->broker->self.addr, 0, us, sizeof(us));
	mpib_address_text(&m->node.addr, 0, them, sizeof(them));
	if (m->version < MPIB_PEER_VERSION_MIN)
		hello_refuse(s, -EPROTONOSUPPORT, TOO_OLD, them, m->version, us,
			     MPIB_PEER_VERSION_MIN, them);
	else if (m->version_min > MPIB_PEER_VERSION)
		hello_refuse(s, -EPROTONOSUPPORT, TOO_OLD, us,
			     MPIB_PEER_VERSION, them, m->version_min, us);
	else if (ours != theirs)
		hello_refuse(s, -EACCES,
			     "%s has a key and %s has none (set peer.key_file "
			     "on %s)",
			     ours ? us : them, ours ? them : us,
			     ours ? them : us);
	else if (!mpib_peer_at(s->broker, &m->node.addr))
		hello_refuse(s, -EACCES, "%s is not in peer.networks of %s",
			     them, us);
	else
		return true;
	return false;
}

static void on_hello(struct mpib_pending_peer *s, const struct mpib_peer_msg *m)
{
	struct mpib_broker *b = s->broker;
	bool self = mpib_address_same(&m->node.addr, &b->self.addr) &&
		    m->node.port == b->self.port;
	struct mpib_peer *p;

	s->node = m->node;
	/* Check the keys before the addresses: without a key, this node does
	 * not know the second address of a caller that has one. */
	if (!same_terms(s, m))
		return;
	/* Accept a node id from two addresses: that node's address, and the
	 * second address that the node has sent. */
	if (!mpib_second_speaks(b, &m->node, &s->link->addr) ||
	    m->node.port == 0) {
		hello_refuse(s, -EADDRNOTAVAIL,
			     "the calling proxy claims an address that it does "
			     "not call from");
		return;
	}
	if (self && m->node.boot != b->self.boot) {
		hello_refuse(s, -EADDRINUSE,
			     "the calling proxy claims to be the called proxy");
		return;
	}
	p = mpib_peer_lookup(b, &m->node.addr, m->node.port, self);
	if (!p && !mpib_peer_room(b, 0)) {
		hello_refuse(s, -ENOSPC, "too many peers");
		return;
	}
	if (p && !self && mpib_call_wins(p)) {
		hello_refuse(s, -EALREADY, "both called at the same time");
		return;
	}
	s->version =
		m->version < MPIB_PEER_VERSION ? m->version : MPIB_PEER_VERSION;
	s->self = self;
	mpib_hello_said(&s->auth, m);
	peer_hello_welcome(s);
}

static void hello_on_ready(struct mpib_pending_peer *s,
			   const struct mpib_peer_msg *m)
{
	const struct mpib_cluster_key *key = &s->broker->key;
	struct mpib_link *link = s->link;
	struct mpib_broker *b = s->broker;
	struct mpib_node_id node = s->node;
	bool self = s->self;
	struct mpib_peer *p;
	uint16_t version = s->version;

	mpib_hello_said(&s->auth, m);
	if (!mpib_auth_check(key, &s->auth, false, m->proof)) {
		hello_refuse(s, -EACCES,
			     "it does not know the cluster's key (give both "
			     "nodes the same peer.key_file)");
		return;
	}
	mpib_seal_init(&link->rx_seal, key, &s->auth, false);
	s->welcomed = false; /* the caller has proved its identity */
	pending_peer_free(s);
	p = mpib_peer_find(b, 0, &node.addr, node.port, self);
	if (!p) {
		mpib_link_close(link); /* the table of peers is full */
		return;
	}
	if (node.boot != p->node.boot)
		mpib_peer_forget(p, "its proxy was restarted");
	/* A proxy that calls has no working link to this node any more. */
	mpib_peer_cut(p, "it called again");
	p->version = version;
	mpib_peer_is_up(p, link, &node);
}

static void hello_on_message(void *ctx, struct mpib_link *link,
			     const struct mpib_peer_msg *m)
{
	struct mpib_pending_peer *s = ctx;

	(void)link;
	if (!s->welcomed && m->type == MPIB_PEER_HELLO) {
		on_hello(s, m);
	} else if (s->welcomed && m->type == MPIB_PEER_READY) {
		hello_on_ready(s, m);
	} else {
		note_refused(s, "it speaks out of turn");
		hello_drop(s);
	}
}

static void hello_on_down(void *ctx, struct mpib_link *link, const char *why)
{
	mpib_debug("peer link from %s: %s before it was up", link->label, why);
	pending_peer_free(ctx);
}

static const struct mpib_link_events hello_events = {
	.message = hello_on_message,
	.down = hello_on_down,
};

/* The listening sockets for peer links, and a limit on callers that have not
 * proved their identity yet. */

/* Limits on such callers at one socket. PENDING_PEERS_MAX: callers in total.
 * PENDING_OF_ONE_MAX: callers from one address. */
#define PENDING_PEERS_MAX 256u
#define PENDING_OF_ONE_MAX 64u

static void on_patience_end(void *arg)
{
	hello_drop(arg);
}

/* Make room for one more caller from `addr` at this socket. If too many callers
 * from `addr` are pending, drop the oldest of these. Otherwise, if too many
 * callers are pending in total, drop the oldest of all. */
static void make_room(struct mpib_door *d, const struct in6_addr *addr)
{
	struct mpib_pending_peer *s, *oldest = NULL, *of_one = NULL;
	unsigned n = 0, all = 0;

	TAILQ_FOREACH(s, &d->broker->pending_peers, entry)
	{
		if (s->door != d)
			continue;
		all++;
		if (!oldest)
			oldest = s;
		if (!mpib_address_same(&s->link->addr, addr))
			continue;
		if (!of_one)
			of_one = s;
		n++;
	}
	if (n >= PENDING_OF_ONE_MAX)
		hello_drop(of_one);
	else if (all >= PENDING_PEERS_MAX)
		hello_drop(oldest);
}

static void door_on_accept(void *arg, int fd)
{
	struct mpib_door *d = arg;
	struct mpib_broker *b = d->broker;
	struct mpib_pending_peer *s;

	s = calloc(1, sizeof(*s));
	if (!s ||
	    mpib_link_accept(b->loop, fd, &hello_events, s, &s->link) < 0) {
		free(s);
		close(fd);
		return;
	}
	s->broker = b;
	s->door = d;
	make_room(d, &s->link->addr);
	mpib_link_set_patience(s->link, b->silence_s, b->silence_s);
	TAILQ_INSERT_TAIL(&b->pending_peers, s, entry);
	mpib_timer_arm(b->loop, &s->timer, MPIB_GREETING_NS, on_patience_end,
		       s);
}

static void door_close(struct mpib_door *d)
{
	mpib_acceptor_close(&d->acceptor);
	if (d->fd >= 0)
		close(d->fd);
	d->fd = -1;
}

/* Listen on *addr and *port, and set both to the address and port that the
 * socket got. */
static int door_listen(struct mpib_door *d, struct in6_addr *addr,
		       uint16_t *port)
{
	struct sockaddr_storage sa;
	socklen_t len = mpib_address_socket(addr, *port, &sa);
	int one = 1;

	d->fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
		       0);
	if (d->fd < 0)
		return -errno;
	setsockopt(d->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(d->fd, (struct sockaddr *)&sa, len) < 0 ||
	    listen(d->fd, 4096) < 0 ||
	    getsockname(d->fd, (struct sockaddr *)&sa, &len) < 0)
		return -errno;
	*port = mpib_address_take(&sa, addr);
	d->acceptor = (struct mpib_acceptor){
		.loop = d->broker->loop,
		.fd = d->fd,
		.a_second = MPIB_ACCEPTS_A_SECOND,
		.who = "a caller of the peer link",
		.fn = door_on_accept,
		.arg = d,
	};
	return mpib_acceptor_open(&d->acceptor);
}

static int door_open(struct mpib_door *d, struct in6_addr *addr, uint16_t *port,
		     char *why, size_t why_len)
{
	char text[MPIB_ADDRESS_MAX];
	int rc = door_listen(d, addr, port);

	if (rc == 0)
		return 0;
	snprintf(why, why_len, "it cannot listen on %s: %s",
		 mpib_address_text(addr, *port, text, sizeof(text)),
		 strerror(-rc));
	door_close(d);
	return rc;
}

static void open_second(struct mpib_broker *b)
{
	char why[200];

	if (IN6_IS_ADDR_UNSPECIFIED(&b->self.second) ||
	    door_open(&b->door[1], &b->self.second, &b->self.port, why,
		      sizeof(why)) == 0)
		return;
	mpib_warn("peer link: no second address, %s (the link fails if its "
		  "first address fails)",
		  why);
	b->self.second = in6addr_any;
}

int mpib_hello_listen(struct mpib_broker *b, char *why, size_t why_len)
{
	int rc = door_open(&b->door[0], &b->self.addr, &b->self.port, why,
			   why_len);

	if (rc == 0)
		open_second(b);
	return rc;
}

void mpib_hello_close(struct mpib_broker *b)
{
	for (unsigned i = 0; i < MPIB_DOORS; i++)
		door_close(&b->door[i]);
	while (!TAILQ_EMPTY(&b->pending_peers))
		hello_drop(TAILQ_FIRST(&b->pending_peers));
}
