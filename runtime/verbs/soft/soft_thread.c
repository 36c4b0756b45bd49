/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threaded mode: a thread of the context makes turns, so that peers can write
 * to a process that only polls its memory. Data verbs then take ctx->lock.
 *
 * While the program polls CQs, the context's thread would only compete with the
 * program for the lock and the core. So a poll of an empty CQ makes a turn, as
 * in a context without a thread. While the program polls (ctx->polled), the
 * context's thread only checks regularly that the polls continue. If the engine
 * allows turns of only one thread (`shared` is false), polls make no turns, and
 * the context's thread makes all turns.
 */
#include "verbs/soft/ctx.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/thread.h"
#include "verbs/soft/cq.h"
#include "verbs/soft/wire/soft_conn.h"

#define IDLE_TURNS 200
#define IDLE_TURNS_CROWDED 16
/* threads that may poll at the same time: two processes, each with a program
 * thread and a context's thread */
#define POLLERS 4
#define NAP_NS 50000
#define EMPTY_POLLS 16

void soft_data_lock(struct soft_ctx *ctx)
{
	/* Relaxed: `waiters` is only a hint. The lock orders memory. */
	atomic_fetch_add_explicit(&ctx->waiters, 1, memory_order_relaxed);
	pthread_mutex_lock(&ctx->lock);
	atomic_fetch_sub_explicit(&ctx->waiters, 1, memory_order_relaxed);
}

void soft_data_unlock(struct soft_ctx *ctx)
{
	/*
	 * If the context's thread sleeps, make the turn on this thread, because
	 * a turn costs no more than waking the context's thread. The context's
	 * thread increments sleepers before its last turn, which needs the
	 * lock. So either this thread sees the increment, or that turn sees the
	 * bell.
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
	/* Relaxed, like the loads below, because the values are hints. A thread
	 * polls an armed CQ once before it sleeps. That poll does not set
	 * `polled`. */
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
	/* The peer's process may be waiting for this core. */
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

	/* Count as a sleeper before the last turn, so that work that comes
	 * after that turn kicks sleep_fd. */
	atomic_fetch_add(&ctx->sleepers, 1);
	if (!soft_turn(ctx) && !atomic_load(&ctx->stop))
		epoll_wait(ctx->sleep_fd, &ev, 1, -1);
	atomic_fetch_sub(&ctx->sleepers, 1);
}

/* Return how many idle turns to make before sleeping. On a machine with few
 * cores the number is small, because a spinning thread takes CPU time from the
 * peer that it waits for. */
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

	/* Make naps end in time: the default timer slack is as long as a
	 * nap. */
	prctl(PR_SET_TIMERSLACK, 1000);
	while (!atomic_load(&ctx->stop) && !soft_is_gone(ctx)) {
		if (atomic_exchange_explicit(&ctx->polled, 0,
					     memory_order_relaxed)) {
			thread_nap();
			continue;
		}
		/* Yield only once, even if threads still wait for the lock.
		 * Threads that post or poll in a loop wait for the lock nearly
		 * all the time. */
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
	rc = mpib_thread_create(&ctx->thread, thread_run, ctx);
	if (rc < 0)
		close(ctx->sleep_fd);
	return rc;
}

void soft_thread_stop(struct soft_ctx *ctx)
{
	if (!ctx->threaded)
		return;
	/* Set `stop` under the lock. Otherwise a turn that has not seen `stop`
	 * could clear the thread's kick (turn_unkick()). */
	soft_lock(ctx);
	atomic_store(&ctx->stop, 1);
	soft_kick(ctx);
	soft_unlock(ctx);
	pthread_join(ctx->thread, NULL);
	close(ctx->sleep_fd);
}
