/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The io_uring engine. Multishot polls watch the sockets. The polls stay in the
 * ring and cost nothing while idle. Sends and receives never wait
 * (MSG_DONTWAIT), so they are complete when the io_uring_enter() that submits
 * them returns. So one system call serves all ready QPs and leaves no operation
 * in the kernel. If a turn finds sockets readable, it makes a second call to
 * read them.
 *
 * Sleepers wait on an eventfd of the ring, because deferred task work does not
 * wake the ring's own fd. The eventfd is disabled while there are no sleepers.
 *
 * A single-issuer ring belongs to the thread that makes the first turn. When
 * another thread makes a turn, a plain ring replaces this ring. Only the polls
 * of the old ring are lost, and the new ring gets them again. If memory or
 * descriptors are short, run_without() makes plain system calls and treats
 * every socket as ready.
 */
#include "verbs/soft/wire/soft_conn.h"

#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "verbs/soft/cq.h"
#include "verbs/soft/ctx.h"

#define SQ_ENTRIES 256
#define CQ_ENTRIES 4096
#define ENTER_TRIES 1000

/* Bits of user_data: kind 8 | gen of the conn 24 | id 32. */
enum {
	TAG_OP = 1,
	TAG_CONN,
	TAG_LISTEN,
	TAG_IGNORE
};

struct soft_uring {
	struct io_uring ring;
	bool lost; /* there is no ring */
	bool enabled;
	int event_fd;
	bool audible; /* event_fd is enabled */
};

static uint64_t ring_tag(unsigned kind, uint32_t gen, uint32_t id)
{
	return (uint64_t)kind << 56 | (uint64_t)gen << 32 | id;
}

static int ring_init(struct soft_uring *u, bool deferred)
{
	struct io_uring_params p = {
		.flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP,
		.cq_entries = CQ_ENTRIES,
	};
	int rc;

	if (deferred)
		p.flags |= IORING_SETUP_SINGLE_ISSUER |
			   IORING_SETUP_DEFER_TASKRUN |
			   IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_R_DISABLED;
	rc = io_uring_queue_init_params(SQ_ENTRIES, &u->ring, &p);
	if (rc < 0)
		return rc;
	u->enabled = !deferred;
	u->audible = true;
	rc = p.features & IORING_FEAT_NODROP
		     ? io_uring_register_eventfd(&u->ring, u->event_fd)
		     : -ENOSYS;
	if (rc < 0)
		io_uring_queue_exit(&u->ring);
	return rc;
}

static int uring_open(struct soft_ctx *ctx)
{
	int rc;

	ctx->uring = calloc(1, sizeof(*ctx->uring));
	if (!ctx->uring)
		return -ENOMEM;
	ctx->uring->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ctx->uring->event_fd < 0) {
		rc = -errno;
		goto err_free;
	}
	rc = ring_init(ctx->uring, true);
	if (rc < 0)
		rc = ring_init(ctx->uring, false);
	if (rc == 0)
		return 0;

	close(ctx->uring->event_fd);
err_free:
	free(ctx->uring);
	ctx->uring = NULL;
	return rc;
}

static void uring_close(struct soft_ctx *ctx)
{
	if (!ctx->uring)
		return;
	if (!ctx->uring->lost)
		io_uring_queue_exit(&ctx->uring->ring);
	close(ctx->uring->event_fd);
	free(ctx->uring);
	ctx->uring = NULL;
}

static int uring_fd(struct soft_ctx *ctx)
{
	return ctx->uring->event_fd;
}

static struct io_uring_sqe *get_sqe(struct soft_ctx *ctx)
{
	return io_uring_get_sqe(&ctx->uring->ring);
}

static bool prep_poll(struct soft_ctx *ctx, int fd, unsigned mask, bool many,
		      uint64_t t)
{
	struct io_uring_sqe *sqe = get_sqe(ctx);

	if (!sqe)
		return false;
	io_uring_prep_poll_add(sqe, fd, mask);
	sqe->len = many ? IORING_POLL_ADD_MULTI : 0;
	io_uring_sqe_set_data64(sqe, t);
	return true;
}

static void uring_watch(struct soft_ctx *ctx)
{
	struct soft_conn *conn;

	/* Watch the port once (one-shot): while the context does not accept,
	 * the port must not wake threads. */
	if (soft_must_listen(ctx))
		ctx->listen_watched =
			prep_poll(ctx, ctx->listen_fd, POLLIN, false,
				  ring_tag(TAG_LISTEN, 0, 0));
	while ((conn = TAILQ_FIRST(&ctx->to_watch))) {
		if (!prep_poll(ctx, conn->fd, POLLIN | POLLOUT | POLLRDHUP,
			       true, ring_tag(TAG_CONN, conn->gen, conn->id)))
			return;
		TAILQ_REMOVE(&ctx->to_watch, conn, watch_link);
		conn->to_watch = false;
		conn->watched = true;
	}
}

static bool uring_forget(struct soft_ctx *ctx, struct soft_conn *conn)
{
	struct io_uring_sqe *sqe = ctx->uring->lost ? NULL : get_sqe(ctx);

	if (!sqe)
		return ctx->uring->lost;
	io_uring_prep_poll_remove(sqe, ring_tag(TAG_CONN, conn->gen, conn->id));
	io_uring_sqe_set_data64(sqe, ring_tag(TAG_IGNORE, 0, 0));
	conn->watched = false;
	return true;
}

/* Give up the ring. Operations that the ring has not started still have the
 * result -EINTR and are tried again. */
static void lose_ring(struct soft_ctx *ctx)
{
	io_uring_queue_exit(&ctx->uring->ring);
	ctx->uring->lost = true;
}

/* Create a plain ring and add all polls again. False: memory or descriptors are
 * short. */
static bool replace_ring(struct soft_ctx *ctx)
{
	struct soft_channel *ch;
	struct soft_uring fresh = { .event_fd = ctx->uring->event_fd };

	if (ring_init(&fresh, false) < 0)
		return false;
	*ctx->uring = fresh;
	ctx->listen_watched = false;
	for (uint32_t i = 0; i < ctx->conn_size; i++) {
		struct soft_conn *conn = ctx->conn_tab[i];

		if (!conn || !conn->watched)
			continue;
		conn->watched = false;
		if (conn->state != SOFT_CONN_DEAD)
			soft_conn_watch(conn);
	}
	LIST_FOREACH(ch, &ctx->channels, link)
	soft_sleep_fds(ctx, ch->ibv.fd);
	if (ctx->threaded)
		soft_sleep_fds(ctx, ctx->sleep_fd);
	return true;
}

/* Make a turn without a ring: treat every socket as ready. */
static void run_without(struct soft_ctx *ctx)
{
	soft_ops_run(ctx);
	ctx->accept_ready = true;
	for (uint32_t i = 0; i < ctx->conn_size; i++) {
		struct soft_conn *conn = ctx->conn_tab[i];

		if (!conn || conn->state == SOFT_CONN_DEAD)
			continue;
		conn->events |= SOFT_EV_IN | SOFT_EV_OUT;
		soft_conn_ready(conn);
	}
}

static void on_conn(struct soft_ctx *ctx, const struct io_uring_cqe *cqe)
{
	struct soft_conn *conn;

	conn = soft_conn_find(ctx, (uint32_t)cqe->user_data,
			      (uint32_t)(cqe->user_data >> 32) & 0xffffff);
	if (!conn)
		return;
	if (!(cqe->flags & IORING_CQE_F_MORE)) {
		conn->watched = false;
		soft_conn_watch(conn);
	}
	if (cqe->res & (POLLRDHUP | POLLHUP | POLLERR))
		conn->events |= SOFT_EV_END;
	if (cqe->res & ~POLLOUT) {
		conn->events |= SOFT_EV_IN;
		ctx->told = true;
	}
	if (cqe->res & ~POLLIN)
		conn->events |= SOFT_EV_OUT;
	soft_conn_ready(conn);
}

static unsigned uring_reap(struct soft_ctx *ctx)
{
	struct io_uring_cqe *cqe;
	unsigned head, n = 0, ops = 0;

	io_uring_for_each_cqe(&ctx->uring->ring, head, cqe)
	{
		n++;
		switch (cqe->user_data >> 56) {
		case TAG_OP:
			ctx->ops[(uint32_t)cqe->user_data].res = cqe->res;
			ops++;
			break;
		case TAG_CONN:
			on_conn(ctx, cqe);
			break;
		case TAG_LISTEN:
			ctx->accept_ready = true;
			ctx->listen_watched = false;
			break;
		}
	}
	io_uring_cq_advance(&ctx->uring->ring, n);
	return ops;
}

static unsigned prep_ops(struct soft_ctx *ctx)
{
	unsigned n = 0;

	for (unsigned i = 0; i < ctx->nops; i++) {
		struct soft_op *op = &ctx->ops[i];
		struct io_uring_sqe *sqe = NULL;

		/* Until the operation completes, its result means "try
		 * again". */
		op->res = -EINTR;
		if (op->conn->state != SOFT_CONN_DEAD)
			sqe = get_sqe(ctx);
		if (!sqe)
			continue;
		if (op->tx)
			io_uring_prep_sendmsg(sqe, op->conn->fd, &op->msg,
					      MSG_DONTWAIT | MSG_NOSIGNAL);
		else
			io_uring_prep_recvmsg(sqe, op->conn->fd, &op->msg,
					      MSG_DONTWAIT);
		io_uring_sqe_set_data64(sqe, ring_tag(TAG_OP, 0, i));
		n++;
	}
	return n;
}

static bool must_enter(struct soft_uring *u)
{
	unsigned flags;

	if (io_uring_sq_ready(&u->ring))
		return true;
	/* Relaxed: the next turn sees work that appears at this moment. */
	flags = __atomic_load_n(u->ring.sq.kflags, __ATOMIC_RELAXED);
	return flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW);
}

static int uring_enter(struct soft_uring *u)
{
	int rc;

	if (!u->enabled) {
		/* liburing 2.3 declares io_uring_enable_rings() but does not
		 * export it. */
		rc = (int)syscall(__NR_io_uring_register, u->ring.ring_fd,
				  IORING_REGISTER_ENABLE_RINGS, NULL, 0);
		if (rc < 0)
			return -errno;
		u->enabled = true;
	}
	return io_uring_submit_and_get_events(&u->ring);
}

/* Enable the eventfd if there are sleepers. Call this before must_enter() reads
 * the flags, so that task work that is added later signals the eventfd. */
static void listen_for_sleep(struct soft_ctx *ctx)
{
	struct soft_uring *u = ctx->uring;
	bool asleep = atomic_load(&ctx->sleepers) > 0;
	eventfd_t n;

	if (u->audible)
		eventfd_read(u->event_fd, &n);
	if (asleep == u->audible)
		return;
	u->audible = asleep;
	io_uring_cq_eventfd_toggle(&u->ring, asleep);
	/* Pairs with the kernel's io_eventfd_signal(). The kernel adds work and
	 * then reads the eventfd's flag. This thread sets the flag and then, in
	 * must_enter(), checks for work. In C11 an atomic exchange is not a
	 * full fence, and a build with ThreadSanitizer rejects
	 * io_uring_smp_mb(). */
	__sync_synchronize();
}

/* Submit ctx->ops and complete them. False: none was submitted, and the ring is
 * unusable. */
static bool uring_turn(struct soft_ctx *ctx)
{
	struct soft_uring *u = ctx->uring;
	unsigned want, got = 0, tries = 0;
	int rc;

	uring_watch(ctx);
	want = prep_ops(ctx);
	if (must_enter(u)) {
		rc = uring_enter(u);
		/* -EEXIST: the ring belongs to another thread, and nothing was
		 * submitted. */
		if (rc < 0 && rc != -EINTR && rc != -EAGAIN && rc != -EBUSY)
			return false;
	}
	got += uring_reap(ctx);
	/* Sends and receives do not wait, so all that the kernel accepted have
	 * completed. The kernel may have refused some for lack of memory or of
	 * room for completions. Submit the refused ones again now, because no
	 * operation may use the iovecs after this turn. */
	while (got < want && tries++ < ENTER_TRIES) {
		uring_enter(u);
		got += uring_reap(ctx);
	}
	if (got < want)
		lose_ring(ctx);
	return true;
}

/* Run the turn. If the ring submits nothing, replace the ring. The operations
 * that were prepared in the old ring are then discarded. */
static void uring_run(struct soft_ctx *ctx)
{
	if (!ctx->uring->lost)
		listen_for_sleep(ctx);
	for (int i = 0; i < 2; i++) {
		if (ctx->uring->lost && !replace_ring(ctx))
			break;
		if (uring_turn(ctx))
			return;
		lose_ring(ctx);
	}
	run_without(ctx);
}

const struct soft_engine soft_engine_uring = {
	.name = "io_uring",
	.open = uring_open,
	.close = uring_close,
	.fd = uring_fd,
	.run = uring_run,
	.forget = uring_forget,
};
