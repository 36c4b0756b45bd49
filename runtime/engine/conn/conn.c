/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection of either direction from creation to destruction. The calls of
 * engine.h run on the control thread, the on_...() handlers that they send by
 * mailbox, engine_conn_break() and engine_conn_check_stopped() on the shard.
 */
#include "engine/conn/conn.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/xalloc.h"
#include "engine/async_error.h"
#include "engine/measure/count.h"

/* Fail all requests and drop the send ranges that are not posted. */
static void conn_abandon(struct engine_conn *f, int error)
{
	/* Release: pairs with the acquire in the client's mpib_test() and
	 * mpib_isend(); after that load the client submits nothing more. */
	atomic_store_explicit(&f->reply->broken, error, memory_order_release);
	for (unsigned i = 0; i < MPIB_REQUESTS; i++)
		engine_conn_finish(f, i, error, NULL, 0);
	if (f->is_sender)
		mpib_sender_drop(f);
	if (f->on_submit) {
		f->on_submit = false;
		TAILQ_REMOVE(&f->shard->submitting, f, submit_link);
	}
}

void engine_conn_break(struct engine_conn *f, int error, const char *fmt, ...)
{
	struct mpib_engine *e = f->shard->engine;
	struct mpib_async_error *notice;
	va_list ap;

	if (f->broken || f->stopping)
		return;
	f->broken = error;
	conn_abandon(f, error);

	va_start(ap, fmt);
	notice = mpib_async_error_new(f, error, fmt, ap);
	va_end(ap);
	mpib_mailbox_send(&e->mailbox, &notice->msg, mpib_async_error_conn);
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
	struct ibv_send_wr wr = {
		.wr_id = mpib_wr_tag(MPIB_WR_STOP, f->id, 0),
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};
	uint8_t bit = (uint8_t)(1u << rail);

	if (!(f->lane->open & bit)) {
		f->wrote &= (uint8_t)~bit; /* the rail's fence drained it */
		return true;
	}
	if (mpib_qp_room(q) == 0)
		return false;
	wr.wr.rdma.remote_addr = f->remote.addr;
	wr.wr.rdma.rkey = f->remote.rkey[rail];
	f->stop_posted |= bit;
	f->wrote &= (uint8_t)~bit;
	mpib_count_post(f, q, 1, 0, false);
	mpib_qp_post(q, &wr, 1);
	return true;
}

/* The last end-to-end ack, then a last write on each rail that was used. False:
 * some of it found no room. */
static bool post_fences(struct engine_conn *f)
{
	bool all = f->is_sender || f->lane->broken || !f->lane->open ||
		   mpib_ack_write(f);

	for (unsigned r = 0; r < MPIB_RAILS && !f->lane->broken; r++) {
		if (f->wrote & 1u << r)
			all &= post_fence(f, r);
	}
	return all;
}

void engine_conn_check_stopped(struct engine_conn *f)
{
	struct mpib_call *call;

	/* On a rail being fenced old writes may still land. When the fence has
	 * drained the rail, mpib_rail_on_bitmaps() calls this again. */
	if (f->lane->fencing && !f->lane->broken)
		return;
	if (!post_fences(f)) {
		/* post_cts() in turn/sched.c tries again next turn. */
		if (!f->on_cts) {
			f->on_cts = true;
			TAILQ_INSERT_TAIL(&f->shard->cts, f, cts_link);
		}
		return;
	}
	/* Writes on a broken lane need no wait: mpib_lane_kill() ends them. */
	if (!f->lane->broken && !conn_idle(f))
		return;
	f->stopped = true;
	while ((call = TAILQ_FIRST(&f->stops))) {
		TAILQ_REMOVE(&f->stops, call, link);
		mpib_call_done(f->shard, call, 0);
	}
}

static void on_start(struct mpib_msg *msg)
{
	struct engine_conn *f =
		(struct engine_conn *)((char *)msg -
				       offsetof(struct engine_conn, msg));
	struct mpib_shard *s = f->shard;

	s->conn[f->id] = f;
	f->client->conn[f->index] = f;
	f->started = true;
	f->since = s->now;
	TAILQ_INSERT_TAIL(&f->lane->conns, f, lane_link);
	f->lane->nconns++;
	if (f->is_sender)
		mpib_drr_enter(&f->drr);
	if (f->lane->broken)
		engine_conn_break(f, -ECONNRESET, "its lane is down");
	/* The client may have pushed descriptors and set the summary bit before
	 * the shard knew the ring, so look at the ring once without the bit. */
	f->on_submit = !f->broken;
	if (f->on_submit)
		TAILQ_INSERT_TAIL(&s->submitting, f, submit_link);
}

static void on_stop(struct mpib_msg *msg)
{
	struct mpib_call *call = (struct mpib_call *)msg;
	struct engine_conn *f = call->what;

	if (!f->started) {
		mpib_call_done(f->shard, call, 0);
		return;
	}
	TAILQ_INSERT_TAIL(&f->stops, call, link);
	if (!f->stopping) {
		mpib_cq_drain(f->shard); /* what has arrived counts */
		if (f->is_sender && f->lane->delivered)
			mpib_ack_read(f);
		f->stopping = true;
		conn_abandon(f, f->broken ? f->broken : call->status);
	}
	engine_conn_check_stopped(f);
}

static void conn_on_destroy(struct mpib_msg *msg)
{
	struct mpib_call *call = (struct mpib_call *)msg;
	struct engine_conn *f = call->what;
	struct mpib_shard *s = f->shard;

	if (f->started) {
		s->conn[f->id] = NULL;
		f->client->conn[f->index] = NULL;
		TAILQ_REMOVE(&f->lane->conns, f, lane_link);
		f->lane->nconns--;
		for (unsigned r = 0; r < MPIB_RAILS; r++)
			mpib_rail_counts_add(&f->client->closed[r], &f->n[r]);
		f->client->closed_messages += f->messages;
		if (f->is_sender) {
			mpib_drr_leave(&f->drr);
			mpib_sender_forget(f);
		} else {
			mpib_receiver_drop(f);
		}
		if (f->on_cts)
			TAILQ_REMOVE(&s->cts, f, cts_link);
		mpib_ack_leave(f);
	}
	mpib_call_done(s, call, 0);
}

/* Control thread, as the next two: the shard's bitmap of connection ids. */
static bool take_this_id(struct mpib_shard *s, uint32_t id)
{
	uint64_t bit = 1ull << id % 64;

	if (s->conn_ids[id / 64] & bit)
		return false;
	s->conn_ids[id / 64] |= bit;
	return true;
}

static uint32_t take_conn_id(struct mpib_shard *s)
{
	for (uint32_t i = 0; i < ENGINE_CONNS_MAX / 64; i++) {
		if (s->conn_ids[i] != UINT64_MAX) {
			uint32_t bit =
				(uint32_t)__builtin_ctzll(~s->conn_ids[i]);

			s->conn_ids[i] |= 1ull << bit;
			return i * 64 + bit;
		}
	}
	return ENGINE_CONNS_MAX;
}

static void give_conn_id(struct mpib_shard *s, uint32_t id)
{
	s->conn_ids[id / 64] &= ~(1ull << id % 64);
}

static void init_ring(struct engine_conn *f)
{
	struct engine_client *a = f->client;

	f->reply = &a->reply->conn[f->index];
	f->completion = a->reply->completion[f->index];
	/* The ring's indices go on where the previous connection at this index
	 * left them, as in the client. The head lies in the reply segment,
	 * which the client cannot write. */
	f->ring = (struct mpib_consumer){
		.slot = a->submit->ring[f->index],
		.head = &f->reply->head,
		.next = atomic_load_explicit(&f->reply->head,
					     memory_order_relaxed),
		.size = MPIB_RING_SLOTS,
	};
	atomic_store_explicit(&f->reply->broken, 0, memory_order_relaxed);
}

/* A receiving connection takes a fifth of the memory of a sending one: it is
 * allocated without the rest of the union. */
static size_t conn_bytes(bool sender)
{
	return sender ? sizeof(struct engine_conn)
		      : offsetof(struct engine_conn, rx) +
				sizeof(struct mpib_receiver);
}

static int conn_make(struct engine_client *client, uint32_t index, bool sender,
		     struct mpib_lane *lane, uint32_t id,
		     struct engine_conn **conn)
{
	struct mpib_shard *s = client->shard;
	struct engine_conn *f = calloc(1, conn_bytes(sender));
	int rc;

	if (!f)
		return -ENOMEM;
	rc = mpib_tables_get(client->tenant, &f->tables);
	if (rc < 0)
		goto err_free;
	f->id = id;
	f->shard = s;
	f->client = client;
	f->lane = lane;
	f->index = index;
	f->is_sender = sender;
	f->local_rank = f->remote_rank = -1;
	f->home = mpib_policy_home(lane);
	f->hint_slot = UINT32_MAX;
	mpib_drr_init(&f->drr, &client->drr);
	TAILQ_INIT(&f->stops);
	s->conns_made++;
	mpib_times_watch(f);
	*conn = f;
	return 0;

err_free:
	free(f);
	return rc;
}

int engine_conn_create(struct engine_client *client, uint32_t index,
		       bool sender, struct mpib_lane *lane,
		       struct engine_conn **conn)
{
	uint32_t id = take_conn_id(client->shard);
	int rc = id == ENGINE_CONNS_MAX
			 ? -ENOSPC
			 : conn_make(client, index, sender, lane, id, conn);

	if (rc < 0 && id != ENGINE_CONNS_MAX)
		give_conn_id(client->shard, id);
	return rc;
}

int engine_conn_restore(struct engine_client *client, uint32_t index,
			bool sender, struct mpib_lane *lane, uint32_t id,
			const struct engine_conn_info *remote,
			struct engine_conn **conn)
{
	int rc = take_this_id(client->shard, id)
			 ? conn_make(client, index, sender, lane, id, conn)
			 : -EEXIST;

	if (rc < 0)
		return rc;
	(*conn)->remote = *remote;
	init_ring(*conn);
	on_start(&(*conn)->msg);
	return 0;
}

void engine_conn_local(const struct engine_conn *conn,
		       struct engine_conn_info *info)
{
	*info = (struct engine_conn_info){
		.id = conn->id,
		.rkey = { conn->tables.rkey[0], conn->tables.rkey[1] },
		.addr = (uint64_t)(uintptr_t)conn->tables.in,
	};
}

void engine_conn_set_hint(struct engine_conn *conn, uint32_t slot)
{
	/* Relaxed: hint_slot() in policy.c reads this number alone. */
	atomic_store_explicit(&conn->hint_slot, slot, memory_order_relaxed);
}

void engine_conn_qos(struct engine_conn *conn, uint32_t weight, uint64_t rate)
{
	mpib_drr_set(&conn->drr, weight, rate);
}

void engine_conn_start(struct engine_conn *conn,
		       const struct engine_conn_info *remote)
{
	conn->remote = *remote;
	init_ring(conn);
	mpib_mailbox_send(&conn->shard->mailbox, &conn->msg, on_start);
}

void engine_conn_stop(struct engine_conn *conn, int error, mpib_done_fn *done,
		      void *arg)
{
	struct mpib_call *call = mpib_call_new(conn, done, arg);

	call->status = error;
	mpib_mailbox_send(&conn->shard->mailbox, &call->msg, on_stop);
}

struct conn_destroy {
	struct engine_conn *conn;
	mpib_done_fn *done;
	void *arg;
};

static void conn_destroyed(void *arg, int status)
{
	struct conn_destroy *d = arg;
	struct mpib_shard *s = d->conn->shard;

	mpib_times_close(d->conn);
	mpib_tables_put(d->conn->client->tenant, &d->conn->tables);
	give_conn_id(s, d->conn->id);
	s->conns_made--;
	free(d->conn);
	d->done(d->arg, status);
	free(d);
}

void engine_conn_destroy(struct engine_conn *conn, mpib_done_fn *done,
			 void *arg)
{
	struct conn_destroy *d = mpib_xcalloc(sizeof(*d));
	struct mpib_call *call;

	*d = (struct conn_destroy){ conn, done, arg };
	call = mpib_call_new(conn, conn_destroyed, d);
	mpib_mailbox_send(&conn->shard->mailbox, &call->msg, conn_on_destroy);
}
