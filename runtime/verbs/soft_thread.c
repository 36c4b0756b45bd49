/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threaded mode: a thread turns the context, so that a process that only
 * looks at its memory still is a target for others. Data verbs then take the
 * context's lock, and the thread gives way to whoever waits for it.
 */
#include "verbs/soft_internal.h"

#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

#define IDLE_TURNS 200

void soft_data_lock(struct soft_ctx *ctx)
{
	/* Relaxed: a hint, the lock does the ordering. */
	atomic_fetch_add_explicit(&ctx->waiters, 1, memory_order_relaxed);
	pthread_mutex_lock(&ctx->lock);
	atomic_fetch_sub_explicit(&ctx->waiters, 1, memory_order_relaxed);
}

void soft_data_unlock(struct soft_ctx *ctx)
{
	pthread_mutex_unlock(&ctx->lock);
}

static void *run(void *arg)
{
	struct soft_ctx *ctx = arg;
	struct epoll_event ev;
	unsigned idle = 0;

	while (!atomic_load(&ctx->stop)) {
		/* Once: those who poll in a loop always wait. */
		if (atomic_load_explicit(&ctx->waiters, memory_order_relaxed))
			sched_yield();
		if (soft_turn(ctx)) {
			idle = 0;
			continue;
		}
		if (++idle < IDLE_TURNS)
			continue;
		/* From the last turn on, whatever comes is heard. */
		atomic_fetch_add(&ctx->sleepers, 1);
		if (!soft_turn(ctx) && !atomic_load(&ctx->stop))
			epoll_wait(ctx->sleep_fd, &ev, 1, -1);
		atomic_fetch_sub(&ctx->sleepers, 1);
		idle = 0;
	}
	return NULL;
}

int soft_thread_start(struct soft_ctx *ctx)
{
	int rc;

	ctx->sleep_fd = epoll_create1(EPOLL_CLOEXEC);
	if (ctx->sleep_fd < 0)
		return -errno;
	soft_sleep_fds(ctx, ctx->sleep_fd);
	ctx->threaded = true;
	rc = pthread_create(&ctx->thread, NULL, run, ctx);
	if (rc) {
		ctx->threaded = false;
		close(ctx->sleep_fd);
		return -rc;
	}
	return 0;
}

void soft_thread_stop(struct soft_ctx *ctx)
{
	if (!ctx->threaded)
		return;
	atomic_store(&ctx->stop, 1);
	soft_kick(ctx);
	pthread_join(ctx->thread, NULL);
	close(ctx->sleep_fd);
}
