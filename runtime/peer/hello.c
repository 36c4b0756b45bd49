/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The called side of peer links; call.c is the calling side. A caller is a
 * pending_peer until its HELLO came, and from the WELCOME to its READY the
 * candidate of its peer. Both have to happen within PATIENCE_NS. Control
 * thread.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "peer/internal.h"

#define PATIENCE_NS (5 * MPIB_SEC)
#define PAUSE_NS (100 * MPIB_MSEC)
#define PENDING_PEERS_MAX 256
#define REFUSED_NS (60 * MPIB_SEC) /* between log lines of the same reason */

struct mpib_pending_peer {
	struct mpib_broker *broker;
	struct mpib_link *link;
	struct mpib_peer *peer; /* whose candidate it is; NULL before the
				   HELLO */
	uint16_t version;
	struct mpib_node_id node; /* as the caller's HELLO says */
	uint64_t offered; /* the session that the WELCOME named */
	struct mpib_auth auth;
	struct mpib_timer timer;
	TAILQ_ENTRY(mpib_pending_peer) entry;
};

/* Frees all but the link. */
static void pending_peer_free(struct mpib_pending_peer *s)
{
	struct mpib_broker *b = s->broker;
	struct mpib_peer *p = s->peer;

	mpib_timer_disarm(b->loop, &s->timer);
	TAILQ_REMOVE(&b->pending_peers, s, entry);
	b->pending_peer_count--;
	free(s);
	if (p) {
		p->candidate = NULL;
		mpib_peer_want(p);
	}
}

static void hello_drop(struct mpib_pending_peer *s)
{
	mpib_link_close(s->link);
	pending_peer_free(s);
}

/* A caller that is refused calls again and again: log the same reason only once
 * in REFUSED_NS. */
static void tell_refused(const struct mpib_pending_peer *s, const char *why)
{
	struct mpib_broker *b = s->broker;
	uint64_t now = mpib_loop_now(b->loop);

	if (!strcmp(b->refused, why) && now - b->refused_ns < REFUSED_NS)
		return;
	snprintf(b->refused, sizeof(b->refused), "%s", why);
	b->refused_ns = now;
	mpib_warn("peer link from %s refused: %s", s->link->label, why);
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
		tell_refused(s, m.why);
	mpib_link_send(s->link, &m);
	hello_drop(s);
}

static void peer_hello_welcome(struct mpib_pending_peer *s, struct mpib_peer *p)
{
	struct mpib_peer_msg m = {
		.type = MPIB_PEER_WELCOME,
		.version = s->version,
		.node = s->broker->self,
	};
	const struct mpib_cluster_key *key = &s->broker->key;

	if (s->node.boot == p->node.boot)
		m.session = s->offered = p->resume.id;
	if (p->candidate)
		hello_drop(p->candidate);
	/* This node's own call to the peer, if any, loses; a link that is up
	 * stays until READY. */
	s->peer = p;
	p->candidate = s;
	if (p->state == MPIB_PEER_CALLING)
		mpib_peer_cut(p, "it called at the same time");
	mpib_auth_challenge(key, s->auth.called);
	memcpy(m.challenge, s->auth.called, sizeof(m.challenge));
	mpib_auth_prove(key, &s->auth, true, m.proof);
	mpib_link_send(s->link, &m);
	mpib_seal_init(&s->link->tx_seal, key, &s->auth, true);
}

/* A proxy with a key and one without cannot talk: tell the caller which end
 * lacks the key. */
static bool same_trust(struct mpib_pending_peer *s,
		       const struct mpib_peer_msg *m)
{
	bool ours = s->broker->key.set, theirs = mpib_auth_given(m->challenge);

	if (ours == theirs)
		return true;
	hello_refuse(
		s, -EACCES,
		ours ? "this cluster's proxies share a key and it has none "
		       "(set its peer.key_file)"
		     : "it wants a cluster's key and this proxy has none (set "
		       "peer.key_file here)");
	return false;
}

static void on_hello(struct mpib_pending_peer *s, const struct mpib_peer_msg *m)
{
	struct mpib_broker *b = s->broker;
	bool self = mpib_address_same(&m->node.addr, &b->self.addr) &&
		    m->node.port == b->self.port;
	struct mpib_peer *p;

	if (m->version_min > MPIB_PEER_VERSION ||
	    m->version < MPIB_PEER_VERSION_MIN) {
		hello_refuse(
			s, -EPROTONOSUPPORT,
			"it speaks peer protocol %u to %u, this proxy %u to %u "
			"(upgrade the older one)",
			m->version_min, m->version, MPIB_PEER_VERSION_MIN,
			MPIB_PEER_VERSION);
		return;
	}
	/* Only a caller that connects from an address may speak for the node of
	 * that address. */
	if (!mpib_address_same(&m->node.addr, &s->link->addr) ||
	    m->node.port == 0) {
		hello_refuse(s, -EADDRNOTAVAIL,
			     "it calls from %s and is not of that address",
			     s->link->label);
		return;
	}
	if (self && m->node.boot != b->self.boot) {
		hello_refuse(s, -EADDRINUSE, "it says that it is this proxy");
		return;
	}
	if (!same_trust(s, m))
		return;
	p = mpib_peer_find(b, &m->node.addr, m->node.port, self);
	if (!p) {
		hello_refuse(s, -ENOSPC, "too many peers");
		return;
	}
	/* This node's own call has reached the peer, or is about to, and
	 * wins. */
	if (!self && p->state == MPIB_PEER_CALLING && !p->link->connecting &&
	    mpib_peer_we_are_lower(p)) {
		hello_refuse(s, -EALREADY, "both called at the same time");
		return;
	}
	s->version =
		m->version < MPIB_PEER_VERSION ? m->version : MPIB_PEER_VERSION;
	s->node = m->node;
	memcpy(s->auth.caller, m->challenge, sizeof(s->auth.caller));
	peer_hello_welcome(s, p);
}

/*
 * Resume session (again) or begin it. The caller has no working link to this
 * node any more, or it would not have called; so the rest of the old link is
 * cut here, before the messages that came over it are counted. False: the
 * caller wants to resume a session that is over here.
 */
static bool take_session(struct mpib_peer *p, bool again,
			 const struct mpib_node_id *node, uint64_t session)
{
	if (!again)
		mpib_peer_forget(p, node->boot == p->node.boot
					    ? "it called again"
					    : "its proxy was restarted");
	mpib_peer_cut(p, "it called again");
	if (again)
		return p->resume.id == session;
	mpib_resume_begin(&p->resume, session);
	return true;
}

static void hello_on_ready(struct mpib_pending_peer *s,
			   const struct mpib_peer_msg *m)
{
	const struct mpib_cluster_key *key = &s->broker->key;
	struct mpib_link *link = s->link;
	struct mpib_peer *p = s->peer;
	struct mpib_node_id node = s->node;
	bool again = m->session && m->session == s->offered;
	uint16_t version = s->version;

	if (!mpib_auth_check(key, &s->auth, false, m->proof)) {
		hello_refuse(
			s, -EACCES,
			"it does not know the cluster's key (give both the "
			"same peer.key_file)");
		return;
	}
	mpib_seal_init(&link->rx_seal, key, &s->auth, false);
	s->peer = NULL;
	p->candidate = NULL;
	pending_peer_free(s);
	if (!take_session(p, again, &node, m->session)) {
		mpib_link_close(link); /* the caller will call again */
		return;
	}
	/* Messages sent from here on are queued behind those that the peer
	 * lacks. */
	p->resuming = true;
	p->version = version;
	mpib_peer_is_up(p, link, &node);
	mpib_link_tell_seen(link);
	if (!mpib_peer_again(p, m->seen))
		mpib_peer_broke(p, "it claims to have what was not sent");
}

static void hello_on_message(void *ctx, struct mpib_link *link,
			     const struct mpib_peer_msg *m)
{
	struct mpib_pending_peer *s = ctx;

	if (!s->peer && m->type == MPIB_PEER_HELLO) {
		on_hello(s, m);
	} else if (s->peer && m->type == MPIB_PEER_READY && m->session) {
		hello_on_ready(s, m);
	} else {
		mpib_warn("peer link from %s: %s out of turn", link->label,
			  mpib_peer_type_name(m->type));
		hello_drop(s);
	}
}

static void hello_on_down(void *ctx, struct mpib_link *link, const char *why)
{
	mpib_debug("peer link from %s: %s before it was up", link->label, why);
	pending_peer_free(ctx);
}

static const struct mpib_link_events pending_peer_events = {
	.message = hello_on_message,
	.down = hello_on_down,
};

static void on_patience_end(void *arg)
{
	hello_drop(arg);
}

static void hello_on_pause_end(void *arg)
{
	struct mpib_broker *b = arg;

	mpib_loop_mod(b->loop, &b->accept, EPOLLIN);
}

static void hello_on_accept(void *arg, uint32_t events)
{
	struct mpib_broker *b = arg;
	struct mpib_pending_peer *s;
	int fd;

	(void)events;
	fd = accept4(b->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	/* On any other error the caller still waits and would wake the loop in
	 * each turn, so pause accepting. */
	if (fd < 0 && errno != EAGAIN && errno != ECONNABORTED &&
	    errno != EINTR) {
		mpib_err("peer link: a caller waits: accept: %m (raise "
			 "LimitNOFILE)");
		mpib_loop_mod(b->loop, &b->accept, 0);
		mpib_timer_arm(b->loop, &b->pause, PAUSE_NS, hello_on_pause_end,
			       b);
	}
	if (fd < 0)
		return;
	/* When there are too many pending peers the oldest is dropped. */
	if (b->pending_peer_count >= PENDING_PEERS_MAX)
		hello_drop(TAILQ_FIRST(&b->pending_peers));
	s = calloc(1, sizeof(*s));
	if (!s || mpib_link_accept(b->loop, fd, &pending_peer_events, s,
				   &s->link) < 0) {
		free(s);
		close(fd);
		return;
	}
	s->broker = b;
	mpib_link_set_patience(s->link, b->silence_s);
	TAILQ_INSERT_TAIL(&b->pending_peers, s, entry);
	b->pending_peer_count++;
	mpib_timer_arm(b->loop, &s->timer, PATIENCE_NS, on_patience_end, s);
}

int mpib_hello_accept(struct mpib_broker *b)
{
	return mpib_loop_add(b->loop, &b->accept, b->fd, EPOLLIN,
			     hello_on_accept, b);
}

int mpib_hello_listen(struct mpib_broker *b, char *why, size_t why_len)
{
	struct sockaddr_storage sa;
	socklen_t len = mpib_address_socket(&b->self.addr, b->self.port, &sa);
	char text[MPIB_ADDRESS_MAX];
	int one = 1, rc;

	b->fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
		       0);
	if (b->fd < 0) {
		rc = -errno;
		snprintf(why, why_len, "peer link: no socket: %s",
			 strerror(-rc));
		return rc;
	}
	setsockopt(b->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(b->fd, (struct sockaddr *)&sa, len) < 0 ||
	    listen(b->fd, 512) < 0 ||
	    getsockname(b->fd, (struct sockaddr *)&sa, &len) < 0) {
		rc = -errno;
		goto err_close;
	}
	b->self.port = mpib_address_take(&sa, &b->self.addr);
	rc = mpib_hello_accept(b);
	if (rc < 0)
		goto err_close;
	return 0;

err_close:
	snprintf(why, why_len,
		 "peer link cannot listen on %s: %s (choose another "
		 "--peer-port, or stop what uses it)",
		 mpib_address_text(&b->self.addr, b->self.port, text,
				   sizeof(text)),
		 strerror(-rc));
	close(b->fd);
	return rc;
}

void mpib_hello_close(struct mpib_broker *b)
{
	mpib_timer_disarm(b->loop, &b->pause);
	mpib_loop_del(b->loop, &b->accept);
	if (b->fd >= 0)
		close(b->fd);
	while (!TAILQ_EMPTY(&b->pending_peers))
		hello_drop(TAILQ_FIRST(&b->pending_peers));
}
