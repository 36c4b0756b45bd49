/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The port of a context. Whoever can reach it may connect as often as he likes,
 * and each connection costs the thread that turns the context some 12 us, so what
 * it accepts is bounded: in one turn, and over time. While more come than that,
 * the engine does not watch the port.
 */
#include <errno.h>
#include <netinet/in.h>
#include <unistd.h>

#include "base/rate.h"
#include "verbs/soft/ctx.h"
#include "verbs/soft/wire/conn.h"

#define A_TURN SOFT_ACCEPTS_A_TURN
#define AT_ONCE SOFT_ACCEPTS_AT_ONCE
#define AGAIN (10 * SOFT_MS)

static int try_slot(struct soft_ctx *ctx, unsigned slot)
{
	struct sockaddr_in sa = soft_address(ctx->addr, ctx->port_base + slot);
	int one = 1, rc;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	/* Bind even if connections of a former owner of the port linger. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 ||
	    listen(fd, 1024) < 0) {
		rc = -errno;
		close(fd);
		return rc;
	}
	return fd;
}

int soft_listen(struct soft_ctx *ctx)
{
	for (unsigned slot = 0; slot < 256; slot++) {
		int fd = try_slot(ctx, slot);

		if (fd == -EADDRNOTAVAIL)
			return -ENODEV;
		if (fd == -EADDRINUSE)
			continue;
		if (fd < 0)
			return fd;
		ctx->listen_fd = fd;
		ctx->slot = (uint8_t)slot;
		return 0;
	}
	return -EADDRINUSE;
}

static bool is_shortage(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOBUFS ||
	       error == ENOMEM;
}

/* Take no more for now; the kernel keeps those that come meanwhile. */
static void accept_later(struct soft_ctx *ctx, uint64_t at)
{
	ctx->accept_ready = false;
	ctx->accept_at = at;
}

static void accept_one(struct soft_ctx *ctx, int fd, struct in_addr peer)
{
	struct soft_conn *conn;

	soft_tune(fd, ctx->addr, peer);
	soft_conn_make_room(ctx, peer.s_addr);
	conn = soft_conn_new(ctx, fd, SOFT_CONN_ASKED);
	if (conn)
		conn->from = peer.s_addr;
	else
		close(fd);
}

void soft_accept(struct soft_ctx *ctx)
{
	const uint64_t ahead = (AT_ONCE - A_TURN) * SOFT_ACCEPT_EVERY;
	uint64_t now = mpib_now_ns();
	uint64_t wait = mpib_rate_wait(ctx->accept_paid, now, ahead);

	if (wait > 0) {
		accept_later(ctx, now + wait);
		return;
	}
	for (unsigned i = 0; i < A_TURN; i++) {
		struct sockaddr_in peer;
		socklen_t len = sizeof(peer);
		int fd = accept4(ctx->listen_fd, (struct sockaddr *)&peer, &len,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0 && errno == EAGAIN) {
			ctx->accept_ready = false;
			return;
		}
		/* No descriptor or memory: the connection stays in the backlog. */
		if (fd < 0 && is_shortage(errno)) {
			accept_later(ctx, now + AGAIN);
			return;
		}
		mpib_rate_pay(&ctx->accept_paid, now, SOFT_ACCEPT_EVERY);
		/* Else this connection ended before it was accepted. */
		if (fd >= 0)
			accept_one(ctx, fd, peer.sin_addr);
	}
}
