/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a connection ends in the engine: it breaks, or the control thread stops
 * it, and its requests end. All but engine_conn_stop() run on the shard.
 */
#include <stdarg.h>

#include "engine/async_error.h"
#include "engine/conn/conn.h"
#include "engine/measure/count.h"

/* The requests belong to the rank, which posts them again elsewhere. */
static void conn_leave_requests(struct engine_conn *f)
{
	for (unsigned i = 0; i < MPIB_REQUESTS; i++)
		f->req[i].active = false;
	f->outstanding = 0;
}

static void conn_fail_requests(struct engine_conn *f, int error)
{
	/* Before broken, for the client reads words when it has seen that. */
	if (error == MPIB_BROKEN_LOST)
		conn_leave_requests(f);
	/* Release: pairs with the acquire in the client's mpib_test() and
	 * mpib_isend(); after that load the client submits nothing more. */
	atomic_store_explicit(&f->reply->broken, error, memory_order_release);
	for (unsigned i = 0; i < MPIB_REQUESTS; i++)
		engine_conn_finish(f, i, error, NULL, 0);
}

/* Take no more work and drop what is not posted. */
static void conn_quit(struct engine_conn *f)
{
	if (f->is_sender)
		mpib_sender_drop(f);
	else
		mpib_flush_quit(f);
	mpib_submit_forget(f);
}

void engine_conn_break(struct engine_conn *f, int error, const char *fmt, ...)
{
	struct mpib_engine *e = f->shard->engine;
	struct mpib_async_error *notice;
	va_list ap;

	if (f->broken || f->stopping)
		return;
	f->broken = error;
	/* First, since the client asks for the reason at once. */
	va_start(ap, fmt);
	notice = mpib_async_error_new(f, error, fmt, ap);
	va_end(ap);
	mpib_mailbox_send(&e->mailbox, &notice->msg, mpib_async_error_conn);

	conn_fail_requests(f, error);
	conn_quit(f);
}

/* None of the connection's WRs is in flight. */
static bool conn_idle(const struct engine_conn *f)
{
	return !f->stop_posted && (!f->is_sender || mpib_sender_idle(f));
}

/*
 * CTS and end-to-end acks are mostly unsignalled: post an empty signalled write
 * behind them on their QP, whose completion tells that all of them are done.
 * False: the QP has no room.
 */
static bool post_fence(struct engine_conn *f, unsigned rail)
{
	struct mpib_lane_qp *q = &f->lane->qp[rail][0];
	uint8_t bit = mpib_rail_bit(rail);
	struct mpib_wr *w;

	if (!(f->lane->open & bit)) {
		f->wrote &= (uint8_t)~bit; /* the rail's fence ended it */
		return true;
	}
	/* An ack was told again behind the one in flight: when that one completes
	 * another is posted. */
	if (f->stop_posted & bit)
		return true;
	if (mpib_qp_room(q) == 0)
		return false;
	w = mpib_qp_write(q, mpib_wr_tag(MPIB_WR_STOP, f->id, 0));
	w->wr.send_flags = IBV_SEND_SIGNALED;
	w->wr.wr.rdma.remote_addr = f->remote.addr;
	w->wr.wr.rdma.rkey = f->remote.rkey[rail];
	f->stop_posted |= bit;
	f->wrote &= (uint8_t)~bit;
	mpib_count_post(f, q, q->rail, 1, 0, false);
	mpib_qp_add(q, w);
	return true;
}

/* The last end-to-end ack, then a last write on each rail that was used. False:
 * some of it found no room. Without a rail the close that the control thread sends
 * has to do for an ack. */
static bool post_fences(struct engine_conn *f)
{
	bool all = f->is_sender || f->lane->broken || !f->lane->open ||
		   mpib_ack_write(f);

	for (unsigned r = 0; r < MPIB_RAILS && !f->lane->broken; r++) {
		if (f->wrote & mpib_rail_bit(r))
			all &= post_fence(f, r);
	}
	return all;
}

void engine_conn_check_stopped(struct engine_conn *f)
{
	struct mpib_call *call;

	/* On a rail being fenced old writes may still land. When the fence has
	 * stopped the rail, mpib_rail_on_bitmaps() calls this again. The client
	 * does not wait for that. */
	if (f->lane->fencing && !f->lane->broken) {
		conn_fail_requests(f, f->stop_error);
		return;
	}
	if (!post_fences(f)) {
		/* post_cts() in turn/sched.c tries again next turn. */
		if (!f->on_cts) {
			f->on_cts = true;
			TAILQ_INSERT_TAIL(&f->shard->cts, f, cts_link);
		}
		return;
	}
	if (!f->is_sender && !mpib_flush_idle(f))
		return; /* mpib_flush_read() calls this again */
	/* Writes on a broken lane need no wait: mpib_lane_kill() ends them. */
	if (!f->lane->broken && !conn_idle(f))
		return;
	conn_fail_requests(f, f->stop_error);
	f->stopped = true;
	if (!f->is_sender)
		f->ended = f->rx.tail;
	while ((call = TAILQ_FIRST(&f->stops))) {
		TAILQ_REMOVE(&f->stops, call, link);
		mpib_call_done(f->shard, call, 0);
	}
}

/* The receiver's last end-to-end ack is here, or its close tells which sends ended well,
 * though completions of theirs may be late. */
static void stop_delivered(struct engine_conn *f)
{
	if (f->ended > f->tx.acked)
		f->tx.acked = f->ended;
	mpib_ack_read(f);
	mpib_sender_settle(f);
	conn_fail_requests(f, f->stop_error);
}

static void on_stop(struct mpib_msg *msg)
{
	struct mpib_call *call = container_of(msg, struct mpib_call, msg);
	struct engine_conn *f = call->what;

	if (!f->started) {
		mpib_call_done(f->shard, call, 0);
		return;
	}
	TAILQ_INSERT_TAIL(&f->stops, call, link);
	if (!f->stopping) {
		mpib_cq_poll_all(f->shard); /* what has arrived counts */
		f->stop_error = f->broken ? f->broken : call->status;
		if (!f->is_sender)
			conn_fail_requests(f, f->stop_error);
		else if (f->lane->delivered)
			stop_delivered(f);
		/* Else a send that is posted ends as its rails say: the peer
		 * may have taken it, and its completion be late. */
		f->stopping = true;
		conn_quit(f);
	}
	engine_conn_check_stopped(f);
}

uint64_t engine_conn_ended(const struct engine_conn *conn)
{
	return conn->ended;
}

void engine_conn_peer_ended(struct engine_conn *conn, uint64_t ended)
{
	/* The shard reads it after the mailbox's message. */
	if (conn->is_sender)
		conn->ended = ended;
}

void engine_conn_stop(struct engine_conn *conn, int error, mpib_done_fn *done,
		      void *arg)
{
	struct mpib_call *call = mpib_call_new(conn, done, arg);

	call->status = error;
	mpib_mailbox_send(&conn->shard->mailbox, &call->msg, on_stop);
}
