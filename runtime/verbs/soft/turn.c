/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The turn of a context, and waking of sleeping threads for work. The thread
 * that owns the context's progress makes the turns. In threaded mode, the
 * context's thread makes turns, and so do threads that poll or post.
 *
 * A sleeper counts in ctx->sleepers. (An armed CQ counts as one sleeper.) A
 * sleeper waits on an epoll set of three fds: the engine's fd for sockets,
 * timer_fd for timers, and the kick for everything else. If a turn, a post or a
 * control verb leaves work undone while there are sleepers, it must kick the
 * sleepers.
 */
#include "verbs/soft/ctx.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>

#include "verbs/soft/cq.h"
#include "verbs/soft/qp.h"
#include "verbs/soft/soft.h"
#include "verbs/soft/wire/rc.h"
#include "verbs/soft/wire/soft_conn.h"

void soft_kick(struct soft_ctx *ctx)
{
	mpib_bell_ring(&ctx->kick);
}

static void soft_nudge(struct soft_ctx *ctx)
{
	if (atomic_load(&ctx->sleepers) > 0)
		soft_kick(ctx);
}

/* Clear the kick, because a turn checks all work anyway. But if `stop` is set,
 * leave the kick. Otherwise a turn of another thread could clear the kick, and
 * the context's thread would not wake up. */
static void turn_unkick(struct soft_ctx *ctx)
{
	if (!atomic_load_explicit(&ctx->stop, memory_order_relaxed))
		mpib_bell_heard(&ctx->kick);
}

void soft_bell(struct soft_qp *qp)
{
	struct soft_ctx *ctx = qp->ctx;
	struct soft_qp *head;

	/* Pairs with the exchange in soft_bells_drain(). */
	if (!atomic_exchange(&qp->belled, 1)) {
		/*
		 * Relaxed: the compare-exchange below orders this load. This
		 * thread writes `bell` here and then loads `sleepers` in
		 * soft_nudge(). A sleeper increments `sleepers` and then loads
		 * `bell` in soft_bells_drain(). All four accesses are
		 * sequentially consistent, so at least one of the two threads
		 * sees the other's write.
		 */
		head = atomic_load_explicit(&ctx->bell, memory_order_relaxed);
		do {
			qp->bell_next = head;
		} while (!atomic_compare_exchange_weak(&ctx->bell, &head, qp));
	}
	/* In threaded mode with a shared engine, soft_data_unlock() makes a
	 * turn, which is cheaper than a kick. */
	if (!ctx->threaded || !ctx->engine->shared)
		soft_nudge(ctx);
}

void soft_bells_drain(struct soft_ctx *ctx)
{
	struct soft_qp *qp, *next;

	if (!atomic_load(&ctx->bell))
		return;
	/* Acquire pairs with the push in soft_bell(). */
	qp = atomic_exchange(&ctx->bell, NULL);
	for (; qp; qp = next) {
		next = qp->bell_next;
		/* After this exchange a new post rings again, and
		 * soft_tx_start() sees all older posts. Pairs with the exchange
		 * in soft_bell(). */
		atomic_exchange(&qp->belled, 0);
		soft_tx_start(qp);
	}
}

void soft_timer_update(struct soft_qp *qp)
{
	struct soft_ctx *ctx = qp->ctx;
	const uint64_t at[] = { qp->conn_at, qp->rnr_at, qp->ack_at,
				qp->send_at, qp->die_at };
	bool any = false;

	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		any |= at[i] != 0;
		if (at[i] && at[i] < ctx->timer_min)
			ctx->timer_min = at[i];
	}
	if (any && !qp->timed) {
		TAILQ_INSERT_TAIL(&ctx->timers, qp, timer_link);
		ctx->ntimers++;
	} else if (!any && qp->timed) {
		TAILQ_REMOVE(&ctx->timers, qp, timer_link);
		ctx->ntimers--;
	}
	qp->timed = any;
}

static void turn_run_timers(struct soft_ctx *ctx, uint64_t now)
{
	unsigned n = ctx->ntimers;
	struct soft_qp *qp;

	if (now < ctx->timer_min)
		return;
	/* Recompute timer_min. Each call of soft_timer_update(), in this loop
	 * or for a new timer, reduces timer_min to its QP's earliest timer. */
	ctx->timer_min = UINT64_MAX;
	while (n-- && (qp = TAILQ_FIRST(&ctx->timers))) {
		TAILQ_REMOVE(&ctx->timers, qp, timer_link);
		TAILQ_INSERT_TAIL(&ctx->timers, qp, timer_link);
		soft_dial(qp, now);
		soft_tx_timers(qp, now);
		soft_timer_update(qp);
	}
}

/* Handle conn's events and prepare its send and receive of this turn. */
static void conn_ops(struct soft_ctx *ctx, struct soft_conn *conn, bool send)
{
	if (conn->events & SOFT_EV_IN)
		conn->rx_ready = true;
	if (conn->events & SOFT_EV_OUT)
		conn->tx_blocked = false;
	if (conn->events & SOFT_EV_END)
		conn->ended = true;
	conn->events = 0;
	if (conn->last && !conn->tx_blocked)
		soft_conn_say(conn);
	if (conn->state == SOFT_CONN_ASKING && !conn->tx_blocked)
		soft_hello_send(conn);
	if (send && conn->tx_work && !conn->tx_blocked) {
		if (soft_stream_tx_prep(conn, &ctx->ops[ctx->nops]))
			ctx->nops++;
		else if (!conn->qp ||
			 (!conn->qp->hold_until && !soft_ack_waits(conn->qp)))
			soft_conn_tx_work(conn, false);
	}
	if (conn->state != SOFT_CONN_DEAD && conn->rx_ready &&
	    soft_stream_rx_prep(conn, &ctx->ops[ctx->nops]))
		ctx->nops++;
}

static bool conn_has_work(struct soft_conn *conn)
{
	if (conn->state == SOFT_CONN_DEAD)
		return false;
	if (conn->tx_work && !conn->tx_blocked)
		return true;
	return conn->events ||
	       (conn->rx_ready && !(conn->qp && conn->qp->dying));
}

/* Prepare the operations of conns that are ready and need not wait. */
static void prepare_ready(struct soft_ctx *ctx, uint64_t now)
{
	struct soft_conn *conn, *next,
		*last = TAILQ_LAST(&ctx->ready, soft_conn_list);
	bool send = !ctx->fault.rate_bytes_per_s || now >= ctx->rate_at;

	for (conn = TAILQ_FIRST(&ctx->ready); conn && ctx->nops + 2 <= SOFT_OPS;
	     conn = next) {
		struct soft_pd *pd = conn->qp ? conn->qp->pd : NULL;
		unsigned before = ctx->nops;

		next = conn == last ? NULL : TAILQ_NEXT(conn, ready_link);
		if (soft_share_over(conn))
			continue;
		TAILQ_REMOVE(&ctx->ready, conn, ready_link);
		conn->queued = false;
		conn_ops(ctx, conn, send);
		if (pd && ctx->nops > before)
			soft_share_take(ctx, pd);
		/* turn_finish() queues only conns that had an operation, and
		 * this conn may have had none. */
		if (conn_has_work(conn))
			soft_conn_ready(conn);
	}
}

static void turn_prepare(struct soft_ctx *ctx, uint64_t now)
{
	if (ctx->shared && soft_share_may_give_way(ctx)) {
		ctx->little = true;
		prepare_ready(ctx, now);
		ctx->little = false;
		if (soft_share_gives_way(ctx))
			return;
	}
	prepare_ready(ctx, now);
}

static int turn_finish(struct soft_ctx *ctx)
{
	int moved = 0;

	if (ctx->shared)
		soft_share_pay(ctx);
	/* Account for sends first: an answer read in this turn may belong to a
	 * request sent in this turn. */
	for (unsigned i = 0; i < ctx->nops; i++)
		if (ctx->ops[i].tx)
			soft_stream_tx_done(ctx->ops[i].conn, &ctx->ops[i]);
	for (unsigned i = 0; i < ctx->nops; i++) {
		struct soft_op *op = &ctx->ops[i];

		if (!op->tx)
			soft_stream_rx_done(op->conn, op);
		moved += op->res > 0;
		if (conn_has_work(op->conn))
			soft_conn_ready(op->conn);
	}
	ctx->nops = 0;
	ctx->nreads = 0;
	return moved;
}

static int run_loops(struct soft_ctx *ctx)
{
	struct soft_qp *qp, *last = TAILQ_LAST(&ctx->loop_ready, soft_qp_list);
	bool more = last;
	int moved = 0;

	while (more && (qp = TAILQ_FIRST(&ctx->loop_ready))) {
		more = qp != last;
		TAILQ_REMOVE(&ctx->loop_ready, qp, ready_link);
		qp->ready = false;
		moved += soft_loop_run(qp);
	}
	return moved;
}

static bool has_work(struct soft_ctx *ctx)
{
	return !TAILQ_EMPTY(&ctx->ready) || !TAILQ_EMPTY(&ctx->loop_ready) ||
	       !TAILQ_EMPTY(&ctx->to_watch) || ctx->accept_ready ||
	       soft_must_listen(ctx);
}

static void set_timer(struct soft_ctx *ctx, uint64_t at)
{
	struct itimerspec its = { 0 };

	if (at == ctx->timer_set)
		return;
	ctx->timer_set = at;
	if (at != UINT64_MAX)
		its.it_value = mpib_timespec(at);
	/* Setting the timer also clears an unread expiry. */
	timerfd_settime(ctx->timer_fd, TFD_TIMER_ABSTIME, &its, NULL);
}

/* Prepare for threads that sleep: set the timer, and kick if work is left. So
 * the sleeping threads are woken for all work that this turn does not
 * finish. */
static void prepare_sleep(struct soft_ctx *ctx, uint64_t now)
{
	uint64_t at = ctx->timer_min;
	bool rated = ctx->fault.rate_bytes_per_s && ctx->rate_at > now;

	if (ctx->idle_min < at)
		at = ctx->idle_min;
	if (ctx->accept_at && ctx->accept_at < at)
		at = ctx->accept_at;
	if (ctx->faults_at && ctx->faults_at < at)
		at = ctx->faults_at;
	if (rated && ctx->rate_at < at)
		at = ctx->rate_at;
	set_timer(ctx, at);
	if (!ctx->paused && !rated && has_work(ctx))
		soft_kick(ctx);
}

int soft_turn_locked(struct soft_ctx *ctx)
{
	bool timed = ctx->timer_min != UINT64_MAX ||
		     ctx->idle_min != UINT64_MAX || ctx->accept_at ||
		     ctx->faults_at || ctx->fault.rate_bytes_per_s;
	uint64_t now = timed ? mpib_now_ns() : 0;
	int moved = 0;

	ctx->turn++;
	soft_share_begin(ctx);
	turn_unkick(ctx);
	if (ctx->faults_at && now >= ctx->faults_at)
		soft_faults_look(ctx, now);
	if (soft_is_gone(ctx))
		return 0;
	if (!TAILQ_EMPTY(&ctx->dead))
		soft_conn_reap(ctx);
	soft_bells_drain(ctx);
	if (timed) {
		turn_run_timers(ctx, now);
		soft_conn_expire(ctx, now);
		if (ctx->accept_at && now >= ctx->accept_at) {
			ctx->accept_at = 0;
			ctx->accept_ready = true;
		}
	}
	if (!ctx->paused) {
		if (ctx->accept_ready)
			soft_accept(ctx);
		moved = run_loops(ctx);
		/* Find the light domains before serving the others. */
		if (ctx->shared)
			ctx->engine->run(ctx);
		turn_prepare(ctx, now);
	}
	ctx->told = false;
	ctx->engine->run(ctx);
	moved += turn_finish(ctx);
	/* Also read the sockets that the engine has just found readable. The
	 * next turn would make the same system calls, only later. */
	if (ctx->told && !ctx->paused) {
		turn_prepare(ctx, now);
		ctx->engine->run(ctx);
		moved += turn_finish(ctx);
	}
	if (atomic_load_explicit(&ctx->sleepers, memory_order_relaxed) > 0)
		prepare_sleep(ctx, timed ? now : mpib_now_ns());
	return moved;
}

int soft_turn(struct soft_ctx *ctx)
{
	int moved;

	if (ctx->threaded)
		/* Wait for the lock. If this thread did not wait, it would go
		 * to sleep, even if the holder of the lock is a post that makes
		 * no turn. */
		pthread_mutex_lock(&ctx->lock);
	/* Relaxed: if this thread goes to sleep after the load, the thread that
	 * waits for the lock kicks this thread in soft_unlock(). */
	else if (atomic_load_explicit(&ctx->waiters, memory_order_relaxed) ||
		 pthread_mutex_trylock(&ctx->lock))
		return 0;
	moved = soft_turn_locked(ctx);
	pthread_mutex_unlock(&ctx->lock);
	return moved;
}

void soft_sleep_fds(struct soft_ctx *ctx, int epfd)
{
	const int fds[] = { ctx->kick.fd, ctx->timer_fd, ctx->engine->fd(ctx) };

	for (unsigned i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		struct epoll_event ev = { .events = EPOLLIN };

		/* Ignore errors: after a ring was replaced, some fds are
		 * already in the set. */
		epoll_ctl(epfd, EPOLL_CTL_ADD, fds[i], &ev);
	}
}
