/* SPDX-License-Identifier: Apache-2.0 */
#include "peer/link.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "peer/codec.h"

/* Count silence in ticks of a timer, not by the clock, because this process can
 * be stopped for a while. In that time, the peer's bytes wait in the socket.
 * When this process continues, reading these bytes resets the count. */
#define TICK_NS MPIB_SEC
/* Send a PING if the peer was silent for 1/QUIET of the time limit. */
#define QUIET 4
/* Send no PING or PONG while more bytes than this are queued for the peer. */
#define SAY_LATER MPIB_FIFO_SMALL

/* A queue of more than MPIB_FIFO_SMALL bytes can hold at most 1/SHARE of the
 * free bytes: sum->most minus the bytes in all queues. Switches divide a shared
 * buffer between ports in the same way. If SHARE were smaller, a few queues
 * that fill one after another could use all the space. If SHARE were larger,
 * space would be wasted while only a few queues are in use. */
#define SHARE 8

void mpib_fifo_count(struct mpib_fifo *f, struct mpib_fifo_sum *sum)
{
	f->sum = sum;
	sum->waits += mpib_fifo_waits(f);
}

/* Return the current limit of a queue beyond MPIB_FIFO_SMALL bytes. */
static size_t fifo_share(const struct mpib_fifo_sum *sum)
{
	return sum->waits < sum->most ? (sum->most - sum->waits) / SHARE : 0;
}

bool mpib_fifo_room(const struct mpib_fifo *f, size_t n)
{
	size_t then = mpib_fifo_waits(f) + n;

	return then <= MPIB_OUTBOX_MAX && (!f->sum || then <= MPIB_FIFO_SMALL ||
					   then <= fifo_share(f->sum));
}

/* Subtract `n` bytes from the sum in which the queue is counted. */
static void fifo_less(const struct mpib_fifo *f, size_t n)
{
	if (!f->sum)
		return;
	assert(n <= f->sum->waits);
	f->sum->waits -= n;
}

static void fifo_to_front(struct mpib_fifo *f)
{
	size_t waits = mpib_fifo_waits(f);

	memmove(f->buf, f->buf + f->at, waits);
	f->at = 0;
	f->len = waits;
}

/* Shrink the memory to twice the waiting bytes. */
static void fifo_shrink(struct mpib_fifo *f)
{
	size_t cap = 2 * mpib_fifo_waits(f);
	uint8_t *less;

	fifo_to_front(f);
	less = realloc(f->buf, cap);
	if (!less)
		return;
	f->buf = less;
	f->cap = cap;
}

/* Extend the queue by `n` bytes and return their address. The caller must fill
 * these bytes. Return NULL if memory is short. */
static uint8_t *fifo_add(struct mpib_fifo *f, size_t n)
{
	size_t waits = mpib_fifo_waits(f);
	uint8_t *grown;

	if (f->len + n > f->cap && f->at > 0)
		fifo_to_front(f);
	if (f->len + n > f->cap) {
		grown = realloc(f->buf, 2 * (waits + n));
		if (!grown)
			return NULL;
		f->buf = grown;
		f->cap = 2 * (waits + n);
	}
	f->len += n;
	if (f->sum)
		f->sum->waits += n;
	return f->buf + f->len - n;
}

void mpib_fifo_fini(struct mpib_fifo *f)
{
	fifo_less(f, mpib_fifo_waits(f));
	free(f->buf);
	*f = (struct mpib_fifo){ .sum = f->sum };
}

/* Remove the oldest `n` bytes. */
static void fifo_take(struct mpib_fifo *f, size_t n)
{
	assert(n <= mpib_fifo_waits(f));
	fifo_less(f, n);
	f->at += n;
	if (f->at == f->len)
		f->at = f->len = 0;
	if (f->cap <= MPIB_FIFO_SMALL)
		return;
	if (f->len == 0)
		mpib_fifo_fini(f);
	else if (mpib_fifo_waits(f) < f->cap / 4)
		fifo_shrink(f);
}

static void free_link(struct mpib_link *l)
{
	if (l->gone)
		*l->gone = true;
	mpib_timer_disarm(l->loop, &l->tick);
	mpib_loop_del(l->loop, &l->watch);
	close(l->fd);
	mpib_fifo_fini(&l->out);
	free(l);
}

static void link_fail(struct mpib_link *l, const char *why)
{
	l->events->down(l->ctx, l, why);
	free_link(l);
}

/* Send as much as the socket accepts. Return the number of bytes sent, 0 if the
 * socket is full, or -errno. */
static ssize_t link_send_some(struct mpib_link *l)
{
	size_t waits = mpib_fifo_waits(&l->out);
	ssize_t n;

	if (waits == 0)
		return 0;
	n = send(l->fd, l->out.buf + l->out.at, waits,
		 MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	fifo_take(&l->out, (size_t)n);
	return n;
}

void mpib_link_close(struct mpib_link *link)
{
	/* Queued messages, such as a REFUSED, should still arrive. */
	if (!link->connecting)
		link_send_some(link);
	free_link(link);
}

static void watch_for(struct mpib_link *l, bool out)
{
	if (l->writing == out)
		return;
	l->writing = out;
	mpib_loop_mod(l->loop, &l->watch, EPOLLIN | (out ? EPOLLOUT : 0u));
}

/* Send the queued bytes. Return false if the link is gone. */
static bool link_flush(struct mpib_link *l)
{
	while (mpib_fifo_waits(&l->out) > 0) {
		ssize_t n = link_send_some(l);

		if (n == 0)
			return true;
		if (n < 0) {
			link_fail(l, strerror((int)-n));
			return false;
		}
	}
	watch_for(l, false);
	return true;
}

/* Queue a frame of `n` bytes. After the handshake, seal the frame. If the frame
 * does not fit into the queue, set l->overflow to the reason. */
static void link_put(struct mpib_link *l, const uint8_t *frame, size_t n)
{
	size_t sealed = n + (l->tx_seal.on ? MPIB_SEAL_BYTES : 0);
	uint8_t *to;

	if (!mpib_fifo_room(&l->out, sealed)) {
		l->overflow = "it does not read its messages";
		return;
	}
	to = fifo_add(&l->out, sealed);
	if (!to) {
		l->overflow = "no memory for messages to it";
		return;
	}
	memcpy(to, frame, n);
	if (l->tx_seal.on) {
		mpib_seal_close(&l->tx_seal, to + 4, n - 4, to + n);
		mpib_frame_set_len(to, sealed - 4);
	}
}

void mpib_link_send(struct mpib_link *link, const struct mpib_peer_msg *m)
{
	uint8_t frame[MPIB_PEER_FRAME_MAX];

	if (link->overflow)
		return;
	link_put(link, frame, mpib_peer_encode(m, frame));
	/* The caller does not expect a call of down() here. After the
	 * shutdown(), the loop reports a hang-up, and link_on_ready() calls
	 * down(). */
	if (link->overflow)
		shutdown(link->fd, SHUT_RDWR);
	if (!link->connecting)
		watch_for(link, true);
}

/* Send a PING or PONG, unless many bytes wait for the peer: those bytes show
 * that this end is alive. */
static void link_say(struct mpib_link *l, enum mpib_peer_type type)
{
	struct mpib_peer_msg m = { .type = type };

	if (mpib_fifo_waits(&l->out) <= SAY_LATER)
		mpib_link_send(l, &m);
}

/* Decode one frame without its length field. Return NULL, or the reason why the
 * link must end. */
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
	return l->error < 0 ? "it sent an invalid message" : NULL;
}

static void take_message(struct mpib_link *l, const struct mpib_peer_msg *m)
{
	/* Answer no PING before the link is up, because the caller has not
	 * proved its identity yet. */
	if (!l->up || (m->type != MPIB_PEER_PING && m->type != MPIB_PEER_PONG))
		l->events->message(l->ctx, l, m);
	else if (m->type == MPIB_PEER_PING)
		link_say(l, MPIB_PEER_PONG);
}

/* Handle the complete frames that were received. Return false if the link is
 * gone. */
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
		/* The handler can free the link. */
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

	if (l->overflow) {
		link_fail(l, l->overflow);
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
	if (l->up && l->silent > l->patience / QUIET)
		link_say(l, MPIB_PEER_PING);
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
	/* If `from` and `addr` are of different families, bind() would fail. So
	 * let the kernel choose the source address. If the peer does not expect
	 * a call from that address, the peer refuses the call with a reason. */
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
