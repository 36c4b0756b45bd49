/* SPDX-License-Identifier: Apache-2.0 */
/* The I/O engine for systems that refuse io_uring. It makes one system call per
 * operation. */
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "verbs/soft/ctx.h"
#include "verbs/soft/wire/soft_conn.h"

#define LISTEN_TAG UINT64_MAX
#define EVENTS 128

/* Watch the port once (one-shot): while the context does not accept, the port
 * must not wake threads. */
static int watch_port(struct soft_ctx *ctx, int op)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLONESHOT,
				  .data.u64 = LISTEN_TAG };

	if (epoll_ctl(ctx->epoll_fd, op, ctx->listen_fd, &ev) < 0)
		return -errno;
	ctx->listen_watched = true;
	return 0;
}

static int epoll_open(struct soft_ctx *ctx)
{
	int rc;

	ctx->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (ctx->epoll_fd < 0)
		return -errno;
	rc = watch_port(ctx, EPOLL_CTL_ADD);
	if (rc < 0) {
		close(ctx->epoll_fd);
		ctx->epoll_fd = -1;
	}
	return rc;
}

static void epoll_close(struct soft_ctx *ctx)
{
	close(ctx->epoll_fd);
	ctx->epoll_fd = -1;
}

static int epoll_get_fd(struct soft_ctx *ctx)
{
	return ctx->epoll_fd;
}

static int epoll_add(struct soft_ctx *ctx, int fd, uint32_t events,
		     uint64_t tag)
{
	struct epoll_event ev = { .events = events, .data.u64 = tag };

	return epoll_ctl(ctx->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

static void epoll_watch(struct soft_ctx *ctx)
{
	struct soft_conn *conn;

	if (soft_must_listen(ctx))
		watch_port(ctx, EPOLL_CTL_MOD);
	while ((conn = TAILQ_FIRST(&ctx->to_watch))) {
		uint64_t tag = (uint64_t)conn->gen << 32 | conn->id;

		/* epoll_add() fails only for lack of memory: try again in the
		 * next turn. */
		if (epoll_add(ctx, conn->fd,
			      EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
			      tag) < 0)
			return;
		TAILQ_REMOVE(&ctx->to_watch, conn, watch_link);
		conn->to_watch = false;
	}
}

static void epoll_readiness(struct soft_ctx *ctx)
{
	struct epoll_event ev[EVENTS];
	int n = epoll_wait(ctx->epoll_fd, ev, EVENTS, 0);

	for (int i = 0; i < n; i++) {
		struct soft_conn *conn;

		if (ev[i].data.u64 == LISTEN_TAG) {
			ctx->accept_ready = true;
			ctx->listen_watched = false;
			continue;
		}
		conn = soft_conn_find(ctx, (uint32_t)ev[i].data.u64,
				      (uint32_t)(ev[i].data.u64 >> 32));
		if (!conn)
			continue;
		if (ev[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
			conn->events |= SOFT_EV_END;
		if (ev[i].events & ~(uint32_t)EPOLLOUT) {
			conn->events |= SOFT_EV_IN;
			ctx->told = true;
		}
		if (ev[i].events & ~(uint32_t)EPOLLIN)
			conn->events |= SOFT_EV_OUT;
		soft_conn_ready(conn);
	}
}

void soft_ops_run(struct soft_ctx *ctx)
{
	for (unsigned i = 0; i < ctx->nops; i++) {
		struct soft_op *op = &ctx->ops[i];
		ssize_t n;

		if (op->conn->state == SOFT_CONN_DEAD)
			n = -ECANCELED;
		else if (op->tx)
			n = sendmsg(op->conn->fd, &op->msg,
				    MSG_DONTWAIT | MSG_NOSIGNAL);
		else
			n = recvmsg(op->conn->fd, &op->msg, MSG_DONTWAIT);
		op->res = n < 0 && op->conn->fd >= 0 ? -errno : (int)n;
	}
}

static void epoll_run(struct soft_ctx *ctx)
{
	soft_ops_run(ctx);
	epoll_watch(ctx);
	epoll_readiness(ctx);
}

static bool epoll_forget(struct soft_ctx *ctx, struct soft_conn *conn)
{
	/* Closing the fd has removed it from the epoll set. */
	(void)ctx;
	conn->watched = false;
	return true;
}

const struct soft_engine soft_engine_epoll = {
	.name = "epoll",
	.shared = true,
	.open = epoll_open,
	.close = epoll_close,
	.fd = epoll_get_fd,
	.run = epoll_run,
	.forget = epoll_forget,
};
