/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection of either direction from creation to destruction. The calls of
 * engine.h run on the control thread. They send mailbox messages, whose
 * on_...() handlers run on the shard.
 */
#include "engine/conn/conn.h"
#include "engine/conn/request.h"

#include <mpib/agent.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/users.h"
#include "engine/measure/count.h"

static void on_start(struct mpib_msg *msg)
{
	struct engine_conn *f = container_of(msg, struct engine_conn, msg);
	struct mpib_shard *s = f->shard;

	s->conn[f->id] = f;
	f->client->conn[f->index] = f;
	f->state = ENGINE_CONN_OPEN;
	f->since = s->now;
	TAILQ_INSERT_TAIL(&f->lane->conns, f, lane_link);
	f->lane->nconns++;
	if (f->is_sender)
		mpib_drr_enter(&f->drr);
	else
		/* refill the SRQ before the peer knows a slot */
		s->srq_short = true;
	if (f->lane->broken)
		engine_conn_break(f, mpib_conn_lost_error(s->engine),
				  "its lane is down");
	/* The client may have pushed descriptors and set the summary bit before
	 * the shard knew the ring, so check the ring once without the bit. */
	if (f->state == ENGINE_CONN_OPEN)
		mpib_submit_remember(f);
}

static void conn_on_destroy(struct mpib_msg *msg)
{
	struct mpib_call *call = container_of(msg, struct mpib_call, msg);
	struct engine_conn *f = call->what;
	struct mpib_shard *s = f->shard;

	if (f->state != ENGINE_CONN_NEW) {
		s->conn[f->id] = NULL;
		f->client->conn[f->index] = NULL;
		TAILQ_REMOVE(&f->lane->conns, f, lane_link);
		f->lane->nconns--;
		for (unsigned r = 0; r < MPIB_RAILS; r++) {
			mpib_rail_counts_add(&f->client->closed[r], &f->n[r]);
			mpib_rail_counts_add(&f->lane->n[r], &f->n[r]);
		}
		f->client->closed_messages += f->messages;
		f->lane->messages += f->messages;
		for (unsigned i = 0; i < MPIB_STALLS; i++)
			f->client->closed_stall_ns += f->stall_ns[i];
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

/* Reserve a connection id in the shard's bitmap. Control thread, like the next
 * function. A freed id is reused only after all others, because late messages
 * of the peer after a fence may refer to the old connection. */
static uint32_t take_conn_id(struct mpib_shard *s)
{
	for (uint32_t i = 0; i < ENGINE_CONNS_MAX; i++) {
		uint32_t id = (s->conn_id_next + i) % ENGINE_CONNS_MAX;

		if (s->conn_ids[id / 64] >> id % 64 & 1)
			continue;
		s->conn_ids[id / 64] |= 1ull << id % 64;
		s->conn_id_next = (id + 1) % ENGINE_CONNS_MAX;
		return id;
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
	f->answer = a->reply->answers[f->index];
	/* At both ends of the ring, the indices continue where the previous
	 * connection at this index ended. The head is in the reply segment,
	 * which the client cannot write. */
	f->ring = (struct mpib_consumer){
		.slot = a->submit->ring[f->index],
		.head = &f->reply->head,
		.next = atomic_load_explicit(&f->reply->head,
					     memory_order_relaxed),
		.size = MPIB_RING_SLOTS,
	};
	atomic_store_explicit(&f->reply->broken, 0, memory_order_relaxed);
	/* Publish a ring index that differs from the client's, so that the
	 * client ignores the tags of the previous connection. */
	mpib_want_tell(&f->reply->want, f->ring.next - 1, NULL, 0);
}

/* Return the size of a connection, without the part of the union that it does
 * not use. */
size_t engine_conn_bytes(bool sender)
{
	return sender ? offsetof(struct engine_conn, tx) +
				sizeof(struct mpib_sender)
		      : offsetof(struct engine_conn, rx) +
				sizeof(struct mpib_receiver);
}

/* Compute the sizes of the tables. The end-to-end acks follow the CTS table,
 * both in the sender's table and in the receiver's copy. A sender writes at
 * most one record per send op. */
static void size_tables(struct engine_conn *f)
{
	uint32_t cts = MPIB_ACK_AT + sizeof(struct mpib_e2e_ack);
	uint32_t record = sizeof(struct mpib_record);

	f->tables.in_bytes = f->is_sender ? cts : MPIB_TABLE_SLOTS * record;
	f->tables.out_bytes = f->is_sender ? SEND_OPS * record : cts;
}

static int conn_make(struct engine_client *client, uint32_t index, bool sender,
		     struct mpib_lane *lane, uint32_t id,
		     struct engine_conn **conn)
{
	struct mpib_shard *s = client->shard;
	struct engine_conn *f = calloc(1, engine_conn_bytes(sender));
	int rc;

	if (!f)
		return -ENOMEM;
	f->is_sender = sender;
	size_tables(f);
	rc = mpib_tables_get(client->tenant, lane->rails, &f->tables);
	if (rc < 0)
		goto err_free;
	f->id = id;
	f->shard = s;
	f->client = client;
	f->lane = lane;
	f->index = index;
	f->rank = -1;
	f->home = mpib_policy_home(lane);
	f->hint_slot = UINT32_MAX;
	/* split.c reads this value as "no hint", so the split does not
	 * change. */
	f->hint = s->engine->cfg.mode == MPIB_MODE_ADAPTIVE ? MPIB_HINT_OWN : 0;
	mpib_drr_init(&f->drr, &client->drr);
	if (!sender)
		mpib_srq_joined(client->tenant);
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
	struct mpib_shard *s = client->shard;
	uint32_t most = mpib_places_for(ENGINE_CONNS_MAX, client->tenant->uid);
	uint32_t id = s->conns_made < most ? take_conn_id(s) : ENGINE_CONNS_MAX;
	int rc;

	if (id == ENGINE_CONNS_MAX)
		return mpib_last_error_set(
			s->engine, -ENOSPC,
			"shard %u has %u connections (close some, or raise "
			"proxy.threads)",
			s->index, most);
	rc = conn_make(client, index, sender, lane, id, conn);
	if (rc < 0)
		give_conn_id(s, id);
	else
		lane->ctl.conns++;
	return rc;
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

void engine_conn_goes_on(struct engine_conn *conn)
{
	for (unsigned r = 0; !conn->is_sender && r < conn->lane->rails; r++)
		conn->rx.flush.arrived[r] = mpib_now_ns();
}

void engine_conn_set_hint(struct engine_conn *conn, uint32_t slot)
{
	/* Relaxed: hint_slot() in split.c reads only this number. */
	atomic_store_explicit(&conn->hint_slot, slot, memory_order_relaxed);
}

void engine_conn_start(struct engine_conn *conn,
		       const struct engine_conn_info *remote)
{
	conn->remote = *remote;
	init_ring(conn);
	/* Relaxed: the value is published with the connection's state. */
	atomic_store_explicit(&conn->reply->flushed, 0, memory_order_relaxed);
	mpib_mailbox_send(&conn->shard->mailbox, &conn->msg, on_start);
}

static void conn_destroyed(struct mpib_call *call)
{
	struct engine_conn *f = call->what;

	mpib_times_close(f);
	mpib_tables_put(f->client->tenant, &f->tables);
	if (!f->is_sender)
		mpib_srq_left(f->client->tenant);
	give_conn_id(f->shard, f->id);
	f->shard->conns_made--;
	free(f);
}

void engine_conn_destroy(struct engine_conn *conn, mpib_done_fn *done,
			 void *arg)
{
	struct mpib_call *call = mpib_call_new(conn, done, arg);

	call->after = conn_destroyed;
	mpib_mailbox_send(&conn->shard->mailbox, &call->msg, conn_on_destroy);
}

/* How a connection ends: it breaks, or the control thread stops it. Then its
 * requests end. All functions except engine_conn_stop() run on the shard. */

/* Leave the requests unfinished: the rank posts them again on another
 * connection. */
static void conn_leave_requests(struct engine_conn *f)
{
	if (f->outstanding > 0)
		f->unmoved = !f->lane->moved;
	for (unsigned i = 0; i < MPIB_REQUESTS; i++)
		f->req[i].active = false;
	f->outstanding = 0;
}

static void conn_fail_requests(struct engine_conn *f, int error)
{
	/* Write the completion words before `broken`, because the client reads
	 * them after it has seen `broken`. */
	if (error == MPIB_BROKEN_LOST)
		conn_leave_requests(f);
	/* Release pairs with the acquire in the client's mpib_test() and
	 * mpib_isend(). A client that has seen the error submits nothing
	 * more. */
	atomic_store_explicit(&f->reply->broken, error, memory_order_release);
	for (unsigned i = 0; i < MPIB_REQUESTS; i++)
		engine_conn_finish(f, i, error, NULL, 0);
}

/* Accept no more work, and drop work that is not posted. */
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
	char why[MPIB_BROKEN_WHY];
	va_list ap;

	if (f->state != ENGINE_CONN_OPEN)
		return;
	f->state = ENGINE_CONN_BROKEN;
	f->error = error;
	/* Tell the control thread first, because the client asks for the reason
	 * as soon as it sees the error. */
	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	mpib_broken_tell(f->lane, f, error, why);

	conn_fail_requests(f, error);
	conn_quit(f);
}

/* Return whether none of the connection's WRs is in flight. */
static bool conn_idle(const struct engine_conn *f)
{
	return !f->stop_posted && (!f->is_sender || mpib_sender_idle(f));
}

/* Post an empty signalled write on the QP of the CTS and end-to-end acks. Most
 * CTS and acks are unsignalled. When this write completes, all earlier ones
 * have completed, too. False: the QP has no room. */
static bool post_last_write(struct engine_conn *f, unsigned rail)
{
	struct mpib_lane_qp *q = &f->lane->qp[rail][0];
	uint8_t bit = mpib_rail_bit(rail);
	struct mpib_wr *w;

	if (!(f->lane->open & bit)) {
		/* the rail's fence has ended these writes */
		f->wrote &= (uint8_t)~bit;
		return true;
	}
	/* An ack was posted after the stop WR that is in flight. When that stop
	 * WR completes, another one is posted. */
	if (f->stop_posted & bit)
		return true;
	if (!mpib_qp_fits(q, q->rail, 1))
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

/* Post the last end-to-end ack, then a last write on each rail that was used.
 * False: there was no room for some of these writes. If no rail is open, the
 * control thread's close message replaces the ack. */
static bool post_last_writes(struct engine_conn *f)
{
	bool all = f->is_sender || f->lane->broken || !f->lane->open ||
		   mpib_ack_write(f);

	for (unsigned r = 0; r < MPIB_RAILS && !f->lane->broken; r++) {
		if (f->wrote & mpib_rail_bit(r))
			all &= post_last_write(f, r);
	}
	return all;
}

void engine_conn_check_stopped(struct engine_conn *f)
{
	if (f->state != ENGINE_CONN_STOPPING)
		return;
	/* While a rail is being fenced, old writes may still arrive on it. When
	 * the fence has stopped the rail, mpib_rail_on_bitmaps() calls this
	 * function again. Fail the client's requests now, before the fence is
	 * done. */
	if (!f->lane->broken && mpib_lane_fencing(f->lane)) {
		conn_fail_requests(f, f->error);
		return;
	}
	if (!post_last_writes(f)) {
		/* post_cts() in shard.c tries again in the next turn. */
		mpib_cts_due(f);
		return;
	}
	if (!f->is_sender && !mpib_flush_idle(f))
		return; /* mpib_flush_read() calls this function again */
	/* On a broken lane do not wait for writes: mpib_lane_kill() flushes
	 * them. */
	if (!f->lane->broken && !conn_idle(f))
		return;
	conn_fail_requests(f, f->error);
	f->state = ENGINE_CONN_STOPPED;
	if (!f->is_sender)
		atomic_store_explicit(&f->ended, f->rx.tail,
				      memory_order_relaxed);
	mpib_call_done(f->shard, f->stop, 0);
	f->stop = NULL;
}

/* End the sends that succeeded according to the receiver's last end-to-end ack
 * or its close message. The completions of these sends may come later. */
static void stop_delivered(struct engine_conn *f)
{
	uint64_t ended = atomic_load_explicit(&f->ended, memory_order_relaxed);

	if (mpib_ack_take(f, ended))
		mpib_ack_read(f);
	mpib_sender_settle(f);
	conn_fail_requests(f, f->error);
}

static void on_stop(struct mpib_msg *msg)
{
	struct mpib_call *call = container_of(msg, struct mpib_call, msg);
	struct engine_conn *f = call->what;

	if (f->state == ENGINE_CONN_NEW) {
		mpib_call_done(f->shard, call, 0);
		return;
	}
	mpib_cq_poll_all(f->shard); /* handle IMMs that have arrived */
	if (f->state == ENGINE_CONN_OPEN)
		f->error = call->status;
	if (!f->is_sender)
		conn_fail_requests(f, f->error);
	else if (f->lane->delivered)
		stop_delivered(f);
	/* On a lane without end-to-end acks, the peer may have received a
	 * posted send whose completions come later. So a posted send ends only
	 * when its WRs complete. */
	f->state = ENGINE_CONN_STOPPING;
	f->stop = call;
	conn_quit(f);
	engine_conn_check_stopped(f);
}

uint64_t engine_conn_ended(const struct engine_conn *conn)
{
	return atomic_load_explicit(&conn->ended, memory_order_relaxed);
}

bool engine_conn_unmoved(const struct engine_conn *conn)
{
	return conn->unmoved;
}

void engine_conn_peer_ended(struct engine_conn *conn, uint64_t ended)
{
	/* The mailbox message of engine_conn_stop() orders this store before
	 * the shard's load. */
	if (conn->is_sender)
		atomic_store_explicit(&conn->ended, ended,
				      memory_order_relaxed);
}

void engine_conn_stop(struct engine_conn *conn, int error, mpib_done_fn *done,
		      void *arg)
{
	struct mpib_call *call = mpib_call_new(conn, done, arg);

	call->status = error;
	mpib_mailbox_send(&conn->shard->mailbox, &call->msg, on_stop);
}
