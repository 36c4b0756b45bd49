/* SPDX-License-Identifier: Apache-2.0 */
/* The listening sockets of the peer link, and a limit on callers that have not
 * proved anything yet. Control thread. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "peer/internal.h"

/* Callers that have not proved anything, in all and from one address. */
#define PENDING_PEERS_MAX 256u
#define PENDING_OF_ONE_MAX 64u

static void on_patience_end(void *arg)
{
	mpib_hello_drop(arg);
}

/* Too many callers are pending, from this address or in all: drop the oldest of
 * them. */
static void make_room(struct mpib_door *d, const struct in6_addr *addr)
{
	struct mpib_pending_peer *s, *oldest = NULL, *of_one = NULL;
	unsigned n = 0;

	TAILQ_FOREACH(s, &d->broker->pending_peers, entry)
	{
		if (s->door != d)
			continue;
		if (!oldest)
			oldest = s;
		if (!mpib_address_same(&s->link->addr, addr))
			continue;
		if (!of_one)
			of_one = s;
		n++;
	}
	if (n >= PENDING_OF_ONE_MAX)
		mpib_hello_drop(of_one);
	else if (d->callers >= PENDING_PEERS_MAX)
		mpib_hello_drop(oldest);
}

static void door_on_accept(void *arg, int fd)
{
	struct mpib_door *d = arg;
	struct mpib_broker *b = d->broker;
	struct mpib_pending_peer *s;

	s = calloc(1, sizeof(*s));
	if (!s || mpib_link_accept(b->loop, fd, &mpib_hello_events, s,
				   &s->link) < 0) {
		free(s);
		close(fd);
		return;
	}
	s->broker = b;
	s->door = d;
	make_room(d, &s->link->addr);
	mpib_link_set_patience(s->link, b->silence_s, b->silence_s);
	TAILQ_INSERT_TAIL(&b->pending_peers, s, entry);
	d->callers++;
	mpib_timer_arm(b->loop, &s->timer, MPIB_GREETING_NS, on_patience_end,
		       s);
}

/* Accept callers on the listening sockets. 0 or -errno. */
static int door_accept(struct mpib_broker *b)
{
	int rc = 0;

	for (unsigned i = 0; i < MPIB_DOORS && rc == 0; i++) {
		struct mpib_door *d = &b->door[i];

		if (d->fd < 0)
			continue;
		d->acceptor = (struct mpib_acceptor){
			.loop = b->loop,
			.fd = d->fd,
			.a_second = MPIB_ACCEPTS_A_SECOND,
			.who = "a caller of the peer link",
			.fn = door_on_accept,
			.arg = d,
		};
		rc = mpib_acceptor_open(&d->acceptor);
	}
	return rc;
}

static void door_close(struct mpib_door *d)
{
	mpib_acceptor_close(&d->acceptor);
	if (d->fd >= 0)
		close(d->fd);
	d->fd = -1;
}

/* Listen on *addr and *port, and set both to the address actually used. */
static int door_open(struct mpib_door *d, struct in6_addr *addr, uint16_t *port,
		     char *why, size_t why_len)
{
	struct sockaddr_storage sa;
	socklen_t len = mpib_address_socket(addr, *port, &sa);
	char text[MPIB_ADDRESS_MAX];
	int one = 1, rc;

	d->fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
		       0);
	if (d->fd < 0) {
		rc = -errno;
		snprintf(why, why_len, "peer link: no socket: %s",
			 strerror(-rc));
		return rc;
	}
	setsockopt(d->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(d->fd, (struct sockaddr *)&sa, len) < 0 ||
	    listen(d->fd, 4096) < 0 ||
	    getsockname(d->fd, (struct sockaddr *)&sa, &len) < 0) {
		rc = -errno;
		snprintf(why, why_len, "it cannot listen on %s: %s",
			 mpib_address_text(addr, *port, text, sizeof(text)),
			 strerror(-rc));
		close(d->fd);
		d->fd = -1;
		return rc;
	}
	*port = mpib_address_take(&sa, addr);
	return 0;
}

static void open_second(struct mpib_broker *b)
{
	char why[200];

	if (IN6_IS_ADDR_UNSPECIFIED(&b->second) ||
	    door_open(&b->door[1], &b->second, &b->self.port, why,
		      sizeof(why)) == 0)
		return;
	mpib_warn("peer link: no second address, %s (it fails with its first)",
		  why);
	b->second = in6addr_any;
}

int mpib_hello_listen(struct mpib_broker *b, char *why, size_t why_len)
{
	int rc = door_open(&b->door[0], &b->self.addr, &b->self.port, why,
			   why_len);

	if (rc < 0)
		return rc;
	open_second(b);
	rc = door_accept(b);
	if (rc < 0) {
		snprintf(why, why_len, "peer link: %s", strerror(-rc));
		mpib_hello_close(b);
	}
	return rc;
}

void mpib_hello_close(struct mpib_broker *b)
{
	for (unsigned i = 0; i < MPIB_DOORS; i++)
		door_close(&b->door[i]);
	while (!TAILQ_EMPTY(&b->pending_peers))
		mpib_hello_drop(TAILQ_FIRST(&b->pending_peers));
}
