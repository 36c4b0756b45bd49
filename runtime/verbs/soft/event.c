/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asynchronous events. An object holds a bit for each event type that waits, so
 * raising an event allocates nothing. async_fd is a semaphore (EFD_SEMAPHORE)
 * that counts the bits. Who has read a count and not yet looked may find that its
 * object was destroyed: what is counted and what such readers have are together
 * the bits and the counts that are stray.
 */
#include "verbs/soft/event.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "verbs/soft/cq.h"
#include "verbs/soft/ctx.h"
#include "verbs/soft/qp.h"
#include "verbs/soft/srq.h"

static void async_fd_post(struct soft_ctx *ctx)
{
	/* Cannot fail below 2^64 - 2 unread events. */
	eventfd_write(ctx->vctx.context.async_fd, 1);
}

unsigned soft_uncount(int fd, unsigned n)
{
	uint64_t one;
	struct iovec iov = { &one, sizeof(one) };

	while (n && preadv2(fd, &iov, 1, -1, RWF_NOWAIT) > 0)
		n--;
	return n;
}

void soft_event(struct soft_ctx *ctx, struct soft_events *ev,
		enum ibv_event_type type)
{
	pthread_mutex_lock(&ctx->ev_lock);
	if (!(ev->pending & 1u << type)) {
		if (!ev->pending)
			TAILQ_INSERT_TAIL(&ctx->events, ev, link);
		ev->pending |= 1u << type;
		async_fd_post(ctx);
	}
	pthread_mutex_unlock(&ctx->ev_lock);
}

/*
 * The port goes down and up in turn, so counting its events is enough: they are
 * delivered as PORT_ERR, PORT_ACTIVE, PORT_ERR...
 */
void soft_port_event(struct soft_ctx *ctx)
{
	pthread_mutex_lock(&ctx->ev_lock);
	if (!ctx->port_toggles++) {
		ctx->port_ev.pending = 1u << IBV_EVENT_PORT_ERR;
		TAILQ_INSERT_TAIL(&ctx->events, &ctx->port_ev, link);
	}
	async_fd_post(ctx);
	pthread_mutex_unlock(&ctx->ev_lock);
}

static void take_port(struct soft_ctx *ctx, struct ibv_async_event *out)
{
	ctx->port_told_down = !ctx->port_told_down;
	out->element.port_num = 1;
	out->event_type = ctx->port_told_down ? IBV_EVENT_PORT_ERR
					      : IBV_EVENT_PORT_ACTIVE;
	if (!--ctx->port_toggles) {
		ctx->port_ev.pending = 0;
		TAILQ_REMOVE(&ctx->events, &ctx->port_ev, link);
	}
}

static void take_object(struct soft_ctx *ctx, struct soft_events *ev,
			struct ibv_async_event *out)
{
	unsigned type = (unsigned)__builtin_ctz(ev->pending);

	out->event_type = (enum ibv_event_type)type;
	/* element is a union of pointers: setting one member sets all. */
	out->element.qp = ev->element;
	ev->pending &= ev->pending - 1;
	ev->taken++;
	if (!ev->pending)
		TAILQ_REMOVE(&ctx->events, ev, link);
}

/* Whether DEVICE_FATAL and all else were told, so nothing comes any more. Others
 * than verbs programs, which have the threaded mode, ask when the descriptor says
 * so, and not for an end. */
static bool all_is_told(const struct soft_ctx *ctx)
{
	return ctx->threaded && ctx->gone_ev.taken && TAILQ_EMPTY(&ctx->events);
}

/* The caller has read a count. Whose event it was; NULL: that was destroyed. */
static struct soft_events *take_event(struct soft_ctx *ctx,
				      struct ibv_async_event *out)
{
	struct soft_events *ev = TAILQ_FIRST(&ctx->events);

	if (ctx->stray_counts) {
		ctx->stray_counts--;
		return NULL;
	}
	if (ev == &ctx->port_ev)
		take_port(ctx, out);
	else if (ev)
		take_object(ctx, ev, out);
	return ev;
}

/* 0: *ev, or NULL and another count is to be read; -errno. */
static int await_event(struct soft_ctx *ctx, struct soft_events **ev,
		       struct ibv_async_event *out)
{
	uint64_t one;
	int rc = 0;

	pthread_mutex_lock(&ctx->ev_lock);
	if (all_is_told(ctx))
		rc = -EIO;
	else
		ctx->event_waiters++;
	pthread_mutex_unlock(&ctx->ev_lock);
	if (rc < 0)
		return rc;
	if (read(ctx->vctx.context.async_fd, &one, sizeof(one)) < 0)
		rc = -errno;
	pthread_mutex_lock(&ctx->ev_lock);
	ctx->event_waiters--;
	if (rc == 0) {
		*ev = take_event(ctx, out);
		/* Who waits, too, is to hear that nothing comes. */
		if (ctx->event_waiters && all_is_told(ctx))
			async_fd_post(ctx);
	}
	pthread_mutex_unlock(&ctx->ev_lock);
	return rc;
}

int soft_get_async_event(struct ibv_context *c, struct ibv_async_event *out)
{
	struct soft_ctx *ctx = to_ctx(c);
	struct soft_events *ev = NULL;
	int rc = ctx->foreign ? -EIO : 0;

	while (rc == 0 && !ev)
		rc = await_event(ctx, &ev, out);
	return rc;
}

static struct soft_events *events_of(struct ibv_async_event *ev)
{
	switch (ev->event_type) {
	case IBV_EVENT_CQ_ERR:
		return &to_cq(ev->element.cq)->ev;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return &to_srq(ev->element.srq)->ev;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return &to_qp(ev->element.qp)->ev;
	default:
		return NULL;
	}
}

void soft_ack_async_event(struct ibv_async_event *event)
{
	struct soft_events *ev = events_of(event);
	struct soft_ctx *ctx;

	if (!ev)
		return;
	/* ibv_qp, ibv_cq and ibv_srq all begin with context. */
	ctx = to_ctx(event->element.qp->context);
	pthread_mutex_lock(&ctx->ev_lock);
	ev->acked++;
	pthread_cond_broadcast(&ctx->ev_cond);
	pthread_mutex_unlock(&ctx->ev_lock);
}

void soft_events_drain(struct soft_ctx *ctx, struct soft_events *ev)
{
	pthread_mutex_lock(&ctx->ev_lock);
	if (ev->pending)
		TAILQ_REMOVE(&ctx->events, ev, link);
	/* After fork() what is counted is the parent's. */
	if (!ctx->foreign)
		ctx->stray_counts +=
			soft_uncount(ctx->vctx.context.async_fd,
				     (unsigned)__builtin_popcount(ev->pending));
	ev->pending = 0;
	while (!ctx->foreign && ev->taken != ev->acked)
		pthread_cond_wait(&ctx->ev_cond, &ctx->ev_lock);
	pthread_mutex_unlock(&ctx->ev_lock);
}
