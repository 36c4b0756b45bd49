/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection from creation to close. A closed conn stays allocated in state
 * DEAD until the next turn, so that pointers to it remain valid until the end
 * of this turn.
 */
#include "verbs/soft/wire/soft_conn.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "verbs/soft/ctx.h"
#include "verbs/soft/mr.h"
#include "verbs/soft/qp.h"
#include "verbs/soft/wire/rc.h"
#include "verbs/soft/wire/soft_wire.h"

#define ASKED_NS (5000 * SOFT_MS)
#define ASKING_NS (3000 * SOFT_MS)
#define LINGER_NS (5000 * SOFT_MS)

static int conn_table_grow(struct soft_ctx *ctx)
{
	uint32_t size = ctx->conn_size ? ctx->conn_size * 2 : 64;
	struct soft_conn **tab;

	tab = realloc(ctx->conn_tab, size * sizeof(*tab));
	if (!tab)
		return -ENOMEM;
	for (uint32_t i = ctx->conn_size; i < size; i++)
		tab[i] = NULL;
	ctx->conn_hint = ctx->conn_size;
	ctx->conn_tab = tab;
	ctx->conn_size = size;
	return 0;
}

static int conn_table_insert(struct soft_ctx *ctx, struct soft_conn *conn)
{
	uint32_t i;

	for (i = 0; i < ctx->conn_size; i++)
		if (!ctx->conn_tab[(ctx->conn_hint + i) % ctx->conn_size])
			break;
	if (i == ctx->conn_size) {
		if (conn_table_grow(ctx) < 0)
			return -ENOMEM;
		i = 0;
	}
	conn->id = (ctx->conn_hint + i) % ctx->conn_size;
	conn->gen = ++ctx->conn_gen & 0xffffff;
	ctx->conn_hint = conn->id + 1;
	ctx->conn_tab[conn->id] = conn;
	return 0;
}

static void set_idle(struct soft_conn *conn, uint64_t ns)
{
	struct soft_ctx *ctx = conn->ctx;

	conn->expires = mpib_now_ns() + ns;
	TAILQ_INSERT_TAIL(&ctx->idle, conn, idle_link);
	if (conn->expires < ctx->idle_min)
		ctx->idle_min = conn->expires;
}

void soft_conn_leave_idle(struct soft_conn *conn)
{
	if (conn->state == SOFT_CONN_ASKED)
		conn->ctx->nembryos--;
	if (conn->expires)
		TAILQ_REMOVE(&conn->ctx->idle, conn, idle_link);
	conn->expires = 0;
}

struct soft_conn *soft_conn_new(struct soft_ctx *ctx, int fd,
				enum soft_conn_state state)
{
	struct soft_conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return NULL;
	conn->ctx = ctx;
	conn->fd = fd;
	conn->state = state;
	if (conn_table_insert(ctx, conn) < 0) {
		free(conn);
		return NULL;
	}
	if (state == SOFT_CONN_ASKED) {
		set_idle(conn, ASKED_NS);
		ctx->nembryos++;
	} else {
		set_idle(conn, ASKING_NS);
	}
	soft_conn_watch(conn);
	return conn;
}

struct soft_conn *soft_conn_find(struct soft_ctx *ctx, uint32_t id,
				 uint32_t gen)
{
	struct soft_conn *conn = id < ctx->conn_size ? ctx->conn_tab[id] : NULL;

	if (!conn || conn->gen != gen || conn->state == SOFT_CONN_DEAD)
		return NULL;
	return conn;
}

void soft_conn_watch(struct soft_conn *conn)
{
	if (conn->to_watch)
		return;
	conn->to_watch = true;
	TAILQ_INSERT_TAIL(&conn->ctx->to_watch, conn, watch_link);
}

void soft_conn_ready(struct soft_conn *conn)
{
	if (conn->queued || conn->state == SOFT_CONN_DEAD)
		return;
	conn->queued = true;
	TAILQ_INSERT_TAIL(&conn->ctx->ready, conn, ready_link);
}

void soft_conn_tx_work(struct soft_conn *conn, bool work)
{
	struct soft_ctx *ctx = conn->ctx;
	uint64_t now;

	if (conn->tx_work == work)
		return;
	conn->tx_work = work;
	ctx->ntx += work ? 1u : -1u;
	if (!work || ctx->ntx > 1 || !ctx->fault.rate_bytes_per_s)
		return;
	/* After an idle time, count from now: idle time gives no credit. */
	now = mpib_now_ns();
	if (ctx->rate_at < now)
		ctx->rate_at = now;
}

void soft_conn_work(struct soft_qp *qp)
{
	if (qp->loop) {
		if (!qp->ready)
			TAILQ_INSERT_TAIL(&qp->ctx->loop_ready, qp, ready_link);
		qp->ready = true;
	} else if (qp->conn) {
		soft_conn_tx_work(qp->conn, true);
		if (!qp->conn->tx_blocked)
			soft_conn_ready(qp->conn);
	}
}

void soft_conn_close(struct soft_conn *conn)
{
	struct soft_ctx *ctx = conn->ctx;

	if (conn->state == SOFT_CONN_DEAD)
		return;
	soft_conn_leave_idle(conn);
	soft_conn_tx_work(conn, false);
	if (conn->queued)
		TAILQ_REMOVE(&ctx->ready, conn, ready_link);
	if (conn->to_watch)
		TAILQ_REMOVE(&ctx->to_watch, conn, watch_link);
	conn->state = SOFT_CONN_DEAD;
	/* The engine may keep the file open for a while after close(), so
	 * inform the peer now by shutdown(). */
	shutdown(conn->fd, SHUT_RDWR);
	close(conn->fd);
	conn->fd = -1;
	free(conn->last);
	conn->last = NULL;
	TAILQ_INSERT_TAIL(&ctx->dead, conn, idle_link);
}

void soft_conn_reap(struct soft_ctx *ctx)
{
	struct soft_conn *conn;

	while ((conn = TAILQ_FIRST(&ctx->dead))) {
		if (conn->watched && ctx->engine &&
		    !ctx->engine->forget(ctx, conn))
			return;
		TAILQ_REMOVE(&ctx->dead, conn, idle_link);
		ctx->conn_tab[conn->id] = NULL;
		free(conn);
	}
}

void soft_conn_lost(struct soft_conn *conn)
{
	struct soft_qp *qp = conn->qp;
	bool was_up = conn->state == SOFT_CONN_UP;

	conn->qp = NULL;
	soft_conn_close(conn);
	if (!qp)
		return;
	qp->conn = NULL;
	if (qp->refusal && qp->peer_gone) {
		soft_qp_error(qp);
		return;
	}
	if (!was_up) {
		soft_dial_later(qp);
		return;
	}
	/* The peer's QP may have been reset while its hello waited in the
	 * socket, so accept any life of the peer. */
	if (conn->unsure)
		qp->peer_life = 0;
	soft_rx_unplug(qp);
	soft_tx_unanswered(qp);
	soft_dial_again(qp);
}

void soft_conn_over(struct soft_conn *conn)
{
	if (conn->qp)
		conn->qp->peer_gone = true;
	soft_conn_lost(conn);
}

static void conn_hang_up(struct soft_conn *conn)
{
	free(conn->last);
	conn->last = NULL;
	/* If this end closed the socket before it had read all bytes, the
	 * kernel would reset the connection, and the peer could lose the last
	 * bytes of this end. So continue reading until the peer closes. */
	shutdown(conn->fd, SHUT_WR);
}

void soft_conn_say(struct soft_conn *conn)
{
	while (conn->last) {
		ssize_t n = send(conn->fd, conn->last + conn->last_off,
				 conn->last_len - conn->last_off,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN) {
			conn->tx_blocked = true;
			return;
		}
		if (n > 0)
			conn->last_off += (uint32_t)n;
		if (n < 0 || conn->last_off == conn->last_len)
			conn_hang_up(conn);
	}
}

static void conn_linger(struct soft_conn *conn)
{
	soft_conn_leave_idle(conn);
	conn->qp = NULL;
	conn->state = SOFT_CONN_LINGER;
	soft_conn_tx_work(conn, false);
	set_idle(conn, LINGER_NS);
	conn->rx_ready = true;
	soft_conn_ready(conn);
	if (conn->last)
		soft_conn_say(conn);
	else
		conn_hang_up(conn);
}

void soft_conn_leave(struct soft_qp *qp)
{
	struct soft_conn *conn = qp->conn;

	if (!conn)
		return;
	qp->conn = NULL;
	if (conn->state != SOFT_CONN_UP) {
		conn->qp = NULL;
		soft_conn_close(conn);
		return;
	}
	/* Before the QP leaves, ack all requests whose payload was placed. A
	 * real HCA would have acked them without the program. */
	if (!qp->ctx->paused)
		soft_stream_last_words(conn);
	conn_linger(conn);
}

void soft_conn_make_room(struct soft_ctx *ctx, uint32_t from)
{
	struct soft_conn *conn, *oldest = NULL, *of_one = NULL;
	unsigned n = 0;

	if (ctx->nembryos < SOFT_MAX_EMBRYOS_OF_ONE)
		return;
	TAILQ_FOREACH(conn, &ctx->idle, idle_link)
	{
		if (conn->state != SOFT_CONN_ASKED)
			continue;
		if (!oldest)
			oldest = conn;
		if (conn->from != from)
			continue;
		if (!of_one)
			of_one = conn;
		n++;
	}
	if (n >= SOFT_MAX_EMBRYOS_OF_ONE)
		soft_conn_close(of_one);
	else if (ctx->nembryos >= SOFT_MAX_EMBRYOS && oldest)
		soft_conn_close(oldest);
}

void soft_conn_expire(struct soft_ctx *ctx, uint64_t now)
{
	struct soft_conn *conn, *next;
	uint64_t min = UINT64_MAX;

	if (now < ctx->idle_min)
		return;
	for (conn = TAILQ_FIRST(&ctx->idle); conn; conn = next) {
		next = TAILQ_NEXT(conn, idle_link);
		if (now >= conn->expires)
			soft_conn_lost(conn);
		else if (conn->expires < min)
			min = conn->expires;
	}
	ctx->idle_min = min;
}

/*
 * Sharing of one thread's turns between protection domains. While several
 * domains use a thread's devices, a turn of a device serves one socket of each
 * domain. Completions appear after all socket operations of a turn, so each
 * domain waits for the operations of the others. The other sockets of a domain
 * wait for later turns. A waiting socket collects more data, so fewer
 * operations move the same bytes. A single domain uses the whole turn.
 *
 * A domain that moves few bytes is "light"; all others are "busy". Light
 * domains go first, as new traffic does in fq_codel (RFC 8290). If a light
 * domain has an operation in a turn, busy domains wait for the next turn. Busy
 * domains also rest in the turn after a turn that served them, so that a thread
 * with several devices reaches the next device sooner. If a light domain was
 * active recently, busy domains rest on all devices of the thread after an
 * operation of a busy domain. They rest until the device of this operation has
 * had a turn without busy domains. So between two turns of a device each busy
 * domain has at most one operation, and turns are shorter. After the rest, the
 * device whose busy domains have rested longest serves them first, in whatever
 * order the devices make turns.
 *
 * Domains share the thread, not the device: a domain that uses one device still
 * waits for the turns of all devices of the thread.
 */

/* After a thread has switched domains, the thread counts as shared for this
 * number of its turns. A domain that waits for its peer moves no data, but
 * still shares the thread. */
#define LATELY 131072

/* A domain is light if it moves at most this many bytes per turn. A domain may
 * save the bytes that it does not use, at most the bytes of 16 turns. */
#define LITTLE INT64_C(256)
#define SAVED (16 * LITTLE)

/* A light domain counts as active until this number of turns after its last
 * operation, because a peer's answer takes several turns. So a small message
 * delays busy domains by at most this number of turns. */
#define LITTLE_LATELY 128
/* After an operation of MUCH bytes, a domain counts as busy for MUCH_LATELY
 * turns, even if small answers follow. So other domains wait only for shorter
 * operations. */
#define MUCH (32 << 10)
#define MUCH_LATELY 16384
/* A device rests for at most this many turns, in case the thread's other
 * devices make no turns. */
#define REST_MOST 64

static _Thread_local struct {
	uint64_t turns, shared_until, little_until;
	uint64_t much_at; /* number of the turn with the last large operation */
	uint64_t rest_until;
	uint64_t waits; /* `much_at` of the device that has rested longest */
} mine = { .waits = UINT64_MAX };

/* Return whether this device must rest. If another device rests and its last
 * large operation is older, the other device goes first. Without this rule, the
 * same device could rest every time if the turns of two devices alternate. */
static bool rests(const struct soft_ctx *ctx)
{
	return mine.turns <= mine.rest_until ||
	       (ctx->much_at > mine.waits &&
		mine.turns <= mine.much_at + REST_MOST);
}

void soft_share_begin(struct soft_ctx *ctx)
{
	bool little = ++mine.turns < mine.little_until;

	if (ctx->much_at > mine.turns)
		/* Another thread, which has made more turns than this thread,
		 * set this value. */
		ctx->much_at = 0;
	ctx->shared = mine.turns < mine.shared_until;
	ctx->rest = little && rests(ctx);
	ctx->most = !ctx->shared ? SOFT_OP_BYTES
		    : little	 ? SOFT_LITTLE_BYTES
				 : SOFT_SHARED_BYTES;
	if (ctx->much_at == mine.much_at)
		mine.rest_until = mine.turns;
}

static bool moves_little(const struct soft_ctx *ctx, struct soft_pd *pd)
{
	uint64_t turns = ctx->turn - pd->grown;

	pd->grown = ctx->turn;
	pd->credit += turns < 2 * SAVED / LITTLE ? (int64_t)turns * LITTLE
						 : 2 * SAVED;
	if (pd->credit > SAVED)
		pd->credit = SAVED;
	return pd->credit > 0;
}

static bool moved_much(const struct soft_ctx *ctx, const struct soft_pd *pd)
{
	return ctx->turn <= pd->much_until;
}

bool soft_share_over(const struct soft_conn *conn)
{
	const struct soft_ctx *ctx = conn->ctx;
	struct soft_pd *pd;
	bool little, much;

	if (!ctx->shared || !conn->qp)
		return false;
	pd = conn->qp->pd;
	if (pd->turn == ctx->turn)
		return true;
	little = moves_little(ctx, pd);
	much = moved_much(ctx, pd);
	if (ctx->rest && much) {
		if (ctx->much_at < mine.waits)
			mine.waits = ctx->much_at;
		return true;
	}
	if (!little && (ctx->little || pd->turn + 1 == ctx->turn))
		return true;
	if (much)
		mine.waits = UINT64_MAX;
	return false;
}

/* Busy domains never wait in two consecutive turns. In the second turn all
 * domains are served in list order, even if there are many light domains. */
bool soft_share_may_give_way(const struct soft_ctx *ctx)
{
	return ctx->gave_way + 1 != ctx->turn;
}

bool soft_share_gives_way(struct soft_ctx *ctx)
{
	if (ctx->nops)
		ctx->gave_way = ctx->turn;
	return ctx->gave_way == ctx->turn;
}

void soft_share_take(struct soft_ctx *ctx, struct soft_pd *pd)
{
	if (ctx->served && ctx->served != pd)
		mine.shared_until = mine.turns + LATELY;
	ctx->served = pd;
	pd->turn = ctx->turn;
	if (moved_much(ctx, pd)) {
		mine.much_at = ctx->much_at = mine.turns;
		mine.rest_until = mine.turns + REST_MOST;
	}
}

static void share_charge(const struct soft_ctx *ctx, struct soft_pd *pd,
			 int bytes)
{
	moves_little(ctx, pd);
	pd->credit -= bytes;
	if (pd->credit < -SAVED)
		pd->credit = -SAVED;
	if (bytes >= MUCH)
		pd->much_until = ctx->turn + MUCH_LATELY;
	else if (pd->credit > 0 && !moved_much(ctx, pd))
		mine.little_until = mine.turns + LITTLE_LATELY;
}

void soft_share_pay(const struct soft_ctx *ctx)
{
	for (unsigned i = 0; i < ctx->nops; i++) {
		const struct soft_op *op = &ctx->ops[i];

		if (op->res > 0 && op->conn->qp)
			share_charge(ctx, op->conn->qp->pd, op->res);
	}
}
