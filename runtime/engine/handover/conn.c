/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hand-over of a connection. Addresses are serialized as a region's handle and
 * an offset into the region, since the new process maps the region elsewhere.
 * Control thread, shards halted; but on_moved() runs on the shard thread.
 */
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "engine/conn/conn.h"
#include "engine/handover/handover.h"

MPIB_SERIAL_SIZE(struct engine_request, 48);
static void conn_request(struct mpib_serial *p, struct engine_request *r)
{
	mpib_serial_u32(p, &r->gen);
	mpib_serial_bool(p, &r->active);
	mpib_serial_bool(p, &r->multipart);
	mpib_serial_bool(p, &r->posted);
	mpib_serial_bool(p, &r->report);
	mpib_serial_bool(p, &r->refused);
	mpib_serial_u8(p, &r->n);
	mpib_serial_u32(p, &r->msg);
	mpib_serial_u32(p, &r->total);
	mpib_serial_u32(p, &r->fed);
	mpib_serial_u32(p, &r->done);
	mpib_serial_u64(p, &r->since); /* CLOCK_MONOTONIC: the same for both */
	for (unsigned i = 0; i < MPIB_RAILS; i++)
		mpib_serial_u16(p, &r->chains[i]);
}

/* The number of the request that a send range, a send op's share or a slot
 * belongs to. */
static void conn_owner(struct mpib_serial *p, uint8_t *req)
{
	uint32_t n = *req;

	mpib_serial_count(p, &n, MPIB_REQUESTS - 1);
	*req = (uint8_t)n;
}

MPIB_SERIAL_SIZE(struct send_range, 32);
static void conn_range(struct mpib_serial *p, struct engine_conn *f,
		       struct send_range *e)
{
	conn_owner(p, &e->req);
	mpib_serial_i32(p, &e->tag);
	mpib_serial_u32(p, &e->len);
	mpib_serial_u32(p, &e->pos);
	mpib_place_serialize(p, f, &e->mr, &e->addr, e->len);
}

MPIB_SERIAL_SIZE(struct op_range, 32);
static void conn_share(struct mpib_serial *p, struct engine_conn *f,
		       struct op_range *s)
{
	uint32_t buf = s->buf;

	mpib_serial_u32(p, &s->at);
	mpib_serial_u32(p, &s->len);
	mpib_serial_u32(p, &s->sup);
	conn_owner(p, &s->req);
	mpib_serial_count(p, &buf, MPIB_GROUP_MAX - 1);
	s->buf = (uint8_t)buf;
	mpib_place_serialize(p, f, &s->mr, &s->from, s->len);
}

MPIB_SERIAL_SIZE(struct send_op, 112);
static void conn_op(struct mpib_serial *p, struct engine_conn *f,
		    struct send_op *op)
{
	uint32_t n = op->n;

	mpib_serial_u8(p, &op->c.all);
	mpib_serial_u8(p, &op->c.pending);
	mpib_serial_u8(p, &op->c.lost);
	mpib_serial_u8(p, &op->c.imm);
	mpib_serial_u8(p, &op->c.spread);
	for (unsigned k = 0; k < MPIB_RAILS; k++) {
		uint32_t carrier = op->c.carrier[k];
		uint32_t cover = op->c.cover[k];

		mpib_serial_count(p, &carrier, MPIB_RAILS - 1);
		mpib_serial_count(p, &cover, MPIB_RAILS - 1);
		op->c.carrier[k] = (uint8_t)carrier;
		op->c.cover[k] = (uint8_t)cover;
		mpib_serial_u32(p, &op->stripe[k].bytes);
	}
	mpib_serial_u64(p, &op->slot);
	mpib_serial_count(p, &n, MPIB_GROUP_MAX);
	if (!p->packing) {
		op->first = f->tx.share_head;
		if (op->first + send_op_takes(n) > SEND_SHARES) {
			mpib_serial_fail(p, "more ranges in flight than %u",
					 SEND_SHARES);
			n = 0;
		}
		f->tx.share_head += send_op_takes(n);
	}
	op->n = (uint8_t)n;
	op->report = false;
	for (unsigned i = 0; i < n; i++) {
		conn_share(p, f, send_op_share(f, op, i));
		op->report |= f->req[send_op_share(f, op, i)->req].report;
	}
	if (!p->packing)
		op->before = -1; /* what is replayed says nothing of a cut */
	/* With every rail fenced, a stripe that has not ended is lost. */
	if (op->c.pending != op->c.lost)
		mpib_serial_fail(p, "a piece is still under way");
}

MPIB_SERIAL_SIZE(struct mpib_group, 832);
static void conn_group(struct mpib_serial *p, struct engine_conn *f)
{
	struct mpib_group *g = &f->tx.group;
	uint32_t n = g->n;

	mpib_serial_count(p, &n, MPIB_GROUP_MAX);
	g->n = (uint8_t)n;
	mpib_serial_u8(p, &g->matched);
	mpib_serial_u8(p, &g->whole);
	mpib_serial_u8(p, &g->held);
	mpib_serial_u8(p, &g->mask);
	mpib_serial_bool(p, &g->refused);
	mpib_serial_bool(p, &g->stale);
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		mpib_serial_u64(p, &g->rail[r]);
	for (unsigned i = 0; i < n; i++) {
		conn_owner(p, &g->req[i]);
		mpib_serial_u32(p, &g->size[i]);
		mpib_serial_raw(p, &g->cts[i], sizeof(g->cts[i]));
		if (g->held >> i & 1)
			conn_range(p, f, &g->range[i]);
	}
}

/* Tail and head of a ring with at most this many entries between the two. */
static void index_pair(struct mpib_serial *p, uint32_t *tail, uint32_t *head,
		       uint32_t most)
{
	mpib_serial_u32(p, tail);
	mpib_serial_u32(p, head);
	if (*head - *tail <= most)
		return;
	mpib_serial_fail(p, "%u where %u is the most", *head - *tail, most);
	*head = *tail;
}

/* Not share_head and share_tail: the ranges in flight are numbered from 0. */
MPIB_SERIAL_SIZE(struct mpib_sender, 7592);
static void conn_sender(struct mpib_serial *p, struct engine_conn *f)
{
	struct mpib_sender *tx = &f->tx;

	mpib_serial_mark(p, "sender");
	index_pair(p, &tx->range_tail, &tx->range_head, SEND_RANGES);
	for (uint32_t i = tx->range_tail; i != tx->range_head; i++)
		conn_range(p, f, &tx->range[i % SEND_RANGES]);
	index_pair(p, &tx->op_tail, &tx->op_head, SEND_OPS);
	for (uint32_t i = tx->op_tail; i != tx->op_head; i++)
		conn_op(p, f, &tx->op[i % SEND_OPS]);
	mpib_serial_u32(p, &tx->lost);
	mpib_serial_raw(p, tx->ended, f->slots);
	mpib_serial_u64(p, &tx->cts_next);
	mpib_serial_u64(p, &tx->acked);
	mpib_serial_u32(p, &tx->msg);
	mpib_serial_u32(p, &tx->pos);
	conn_owner(p, &tx->req);
	mpib_serial_u8(p, &tx->mask);
	mpib_serial_u8(p, &tx->spread);
	mpib_serial_bool(p, &tx->released);
	mpib_serial_bool(p, &tx->moved);
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		mpib_serial_u64(p, &tx->rail[r]);
	conn_group(p, f);
	tx->looked_for = tx->cts_next;
	tx->looked = tx->range_tail;
	if (!p->packing && (mpib_sender_has_work(f) || tx->lost || tx->group.n))
		engine_conn_make_ready(f);
	if (!p->packing && f->lane->delivered && !mpib_sender_idle(f))
		mpib_ack_enter(f);
}

MPIB_SERIAL_SIZE(struct mpib_slot, 48);
/* The slot, and the address and rkeys in its CTS, which change with the
 * process. */
static void conn_slot(struct mpib_serial *p, struct engine_conn *f,
		      uint64_t number)
{
	struct mpib_slot *s = mpib_slot_at(f, number);
	struct mpib_cts *cts = f->tables.out;
	uint32_t state = s->state, n = s->n;

	cts += mpib_entry_of(f, number);
	mpib_serial_count(p, &state, MPIB_SLOT_CANCELLED);
	mpib_serial_count(p, &n, MPIB_GROUP_MAX);
	s->state = (uint8_t)state;
	s->n = (uint8_t)n;
	conn_owner(p, &s->req);
	mpib_serial_u8(p, &s->idx);
	mpib_serial_u8(p, &s->expected);
	mpib_serial_u8(p, &s->seen);
	mpib_serial_u32(p, &s->size_q);
	mpib_serial_u32(p, &s->pos);
	mpib_serial_u32(p, &s->len);
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		mpib_serial_u32(p, &s->rail[r]);
	mpib_place_serialize(p, f, &s->mr, &cts->addr, s->len);
	for (unsigned r = 0; !p->packing && s->mr && r < f->lane->rails; r++)
		cts->rkey[r] = s->mr->rkey[r];
}

MPIB_SERIAL_SIZE(struct mpib_receiver, 1864);
static void conn_members(struct mpib_serial *p, struct mpib_receiver *rx)
{
	uint32_t got = rx->group_got;

	mpib_serial_count(p, &got, MPIB_GROUP_MAX - 1);
	rx->group_got = (uint8_t)got;
	for (unsigned i = 0; i < got; i++)
		mpib_serial_raw(p, &rx->group[i], sizeof(rx->group[i]));
}

static void conn_receiver(struct mpib_serial *p, struct engine_conn *f)
{
	struct mpib_receiver *rx = &f->rx;
	uint64_t posted = rx->cts_posted;

	/* Cancelled slots whose CTS found no room need none any more: the fence
	 * has told the sender of tail. */
	if (posted < rx->tail)
		posted = rx->tail;
	mpib_serial_mark(p, "receiver");
	mpib_serial_u64(p, &rx->tail);
	mpib_serial_u64(p, &rx->freed);
	mpib_serial_u64(p, &posted);
	mpib_serial_u64(p, &rx->next);
	mpib_serial_u32(p, &rx->msg);
	conn_members(p, rx);
	mpib_flushes_serialize(p, f);
	if (rx->next - rx->tail > f->slots ||
	    posted - rx->tail > rx->next - rx->tail) {
		mpib_serial_fail(p, "slots out of their range");
		return;
	}
	for (uint64_t i = rx->tail; i != rx->next; i++)
		conn_slot(p, f, i);
	if (p->packing)
		return;
	/* Write the end-to-end ack again: the peer may be handed over, too. */
	rx->acked = MPIB_NOT_ACKED;
	rx->bitmap_tail = rx->tail; /* of the fence before the hand-over */
	mpib_ack_need(f);
	/* Post every CTS again, with the rkeys of this process. */
	rx->cts_again = rx->tail;
	rx->forgotten = rx->cts_posted = posted;
	if (rx->tail != rx->next) {
		f->on_cts = true;
		TAILQ_INSERT_TAIL(&f->shard->cts, f, cts_link);
	}
}

MPIB_SERIAL_SIZE(struct engine_conn_info, 24);
static void remote_end(struct mpib_serial *p, struct engine_conn_info *r)
{
	mpib_serial_count(p, &r->id, MPIB_WIRE_CONNS_MAX - 1);
	for (unsigned i = 0; i < MPIB_RAILS; i++)
		mpib_serial_u32(p, &r->rkey[i]);
	mpib_serial_u64(p, &r->addr);
}

/* The connection's share among the connections of its client. */
static void conn_drr(struct mpib_serial *p, struct engine_conn *f)
{
	uint32_t weight = f->drr.weight;
	uint64_t rate = f->drr.rate;

	mpib_serial_count(p, &weight, MPIB_DRR_WEIGHT_MAX);
	mpib_serial_u64(p, &rate);
	if (!p->packing)
		engine_conn_qos(f, weight, rate);
}

static void conn_body(struct mpib_serial *p, struct engine_conn *f)
{
	conn_drr(p, f);
	mpib_serial_u8(p, &f->home);
	f->home &= 1;
	mpib_serial_i32(p, &f->local_rank);
	mpib_serial_i32(p, &f->remote_rank);
	engine_conn_counts_serialize(p, f);
	mpib_serial_count(p, &f->outstanding, MPIB_REQUESTS);
	for (unsigned i = 0; i < MPIB_REQUESTS; i++)
		conn_request(p, &f->req[i]);
	mpib_serial_raw(p, f->tables.in, f->tables.in_bytes);
	mpib_serial_raw(p, f->tables.out, f->tables.out_bytes);
	if (f->is_sender)
		conn_sender(p, f);
	else
		conn_receiver(p, f);
}

void engine_conn_serialize(struct mpib_serial *p, struct engine_conn **conn,
			   struct engine_client *client, uint32_t index,
			   bool sending, struct mpib_lane *lane)
{
	struct engine_conn_info remote = { 0 };
	uint32_t id = 0;

	if (p->packing) {
		id = (*conn)->id;
		remote = (*conn)->remote;
	} else {
		*conn = NULL;
	}
	mpib_serial_mark(p, "connection");
	mpib_serial_count(p, &id, ENGINE_CONNS_MAX - 1);
	remote_end(p, &remote);
	if (p->failed)
		return;
	if (!p->packing && engine_conn_restore(client, index, sending, lane, id,
					       &remote, conn) < 0) {
		mpib_serial_fail(p, "no tables for a connection");
		return;
	}
	conn_body(p, *conn);
}

struct move {
	struct mpib_msg msg;
	struct engine_conn *conn;
	struct engine_conn_info remote;
};

/* Shard thread. Our tables hold what the peer wrote before its hand-over, with
 * keys that are no longer valid: clear them. That is safe because no rail
 * writes into the tables before both ends have sent UP for it, which comes
 * later. */
static void on_moved(struct mpib_msg *msg)
{
	struct move *m = container_of(msg, struct move, msg);
	struct engine_conn *f = m->conn;

	f->remote = m->remote;
	if (f->is_sender) {
		memset(f->tables.in, 0, f->tables.in_bytes);
		f->tx.moved = true;
		f->tx.cts_seen = f->tx.cts_next;
		f->tx.group.stale = f->tx.group.n > 0;
	} else {
		f->rx.acked = MPIB_NOT_ACKED;
		mpib_ack_need(f);
	}
	free(m);
}

bool engine_conn_moved(struct engine_conn *conn,
		       const struct engine_conn_info *remote)
{
	const struct mpib_lane *lane = conn->lane;
	struct move *m;

	if (remote->id != conn->remote.id || !lane->failover)
		return false;
	for (unsigned r = 0; r < lane->rails; r++) {
		if (lane->ctl.rail[r].fence.state == MPIB_FENCE_LIVE)
			return false;
	}
	m = mpib_xcalloc(sizeof(*m));
	m->conn = conn;
	m->remote = *remote;
	mpib_mailbox_send(&conn->shard->mailbox, &m->msg, on_moved);
	return true;
}
