/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threaded mode: a thread turns the context, so that a process that only
 * looks at its memory still is a target for others. Data verbs then take the
 * context's lock.
 *
 * A thread beside a process that polls would only fight it for the lock and
 * the core. So a poll of an empty CQ is a turn as well, as without the
 * thread; and while polls come the thread does nothing but look, every now
 * and then, whether they still do. Only engines that do not mind which thread
 * turns allow it; with the others the thread alone turns.
 */
#include "verbs/soft/ctx.h"

#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "verbs/soft/cq.h"
#include "verbs/soft/wire/conn.h"

#define IDLE_TURNS 200
#define IDLE_TURNS_CROWDED 16
#define POLLERS 4 /* two processes, each with a thread of ours */
#define NAP_NS 50000
#define EMPTY_POLLS 16

void soft_data_lock(struct soft_ctx *ctx)
{
	/* Relaxed: a hint, the lock does the ordering. */
	atomic_fetch_add_explicit(&ctx->waiters, 1, memory_order_relaxed);
	pthread_mutex_lock(&ctx->lock);
	atomic_fetch_sub_explicit(&ctx->waiters, 1, memory_order_relaxed);
}

void soft_data_unlock(struct soft_ctx *ctx)
{
	/*
	 * While the thread sleeps a turn costs no more than to wake it. It
	 * counts itself before its last turn, which needs the lock: so either
	 * we see it, or that turn sees the bell.
	 */
	if (ctx->engine->shared && atomic_load(&ctx->sleepers) > 0 &&
	    atomic_load_explicit(&ctx->bell, memory_order_relaxed))
		soft_turn_locked(ctx);
	pthread_mutex_unlock(&ctx->lock);
}

bool soft_poll_turn(struct soft_ctx *ctx, struct soft_cq *cq)
{
	bool yield;
	int moved;

	if (!ctx->engine->shared)
		return false;
	/* Relaxed, as the rest: hints. Who armed the CQ is about to sleep. */
	if (!atomic_load_explicit(&cq->armed, memory_order_relaxed))
		atomic_store_explicit(&ctx->polled, 1, memory_order_relaxed);
	if (atomic_load_explicit(&ctx->waiters, memory_order_relaxed)) {
		sched_yield();
		return false;
	}
	if (pthread_mutex_trylock(&ctx->lock))
		return false;
	moved = soft_turn_locked(ctx);
	ctx->empty_polls = moved ? 0 : ctx->empty_polls + 1;
	yield = ctx->empty_polls > EMPTY_POLLS;
	pthread_mutex_unlock(&ctx->lock);
	/* The peer may want this very core. */
	if (yield)
		sched_yield();
	return moved;
}

static void thread_nap(void)
{
	struct timespec ts = { .tv_nsec = NAP_NS };

	clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
}

static void sleep_until_work(struct soft_ctx *ctx)
{
	struct epoll_event ev;

	/* From the last turn on, whatever comes is heard. */
	atomic_fetch_add(&ctx->sleepers, 1);
	if (!soft_turn(ctx) && !atomic_load(&ctx->stop))
		epoll_wait(ctx->sleep_fd, &ev, 1, -1);
	atomic_fetch_sub(&ctx->sleepers, 1);
}

/* On few cores to spin is to take one from whom we wait for. */
static unsigned idle_turns(void)
{
	cpu_set_t cpus;

	if (sched_getaffinity(0, sizeof(cpus), &cpus) < 0 ||
	    CPU_COUNT(&cpus) < POLLERS)
		return IDLE_TURNS_CROWDED;
	return IDLE_TURNS;
}

static void *thread_run(void *arg)
{
	struct soft_ctx *ctx = arg;
	unsigned idle = 0, most = idle_turns();

	/* A nap is not to be prolonged by what suits the kernel. */
	prctl(PR_SET_TIMERSLACK, 1000);
	while (!atomic_load(&ctx->stop) && !soft_is_gone(ctx)) {
		if (atomic_exchange_explicit(&ctx->polled, 0,
					     memory_order_relaxed)) {
			thread_nap();
			continue;
		}
		/* Once: those who poll in a loop always wait. */
		if (atomic_load_explicit(&ctx->waiters, memory_order_relaxed))
			sched_yield();
		if (soft_turn(ctx)) {
			idle = 0;
		} else if (++idle >= most) {
			sleep_until_work(ctx);
			idle = 0;
		}
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
	rc = pthread_create(&ctx->thread, NULL, thread_run, ctx);
	if (rc) {
		close(ctx->sleep_fd);
		return -rc;
	}
	return 0;
}

void soft_thread_stop(struct soft_ctx *ctx)
{
	if (!ctx->threaded)
		return;
	if (ctx->foreign) {
		close(ctx->sleep_fd);
		return;
	}
	/* Under the lock: no turn that has not seen it takes the kick. */
	soft_lock(ctx);
	atomic_store(&ctx->stop, 1);
	soft_kick(ctx);
	soft_unlock(ctx);
	pthread_join(ctx->thread, NULL);
	close(ctx->sleep_fd);
}
