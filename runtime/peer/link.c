/* SPDX-License-Identifier: Apache-2.0 */
#include "peer/link.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/serial.h"

/* Silence is counted in ticks, not in time: if this process itself stood still,
 * the peer's bytes wait in the socket and reset the count. */
#define TICK_NS MPIB_SEC
/* An end asks a peer that is silent for this part of its patience. */
#define QUIET 4
/* Every so many messages the peer is told what arrived: it keeps the rest. */
#define TELL_EVERY 64
/* Bytes that wait for a peer which is told nothing more of that, nor asked: it
 * hears of us as soon as it reads. */
#define SAY_LATER MPIB_FIFO_SMALL

static void free_link(struct mpib_link *l)
{
	if (l->gone)
		*l->gone = true;
	mpib_timer_disarm(l->loop, &l->tick);
	mpib_loop_del(l->loop, &l->watch);
	close(l->fd);
	mpib_outbox_fini(&l->out);
	free(l);
}

static void link_fail(struct mpib_link *l, const char *why)
{
	if (l->closing)
		return;
	l->closing = true;
	l->events->down(l->ctx, l, why);
	free_link(l);
}

void mpib_link_close(struct mpib_link *link)
{
	/* What is queued, such as a REFUSED, should still arrive. */
	if (!link->connecting)
		mpib_outbox_send(&link->out, link->fd);
	free_link(link);
}

static void watch_for(struct mpib_link *l, bool out)
{
	if (l->writing == out)
		return;
	l->writing = out;
	mpib_loop_mod(l->loop, &l->watch, EPOLLIN | (out ? EPOLLOUT : 0u));
}

/* False: the link is gone. */
static bool link_flush(struct mpib_link *l)
{
	while (!mpib_outbox_empty(&l->out)) {
		ssize_t n = mpib_outbox_send(&l->out, l->fd);

		if (n == 0)
			return true;
		if (n < 0) {
			link_fail(l, strerror((int)-n));
			return false;
		}
		l->tx_bytes += (size_t)n;
	}
	watch_for(l, false);
	return true;
}

void mpib_link_send_frame(struct mpib_link *link, const uint8_t *frame,
			  size_t n)
{
	if (link->out.overflow)
		return;
	/* The caller does not expect down() now: the loop finds a hang-up. */
	if (!mpib_outbox_put(&link->out, &link->tx_seal, frame, n))
		shutdown(link->fd, SHUT_RDWR);
	if (!link->connecting)
		watch_for(link, true);
}

void mpib_link_send(struct mpib_link *link, const struct mpib_peer_msg *m)
{
	uint8_t frame[MPIB_PEER_FRAME_MAX];

	mpib_link_send_frame(link, frame, mpib_peer_encode(m, frame));
}

void mpib_link_say(struct mpib_link *l, enum mpib_peer_type type)
{
	struct mpib_peer_msg m = { .type = type, .seen = *l->seen };

	if (mpib_fifo_waits(&l->out.bytes) > SAY_LATER)
		return;
	l->told = m.seen;
	mpib_link_send(l, &m);
}

/* Decode one frame without its length. NULL, or why the link cannot go on. */
static const char *link_decode(struct mpib_link *l, uint8_t *body, size_t len,
			       struct mpib_peer_msg *m)
{
	if (l->rx_seal.on) {
		if (len <= MPIB_SEAL_BYTES)
			return "its message is not sealed";
		len -= MPIB_SEAL_BYTES;
		if (!mpib_seal_open(&l->rx_seal, body, len, body + len))
			return "its message is not sealed with the cluster's "
			       "key";
	}
	l->error = mpib_peer_decode(body, len, m);
	return l->error < 0 ? "it sent what is no message" : NULL;
}

static void take_message(struct mpib_link *l, const struct mpib_peer_msg *m)
{
	/* Who has proved nothing gets no answers, which would be kept. */
	if (!l->seen ||
	    (m->type != MPIB_PEER_PING && m->type != MPIB_PEER_PONG)) {
		if (l->seen && ++*l->seen - l->told >= TELL_EVERY)
			mpib_link_say(l, MPIB_PEER_PONG);
		l->events->message(l->ctx, l, m);
		return;
	}
	if (m->type == MPIB_PEER_PING)
		mpib_link_say(l, MPIB_PEER_PONG);
	l->events->acked(l->ctx, l, m->seen);
}

/* False: the link is gone. */
static bool take_frames(struct mpib_link *l)
{
	size_t at = 0;

	while (l->in_len - at >= 4) {
		uint32_t len = mpib_frame_len(l->in + at);
		struct mpib_peer_msg m;
		bool gone = false;
		const char *why;

		if (len < 1 || len > MPIB_PEER_FRAME_MAX - 4) {
			link_fail(l, "it sent a frame of an impossible length");
			return false;
		}
		if (l->in_len - at - 4 < len)
			break;
		why = link_decode(l, l->in + at + 4, len, &m);
		if (why) {
			link_fail(l, why);
			return false;
		}
		at += 4 + len;
		/* The handler may free the link. */
		l->gone = &gone;
		take_message(l, &m);
		if (gone)
			return false;
		l->gone = NULL;
	}
	memmove(l->in, l->in + at, l->in_len - at);
	l->in_len -= at;
	return true;
}

static bool link_receive(struct mpib_link *l)
{
	ssize_t n = recv(l->fd, l->in + l->in_len, sizeof(l->in) - l->in_len,
			 MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return true;
	if (n <= 0) {
		link_fail(l, n < 0 ? strerror(errno) : "it closed the link");
		return false;
	}
	l->in_len += (size_t)n;
	l->rx_bytes += (size_t)n;
	l->silent = 0;
	return take_frames(l);
}

static bool link_connected(struct mpib_link *l)
{
	socklen_t len = sizeof(int);
	bool gone = false;
	int err = 0;

	getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &err, &len);
	if (err) {
		l->error = -err;
		link_fail(l, strerror(err));
		return false;
	}
	l->connecting = false;
	l->gone = &gone;
	l->events->up(l->ctx, l);
	if (gone)
		return false;
	l->gone = NULL;
	return true;
}

static void link_on_ready(void *arg, uint32_t events)
{
	struct mpib_link *l = arg;

	if (l->out.overflow) {
		link_fail(l, l->out.overflow);
		return;
	}
	if (l->connecting && !link_connected(l))
		return;
	if (events & (EPOLLIN | EPOLLERR | EPOLLHUP) && !link_receive(l))
		return;
	link_flush(l);
}

static void link_on_tick(void *arg)
{
	struct mpib_link *l = arg;

	if (++l->silent >= l->patience) {
		char why[48];

		snprintf(why, sizeof(why), "no sign of life for %u s",
			 l->patience);
		link_fail(l, l->connecting ? "it does not answer" : why);
		return;
	}
	if (l->seen && l->silent > l->patience / QUIET)
		mpib_link_say(l, MPIB_PEER_PING);
	else if (l->seen && l->told != *l->seen)
		mpib_link_say(l, MPIB_PEER_PONG);
	mpib_timer_arm(l->loop, &l->tick, TICK_NS, link_on_tick, l);
}

void mpib_link_set_patience(struct mpib_link *link, unsigned silent,
			    unsigned unacked)
{
	unsigned ms = unacked * 1000;

	link->patience = silent;
	setsockopt(link->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
}

static int link_make(struct mpib_loop *loop, int fd, bool connecting,
		     const struct mpib_link_events *events, void *ctx,
		     struct mpib_link **link)
{
	struct mpib_link *l = calloc(1, sizeof(*l));
	int rc, one = 1;

	if (!l)
		return -ENOMEM;
	l->loop = loop;
	l->fd = fd;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	mpib_link_set_patience(l, MPIB_SILENCE_S, MPIB_SILENCE_S);
	l->connecting = l->writing = connecting;
	l->events = events;
	l->ctx = ctx;
	rc = mpib_loop_add(loop, &l->watch, fd,
			   EPOLLIN | (connecting ? EPOLLOUT : 0u),
			   link_on_ready, l);
	if (rc < 0) {
		free(l);
		return rc;
	}
	mpib_timer_arm(loop, &l->tick, TICK_NS, link_on_tick, l);
	*link = l;
	return 0;
}

/* Bytes of a message that has not arrived whole. */
static void link_input(struct mpib_serial *p, struct mpib_link *l)
{
	uint32_t n = (uint32_t)l->in_len;

	mpib_serial_count(p, &n, sizeof(l->in));
	mpib_serial_raw(p, l->in, n);
	if (!p->packing)
		l->in_len = n;
}

void mpib_link_serialize(struct mpib_serial *p, struct mpib_loop *loop,
			 struct mpib_link **link)
{
	int fd = p->packing ? (*link)->fd : -1;
	struct mpib_link *l;

	mpib_serial_mark(p, "link");
	mpib_serial_fd(p, &fd);
	if (!p->packing) {
		*link = NULL;
		if (p->failed ||
		    link_make(loop, fd, false, NULL, NULL, link) < 0) {
			mpib_serial_fail(p, "no memory for a link");
			if (fd >= 0)
				close(fd);
			return;
		}
	}
	l = *link;
	mpib_serial_raw(p, &l->addr, sizeof(l->addr));
	mpib_serial_text(p, l->label, sizeof(l->label));
	mpib_serial_u64(p, &l->tx_bytes);
	mpib_serial_u64(p, &l->rx_bytes);
	mpib_serial_u64(p, &l->told);
	mpib_seal_serialize(p, &l->tx_seal);
	mpib_seal_serialize(p, &l->rx_seal);
	link_input(p, l);
	mpib_outbox_serialize(p, &l->out);
	if (!p->packing)
		mpib_link_listen(l, false);
}

int mpib_link_listen(struct mpib_link *link, bool on)
{
	/* Watch for room to send only while listening. */
	link->writing = on && !mpib_outbox_empty(&link->out);
	return mpib_loop_mod(link->loop, &link->watch,
			     on ? EPOLLIN | (link->writing ? EPOLLOUT : 0u)
				: 0);
}

static void set_label(struct mpib_link *l, const struct sockaddr_storage *sa)
{
	uint16_t port = mpib_address_take(sa, &l->addr);

	mpib_address_text(&l->addr, port, l->label, sizeof(l->label));
}

int mpib_link_connect(struct mpib_loop *loop, const struct in6_addr *from,
		      const struct in6_addr *addr, uint16_t port,
		      const struct mpib_link_events *events, void *ctx,
		      struct mpib_link **link)
{
	struct sockaddr_storage src, dst;
	socklen_t len = mpib_address_socket(addr, port, &dst);
	int fd = socket(dst.ss_family,
			SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int rc;

	if (fd < 0)
		return -errno;
	/* From an address of the other family: the kernel chooses, and the peer
	 * says that it calls from where it is not. */
	if (from && mpib_address_socket(from, 0, &src) == len &&
	    bind(fd, (struct sockaddr *)&src, len) < 0) {
		rc = -errno;
		goto err_close;
	}
	if (connect(fd, (struct sockaddr *)&dst, len) < 0 &&
	    errno != EINPROGRESS) {
		rc = -errno;
		goto err_close;
	}
	rc = link_make(loop, fd, true, events, ctx, link);
	if (rc < 0)
		goto err_close;
	set_label(*link, &dst);
	return 0;

err_close:
	close(fd);
	return rc;
}

int mpib_link_accept(struct mpib_loop *loop, int fd,
		     const struct mpib_link_events *events, void *ctx,
		     struct mpib_link **link)
{
	struct sockaddr_storage sa = { 0 };
	socklen_t len = sizeof(sa);
	int rc = link_make(loop, fd, false, events, ctx, link);

	if (rc < 0)
		return rc;
	if (getpeername(fd, (struct sockaddr *)&sa, &len) == 0)
		set_label(*link, &sa);
	return 0;
}
