/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion channels. The fd of a channel is an epoll set of all fds that wake
 * the channel's owner thread: for completion events, sockets with work, due
 * timers, and kicks from other threads. In threaded mode the fd is a semaphore
 * that counts completion events, and the context's thread handles everything
 * else. A blocking read of the fd behaves as with libibverbs: a signal ends the
 * wait only if its handler was installed without SA_RESTART.
 */
#include "verbs/soft/cq.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "verbs/soft/ctx.h"
#include "verbs/soft/qp.h"

static int channel_watch(int epfd, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	return epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

static bool is_semaphore(const struct soft_channel *ch)
{
	return ch->event_fd == ch->ibv.fd;
}

static int channel_open(struct soft_channel *ch, bool threaded)
{
	int rc;

	ch->event_fd = eventfd(
		0, EFD_CLOEXEC | (threaded ? EFD_SEMAPHORE : EFD_NONBLOCK));
	if (ch->event_fd < 0)
		return -errno;
	ch->ibv.fd = threaded ? ch->event_fd : epoll_create1(EPOLL_CLOEXEC);
	rc = ch->ibv.fd < 0 ? -errno : 0;
	if (!threaded && rc == 0)
		rc = channel_watch(ch->ibv.fd, ch->event_fd);
	return rc;
}

static void channel_free(struct soft_channel *ch)
{
	if (ch->event_fd >= 0 && !is_semaphore(ch))
		close(ch->event_fd);
	if (ch->ibv.fd >= 0)
		close(ch->ibv.fd);
	pthread_mutex_destroy(&ch->lock);
	free(ch);
}

/* Add the channel to its context. If the device is gone, return -EIO: nothing
 * would wake the threads of a channel that was added after
 * soft_channels_die(). */
static int channel_join(struct soft_ctx *ctx, struct soft_channel *ch)
{
	int rc = 0;

	soft_lock(ctx);
	if (soft_is_gone(ctx)) {
		rc = -EIO;
	} else {
		if (!ctx->threaded)
			soft_sleep_fds(ctx, ch->ibv.fd);
		ctx->nchannels++;
		LIST_INSERT_HEAD(&ctx->channels, ch, link);
	}
	soft_unlock(ctx);
	return rc;
}

int soft_create_channel(struct ibv_context *c, struct ibv_comp_channel **out)
{
	struct soft_ctx *ctx = to_ctx(c);
	struct soft_channel *ch = calloc(1, sizeof(*ch));
	int rc;

	if (!ch)
		return -ENOMEM;
	ch->ibv.context = c;
	ch->ibv.fd = -1;
	TAILQ_INIT(&ch->queue);
	pthread_mutex_init(&ch->lock, NULL);
	rc = channel_open(ch, ctx->threaded);
	if (rc == 0)
		rc = channel_join(ctx, ch);
	if (rc < 0) {
		channel_free(ch);
		return rc;
	}
	*out = &ch->ibv;
	return 0;
}

int soft_destroy_channel(struct ibv_comp_channel *c)
{
	struct soft_ctx *ctx = to_ctx(c->context);
	struct soft_channel *ch = (struct soft_channel *)c;

	soft_lock(ctx);
	if (c->refcnt) {
		soft_unlock(ctx);
		return -EBUSY;
	}
	ctx->nchannels--;
	LIST_REMOVE(ch, link);
	soft_unlock(ctx);
	channel_free(ch);
	return 0;
}

void soft_channel_push(struct soft_channel *ch, struct soft_cq *cq)
{
	pthread_mutex_lock(&ch->lock);
	if (!cq->ch_pending++)
		TAILQ_INSERT_TAIL(&ch->queue, cq, ch_link);
	/* The write fails only after 2^64 - 2 unread events. */
	eventfd_write(ch->event_fd, 1);
	pthread_mutex_unlock(&ch->lock);
}

/* Keep event_fd readable if and only if an event is pending. */
static void eventfd_drain(struct soft_channel *ch)
{
	eventfd_t n;

	if (!is_semaphore(ch) && TAILQ_EMPTY(&ch->queue))
		eventfd_read(ch->event_fd, &n);
}

void soft_channels_die(struct soft_ctx *ctx)
{
	struct soft_channel *ch;

	/* Wake only threads that wait in read(). Threads that make turns notice
	 * the loss in their next turn. */
	LIST_FOREACH(ch, &ctx->channels, link)
	if (is_semaphore(ch))
		eventfd_write(ch->event_fd, 1);
}

void soft_channel_forget(struct soft_channel *ch, struct soft_cq *cq)
{
	uint32_t taken;

	pthread_mutex_lock(&ch->lock);
	if (cq->ch_pending)
		TAILQ_REMOVE(&ch->queue, cq, ch_link);
	if (is_semaphore(ch))
		ch->stray += soft_uncount(ch->event_fd, cq->ch_pending);
	cq->ch_pending = 0;
	eventfd_drain(ch);
	taken = cq->ch_taken;
	pthread_mutex_unlock(&ch->lock);

	pthread_mutex_lock(&cq->ibv.mutex);
	while (taken != cq->ibv.comp_events_completed)
		pthread_cond_wait(&cq->ibv.cond, &cq->ibv.mutex);
	pthread_mutex_unlock(&cq->ibv.mutex);
}

static struct soft_cq *soft_channel_take(struct soft_channel *ch)
{
	struct soft_cq *cq = NULL;

	pthread_mutex_lock(&ch->lock);
	if (ch->stray)
		ch->stray--;
	else
		cq = TAILQ_FIRST(&ch->queue);
	if (cq) {
		if (!--cq->ch_pending)
			TAILQ_REMOVE(&ch->queue, cq, ch_link);
		cq->ch_taken++;
		eventfd_drain(ch);
	}
	pthread_mutex_unlock(&ch->lock);
	return cq;
}

/* Wait for an event. Return 0 if there may be an event, or -errno. */
static int channel_poll(const struct soft_channel *ch)
{
	struct pollfd pfd = { .fd = ch->ibv.fd, .events = POLLIN };
	int flags = fcntl(ch->ibv.fd, F_GETFL);

	if (flags < 0)
		return -errno;
	if (flags & O_NONBLOCK)
		return -EAGAIN;
	return poll(&pfd, 1, -1) < 0 ? -errno : 0;
}

static int wait_turning(struct soft_ctx *ctx, struct soft_channel *ch,
			struct soft_cq **cq)
{
	int rc = 0;

	while (rc == 0 && !(*cq = soft_channel_take(ch))) {
		soft_turn(ctx);
		*cq = soft_channel_take(ch);
		if (*cq)
			return 0;
		rc = soft_is_gone(ctx) ? -EIO : channel_poll(ch);
	}
	return rc;
}

/* Wait for an event by reading. If the event's CQ was destroyed after the read,
 * read again. */
static int wait_reading(struct soft_ctx *ctx, struct soft_channel *ch,
			struct soft_cq **cq)
{
	uint64_t one;

	do {
		if (read(ch->ibv.fd, &one, sizeof(one)) < 0)
			return -errno;
		*cq = soft_channel_take(ch);
		if (!*cq && soft_is_gone(ctx)) {
			/* Wake the next thread that waits in read(). That
			 * thread does the same, so all waiting threads wake up.
			 * Threads that come later do not sleep. */
			eventfd_write(ch->event_fd, 1);
			return -EIO;
		}
	} while (!*cq);
	return 0;
}

int soft_get_cq_event(struct ibv_comp_channel *c, struct ibv_cq **out,
		      void **cq_context)
{
	struct soft_ctx *ctx = to_ctx(c->context);
	struct soft_channel *ch = (struct soft_channel *)c;
	struct soft_cq *cq;
	int rc;

	rc = is_semaphore(ch) ? wait_reading(ctx, ch, &cq)
			      : wait_turning(ctx, ch, &cq);
	if (rc < 0)
		return rc;
	*out = &cq->ibv;
	*cq_context = cq->ibv.cq_context;
	return 0;
}

void soft_ack_cq_events(struct ibv_cq *cq, unsigned nevents)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += nevents;
	pthread_cond_broadcast(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

/*
 * Asynchronous events. An object has one bit per pending event type, so raising
 * an event allocates nothing. async_fd is a semaphore (EFD_SEMAPHORE) that
 * counts the bits. A reader first reads a count from the fd, and then takes the
 * lock. If the object of the event is destroyed in between, the count is stray.
 * So each count, in the fd or read by a thread, belongs either to a pending bit
 * or to a destroyed object.
 */

static void async_fd_post(struct soft_ctx *ctx)
{
	/* The write fails only after 2^64 - 2 unread events. */
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

/* Raise a port event. The port alternately goes down and up, so only the number
 * of events is stored. The events are delivered as PORT_ERR, PORT_ACTIVE,
 * PORT_ERR... */
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
	/* `element` is a union of pointers: setting one member sets all. */
	out->element.qp = ev->element;
	ev->pending &= ev->pending - 1;
	ev->taken++;
	if (!ev->pending)
		TAILQ_REMOVE(&ctx->events, ev, link);
}

/* Return whether all events including DEVICE_FATAL were delivered, so that no
 * further event will come. Only threaded mode, which verbs programs use, needs
 * this function. Without threaded mode, callers read only after the descriptor
 * became readable. */
static bool all_is_told(const struct soft_ctx *ctx)
{
	return ctx->threaded && ctx->gone_ev.taken && TAILQ_EMPTY(&ctx->events);
}

/* Call this after reading a count from async_fd. Take the next event and return
 * its object, or return NULL if the count is stray. */
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

/* Wait for an event. Return 0 or -errno. If it is 0, *ev is the event's object,
 * or NULL if the caller must wait again. */
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
		/* Tell the other waiters that no event will come. */
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
	int rc = 0;

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
	/* ibv_qp, ibv_cq and ibv_srq all begin with the member `context`. */
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
	ctx->stray_counts +=
		soft_uncount(ctx->vctx.context.async_fd,
			     (unsigned)__builtin_popcount(ev->pending));
	ev->pending = 0;
	while (ev->taken != ev->acked)
		pthread_cond_wait(&ctx->ev_cond, &ctx->ev_lock);
	pthread_mutex_unlock(&ctx->ev_lock);
}
