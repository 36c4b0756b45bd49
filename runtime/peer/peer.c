/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers and their links. There is one link a peer. When two nodes call each
 * other at once, the link that the lower node id called on stays: its owner
 * answers the other with COLLISION, the higher one drops its own and welcomes.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "peer/internal.h"

#define RETRY_NS (100 * MPIB_MSEC)

/* An accepted link until it says who it is. */
struct mpib_stranger {
	struct mpib_broker *broker;
	struct mpib_link *link;
	struct mpib_timer timer;
	LIST_ENTRY(mpib_stranger) entry;
};

static const struct mpib_link_events link_events;

static void format_node(const struct mpib_node_id *n, char *text, size_t len)
{
	char ip[INET_ADDRSTRLEN];

	inet_ntop(AF_INET, &n->addr, ip, sizeof(ip));
	snprintf(text, len, "%s:%u", ip, n->port);
}

/* By place, then by life: a restarted proxy is the same place. */
static bool lower(const struct mpib_node_id *a, const struct mpib_node_id *b)
{
	if (a->addr != b->addr)
		return ntohl(a->addr) < ntohl(b->addr);
	return a->port < b->port;
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
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->broker = b;
	p->node.addr = addr;
	p->node.port = port;
	p->called = called;
	TAILQ_INIT(&p->lanes);
	TAILQ_INIT(&p->waiting);
	format_node(&p->node, p->label, sizeof(p->label));
	TAILQ_INSERT_TAIL(&b->peers, p, entry);
	return p;
}

static void is_up(struct mpib_peer *p, struct mpib_link *link,
		  const struct mpib_node_id *node)
{
	struct mpib_bconn *c;

	p->link = link;
	p->state = MPIB_PEER_UP;
	p->node.boot = node->boot;
	mpib_timer_disarm(p->broker->loop, &p->retry);
	mpib_info("peer %s: link is up", p->label);
	while ((c = TAILQ_FIRST(&p->waiting))) {
		TAILQ_REMOVE(&p->waiting, c, entry);
		mpib_bconn_linked(c);
	}
}

static void call(struct mpib_peer *p);

static void on_retry(void *arg)
{
	struct mpib_peer *p = arg;

	if (p->state == MPIB_PEER_IDLE && !TAILQ_EMPTY(&p->waiting))
		call(p);
}

static void call(struct mpib_peer *p)
{
	struct mpib_broker *b = p->broker;
	int rc = mpib_link_connect(b->loop, b->self.addr, p->node.addr,
				   p->node.port, &link_events, p, &p->link);

	if (rc < 0) {
		p->link = NULL;
		snprintf(p->trouble, sizeof(p->trouble), "%s", strerror(-rc));
		mpib_timer_arm(b->loop, &p->retry, RETRY_NS, on_retry, p);
		return;
	}
	p->state = MPIB_PEER_CALLING;
}

void mpib_peer_want(struct mpib_peer *p)
{
	if (p->state == MPIB_PEER_IDLE && !p->retry.armed && !p->called)
		call(p);
}

static void lost(struct mpib_peer *p, const char *why)
{
	bool was_up = p->state == MPIB_PEER_UP;

	p->link = NULL;
	p->state = MPIB_PEER_IDLE;
	snprintf(p->trouble, sizeof(p->trouble), "%s", why);
	if (was_up) {
		mpib_warn("peer %s: link is down: %s", p->label, why);
		mpib_accept_lost(p);
		mpib_blanes_lost(p, why);
	}
	mpib_timer_arm(p->broker->loop, &p->retry, RETRY_NS, on_retry, p);
}

static void on_up(void *ctx, struct mpib_link *link)
{
	struct mpib_peer *p = ctx;
	struct mpib_peer_msg hello = {
		.type = MPIB_PEER_HELLO,
		.magic = MPIB_PEER_MAGIC,
		.version = MPIB_PEER_VERSION,
		.node = p->broker->self,
	};

	mpib_link_send(link, &hello);
}

static void refuse(struct mpib_peer *p, struct mpib_link *link, const char *why)
{
	mpib_warn("peer %s: %s", p->label, why);
	mpib_link_close(link);
	lost(p, why);
}

static void on_calling(struct mpib_peer *p, const struct mpib_peer_msg *m)
{
	char why[120];

	if (m->type == MPIB_PEER_COLLISION) {
		/* Its own call to us is on the way. */
		mpib_link_close(p->link);
		p->link = NULL;
		p->state = MPIB_PEER_IDLE;
		mpib_timer_arm(p->broker->loop, &p->retry, RETRY_NS, on_retry,
			       p);
		return;
	}
	if (m->type != MPIB_PEER_WELCOME) {
		refuse(p, p->link,
		       "it answered the greeting with something "
		       "else");
		return;
	}
	if (m->version != MPIB_PEER_VERSION) {
		snprintf(why, sizeof(why),
			 "it speaks peer protocol %u, this proxy %u (upgrade "
			 "the older one)",
			 m->version, MPIB_PEER_VERSION);
		refuse(p, p->link, why);
		return;
	}
	is_up(p, p->link, &m->node);
}

static void on_message(void *ctx, struct mpib_link *link,
		       const struct mpib_peer_msg *m)
{
	struct mpib_peer *p = ctx;

	if (p->state == MPIB_PEER_CALLING) {
		on_calling(p, m);
		return;
	}
	switch (m->type) {
	case MPIB_PEER_LANE_OPEN:
	case MPIB_PEER_LANE_ACCEPT:
	case MPIB_PEER_LANE_REJECT:
		mpib_blane_message(p, m);
		break;
	case MPIB_PEER_CONN_OPEN:
	case MPIB_PEER_CONN_ACCEPT:
	case MPIB_PEER_CONN_REJECT:
	case MPIB_PEER_CONN_CANCEL:
	case MPIB_PEER_CONN_CLOSE:
	case MPIB_PEER_CONN_CLOSED:
		mpib_bconn_message(p, m);
		break;
	case MPIB_PEER_HELLO:
	case MPIB_PEER_WELCOME:
	case MPIB_PEER_COLLISION:
		mpib_warn("peer %s: unexpected %s", p->label,
			  mpib_peer_type_name(m->type));
		mpib_link_close(link);
		lost(p, "it broke the protocol");
		break;
	}
}

static void on_down(void *ctx, struct mpib_link *link, const char *why)
{
	struct mpib_peer *p = ctx;

	if (p->link == link)
		lost(p, why);
}

static const struct mpib_link_events link_events = {
	.up = on_up,
	.message = on_message,
	.down = on_down,
};

static void free_stranger(struct mpib_stranger *s)
{
	mpib_timer_disarm(s->broker->loop, &s->timer);
	LIST_REMOVE(s, entry);
	free(s);
}

static void welcome(struct mpib_peer *p, struct mpib_link *link,
		    const struct mpib_node_id *node)
{
	struct mpib_peer_msg m = {
		.type = MPIB_PEER_WELCOME,
		.version = MPIB_PEER_VERSION,
		.node = p->broker->self,
	};

	/* What was there before is from an older life, or our own losing
	 * call. */
	if (p->link) {
		mpib_link_close(p->link);
		lost(p, "it called again");
	}
	link->events = &link_events;
	link->ctx = p;
	mpib_link_send(link, &m);
	is_up(p, link, node);
}

static void on_hello(void *ctx, struct mpib_link *link,
		     const struct mpib_peer_msg *m)
{
	static const struct mpib_peer_msg collision = {
		.type = MPIB_PEER_COLLISION,
	};
	struct mpib_stranger *s = ctx;
	struct mpib_broker *b = s->broker;
	bool self =
		m->node.addr == b->self.addr && m->node.port == b->self.port;
	struct mpib_peer *p;

	free_stranger(s);
	if (m->type != MPIB_PEER_HELLO || m->magic != MPIB_PEER_MAGIC ||
	    m->version != MPIB_PEER_VERSION) {
		mpib_warn("%s on the peer link's port is no mpib-proxy of "
			  "protocol %u",
			  link->label, MPIB_PEER_VERSION);
		mpib_link_close(link);
		return;
	}
	p = mpib_peer_find(b, m->node.addr, m->node.port, self);
	if (!p) {
		mpib_link_close(link);
		return;
	}
	if (!self && p->state == MPIB_PEER_CALLING &&
	    lower(&b->self, &p->node)) {
		mpib_link_send(link, &collision);
		mpib_link_close(link);
		return;
	}
	welcome(p, link, &m->node);
}

static void on_stranger_down(void *ctx, struct mpib_link *link, const char *why)
{
	(void)link;
	(void)why;
	free_stranger(ctx);
}

static const struct mpib_link_events stranger_events = {
	.message = on_hello,
	.down = on_stranger_down,
};

static void on_silence(void *arg)
{
	struct mpib_stranger *s = arg;
	struct mpib_link *link = s->link;

	free_stranger(s);
	mpib_link_close(link);
}

static void on_accept(void *arg, uint32_t events)
{
	struct mpib_broker *b = arg;
	struct mpib_stranger *s;
	int fd;

	(void)events;
	fd = accept4(b->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return;
	s = calloc(1, sizeof(*s));
	if (!s ||
	    mpib_link_accept(b->loop, fd, &stranger_events, s, &s->link) < 0) {
		free(s);
		close(fd);
		return;
	}
	s->broker = b;
	LIST_INSERT_HEAD(&b->strangers, s, entry);
	mpib_timer_arm(b->loop, &s->timer, 5 * MPIB_SEC, on_silence, s);
}

int mpib_peer_listen(struct mpib_broker *b, char *why, size_t why_len)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
				   .sin_addr.s_addr = b->self.addr,
				   .sin_port = htons(b->self.port) };
	socklen_t len = sizeof(sin);
	int one = 1, rc;

	b->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (b->fd < 0)
		return -errno;
	setsockopt(b->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(b->fd, (struct sockaddr *)&sin, sizeof(sin)) < 0 ||
	    listen(b->fd, 512) < 0 ||
	    getsockname(b->fd, (struct sockaddr *)&sin, &len) < 0) {
		char ip[INET_ADDRSTRLEN];

		rc = -errno;
		inet_ntop(AF_INET, &b->self.addr, ip, sizeof(ip));
		snprintf(why, why_len,
			 "peer link cannot listen on %s:%u: %s (choose another "
			 "--peer-port, or stop what uses it)",
			 ip, b->self.port, strerror(-rc));
		close(b->fd);
		return rc;
	}
	b->self.port = ntohs(sin.sin_port);
	rc = mpib_loop_add(b->loop, &b->accept, b->fd, EPOLLIN, on_accept, b);
	if (rc < 0)
		close(b->fd);
	return rc;
}

void mpib_peers_close(struct mpib_broker *b)
{
	struct mpib_stranger *s;
	struct mpib_peer *p;

	mpib_loop_del(b->loop, &b->accept);
	close(b->fd);
	while ((s = LIST_FIRST(&b->strangers))) {
		mpib_link_close(s->link);
		free_stranger(s);
	}
	while ((p = TAILQ_FIRST(&b->peers))) {
		TAILQ_REMOVE(&b->peers, p, entry);
		mpib_timer_disarm(b->loop, &p->retry);
		if (p->link)
			mpib_link_close(p->link);
		free(p);
	}
}
