/* SPDX-License-Identifier: Apache-2.0 */
/* Send ops: the chain of WRs that one rail carries, its spreading over several
 * QPs, and the state in flight. A send op is in flight until the completions of
 * all its rails have arrived. On lanes with end-to-end acks, the receiver must
 * also have acknowledged the slot. This file also writes the receiver's
 * end-to-end acks. Shard thread. */
#include <errno.h>
#include <mpib/wire.h>

#include "engine/conn/chain.h"
#include "engine/conn/request.h"
#include "engine/lane/spread.h"

struct mpib_wr *mpib_chain_record(struct engine_conn *f, unsigned rail,
				  const struct mpib_record *record)
{
	struct mpib_wr *w = mpib_wr_take(&f->shard->wrs);

	w->wr.opcode = IBV_WR_RDMA_WRITE;
	w->wr.send_flags = 0;
	w->wr.wr.rdma.remote_addr = f->remote.addr;
	w->wr.wr.rdma.rkey = f->remote.rkey[rail];
	if (!record) {
		w->wr.num_sge = 0;
		return w;
	}
	w->sge[0] = (struct ibv_sge){ .addr = (uint64_t)(uintptr_t)record,
				      .length = sizeof(*record),
				      .lkey = f->tables.lkey[rail] };
	w->wr.wr.rdma.remote_addr +=
		(record->seq - 1) % MPIB_TABLE_SLOTS * sizeof(*record);
	if (f->shard->rail[rail].port.max_inline >= sizeof(*record))
		w->wr.send_flags = IBV_SEND_INLINE;
	return w;
}

void mpib_chain_drop(struct engine_conn *f, const struct mpib_chain *c)
{
	struct ibv_send_wr *wr = c->wrs.n ? &c->wrs.first->wr : NULL, *next;

	for (; wr; wr = next) {
		next = wr->next;
		mpib_wr_give(&f->shard->wrs, (struct mpib_wr *)wr);
	}
}

/* On a dqplb lane, return whether the length of the IMM's payload tells the
 * receiver to wait for fragments. If so, the chain must be spread. */
static bool chain_is_bare(const struct mpib_lane *lane,
			  const struct mpib_chain *c)
{
	const struct ibv_send_wr *last = &c->wrs.last->wr;

	return c->imm && lane->via[c->rail].vqp &&
	       mpib_spread_waits(last->num_sge ? last->sg_list->length : 0);
}

/* Convert one WR of the chain to a send of a virtual QP, which cuts it into
 * fragments. */
static struct mpib_vsend chain_part(const struct ibv_send_wr *wr)
{
	struct mpib_vsend v = {
		.remote = wr->wr.rdma.remote_addr,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.devices = 1,
		.key[0].rkey = wr->wr.rdma.rkey,
		.more = true,
	};

	if (wr->num_sge) {
		v.local = wr->sg_list->addr;
		v.length = wr->sg_list->length;
		v.key[0].lkey = wr->sg_list->lkey;
	}
	return v;
}

/* Add the chain's IMM to the send. The payload of the IMM is the record, if
 * there is one. */
static void chain_tell(struct mpib_vsend *v, const struct ibv_send_wr *wr)
{
	v->more = false;
	v->imm = be32toh(wr->imm_data);
	v->control.remote = wr->wr.rdma.remote_addr;
	v->control.rkey = wr->wr.rdma.rkey;
	if (wr->num_sge) {
		v->control.local = wr->sg_list->addr;
		v->control.length = wr->sg_list->length;
		v->control.lkey = wr->sg_list->lkey;
		v->control.copied = wr->send_flags & IBV_SEND_INLINE;
	}
}

/* Post the chain over several QPs of its rail, see lane/spread.h. */
static void chain_spread(struct engine_conn *f, const struct mpib_chain *c,
			 uint32_t op)
{
	struct mpib_lane_qp *q = c->q;
	const struct ibv_send_wr *wr = &c->wrs.first->wr;
	const struct ibv_send_wr *last = &c->wrs.last->wr;
	bool imm = c->imm;
	struct mpib_vqp *vqp = f->lane->via[q->rail].vqp;
	unsigned n = c->wrs.n - imm; /* WRs with payload */
	uint32_t wrs = imm;

	for (unsigned i = 0; i < n || (i == 0 && imm); i++, wr = wr->next) {
		struct mpib_vsend v = chain_part(wr);

		if (n == 0)
			/* The payload travels with the IMM, see
			 * chain_tell(). */
			v.length = 0;
		v.on = (uint16_t)(q - f->lane->qp[q->rail]);
		v.wr_id = mpib_wr_tag(MPIB_WR_UNSIGNALED, f->id, op);
		if (i + 1 >= n) {
			v.wr_id = mpib_wr_tag(MPIB_WR_OP, f->id, op);
			v.flags = IBV_SEND_SIGNALED;
			if (imm)
				chain_tell(&v, last);
		}
		wrs += mpib_vqp_wrs(vqp, v.length);
		/* This cannot fail: step_may_post() has checked the virtual
		 * QP's room. */
		mpib_vqp_post_send(vqp, &v);
	}
	mpib_count_post(f, q, q->rail, wrs, c->bytes, imm);
	mpib_chain_drop(f, c);
}

bool mpib_sender_spread(struct engine_conn *f, struct send_op *p,
			struct mpib_chain chain, uint32_t number)
{
	struct mpib_lane *lane = f->lane;
	uint8_t bit = mpib_rail_bit(chain.rail);

	if (lane->spread == MPIB_SPREAD_AUTO && chain.bytes > lane->frag)
		mpib_choice_posted(&lane->choice[chain.rail], chain.bytes);
	if (lane->numbered && chain_is_bare(lane, &chain))
		p->c.spread |= bit;
	if (!(p->c.spread & bit))
		return false;
	chain_spread(f, &chain, number);
	return true;
}

void mpib_sender_report(struct engine_conn *f, const struct send_op *p)
{
	/* The control thread owns the QPs of a rail that is not open. */
	for (unsigned on = p->c.all; on; on &= on - 1) {
		unsigned r = (unsigned)__builtin_ctz(on);
		uint32_t qpn = engine_conn_qp(f, r, p->slot)->qpn;

		for (unsigned i = 0; i < p->n; i++) {
			const struct op_range *s = send_op_range(f, p, i);

			if (f->req[s->req].report)
				mpib_report_rail(f, s->req, r, 1, qpn,
						 mpib_range_bytes(s, r));
		}
	}
}

/* Return whether the group, which waits for sends, has a staged send. The
 * client can submit the rest of that send only after posted bytes have left its
 * staging window. Even if the staged bytes are released early, no send of the
 * group completes. */
static bool group_starves(const struct engine_conn *f)
{
	const struct mpib_group *g = &f->tx.group;
	bool staged = false;

	for (unsigned i = 0; i < g->n; i++)
		staged |= g->matched & 1u << i && f->req[g->req[i]].multipart;
	return staged;
}

/*
 * Return whether the oldest send op must end before its slot does, because
 * waiting for the slot's end-to-end ack would be a deadlock. There are two
 * cases. First, no other send op is free, and the rest of the slot needs a send
 * op. Second, the client's staging window is smaller than the peer's buffer or
 * the group. In the second case the client submits no more until it may reuse
 * some of the slot's bytes.
 */
static bool send_op_starves(struct engine_conn *f, const struct send_op *p)
{
	const struct engine_request *r = &f->req[send_op_range(f, p, 0)->req];

	if (!send_op_free(f, f->tx.group.n ? f->tx.group.n : 1))
		return true;
	if (!mpib_match_none(f))
		return false;
	if (f->tx.group.n)
		return group_starves(f);
	return r->multipart && r->fed < r->total;
}

/* Return whether a send op that the rails acknowledged must still wait for its
 * end-to-end ack. Until that ack, a fence may find that the peer lacks the
 * bytes. */
static bool send_op_is_held(struct engine_conn *f, const struct send_op *p)
{
	if (f->state != ENGINE_CONN_OPEN)
		return false;
	if (p->slot != f->tx.cts_next || !send_op_starves(f, p))
		return true;
	f->tx.released = true;
	return false;
}

/* Add the bytes of a range of a completed send op to its request. A request
 * ends only with the send op that ends the receive. Other send ops of the
 * request may end earlier. */
__attribute__((always_inline)) static inline void
range_count(struct engine_conn *f, const struct send_op *p,
	    const struct op_range *s)
{
	struct engine_request *r = mpib_kept(&f->req[s->req]);

	if (!r->active)
		return;
	r->done += s->len;
	if (r->refused && s->len == 0)
		engine_conn_finish(f, s->req, -EMSGSIZE, NULL, 0);
	else if (r->done == r->total && p->c.imm)
		engine_conn_finish(f, s->req, (int32_t)r->total, &r->total, 1);
	else
		engine_conn_progress(f, s->req, r->done);
}

void mpib_sender_settle(struct engine_conn *f)
{
	struct mpib_sender *tx = &f->tx;

	for (uint32_t i = tx->op_tail; i != tx->op_head; i++) {
		const struct send_op *p = send_op_at(f, i);

		for (unsigned k = 0; p->slot < tx->acked && k < p->n; k++)
			range_count(f, p, send_op_range(f, p, k));
	}
}

/* Add a sample for MPIB_SPREAD_AUTO: the time of a stripe, either on one QP or
 * spread over several. Skip a replayed stripe, because another rail carried
 * it. */
static void judge_way(struct engine_conn *f, const struct send_op *p,
		      unsigned k)
{
	const struct mpib_stripe *c = &p->stripe[k];
	const struct mpib_tracker *t = &f->lane->track[k];

	if (p->c.carrier[k] == k && c->bytes > f->lane->frag)
		mpib_choice_note(
			&f->lane->choice[k], c->bytes, p->c.spread >> k & 1,
			f->shard->now - c->posted, t->sum->acked - c->before);
}

/* Handle the acknowledgement of stripe k. */
__attribute__((always_inline)) static inline void
stripe_acked(struct engine_conn *f, struct send_op *p, unsigned k)
{
	unsigned rail = p->c.carrier[k];
	struct mpib_stripe *c = &p->stripe[k];
	uint64_t now = f->shard->now;

	for (unsigned i = 0; p->report && i < p->n; i++) {
		unsigned req = send_op_range(f, p, i)->req;

		if (f->req[req].report)
			mpib_report_rail(f, req, rail, -1, 0, 0);
	}
	if (f->lane->spread == MPIB_SPREAD_AUTO)
		judge_way(f, p, k);
	mpib_record(f, MPIB_TIME_POST_SOUT + rail, now - c->posted);
	mpib_tracker_ack(mpib_kept(&f->lane->track[rail]), c, now);
}

/* Forget stripe k, which is no longer in flight. The sender does not know
 * whether the stripe arrived. */
static void drop_stripe(struct engine_conn *f, struct send_op *p, unsigned k)
{
	mpib_tracker_drop(&f->lane->track[p->c.carrier[k]], &p->stripe[k],
			  f->shard->now);
}

/* Add the time of a send op as a sample for the decision whether to cut send
 * ops. The last stripe was acknowledged `ns` after its post. Skip a replayed
 * send op. */
static void judge_cut(struct engine_conn *f, const struct send_op *p,
		      uint64_t ns)
{
	const uint32_t sout = p->stripe[MPIB_RAIL_SOUT].bytes;
	const uint32_t sup = p->stripe[MPIB_RAIL_SUP].bytes;
	const struct mpib_adapt_end end = { .bytes = sout + sup,
					    .cut = sout && sup,
					    .ns = ns,
					    .before = (uint64_t)p->before };

	if (p->c.carrier[MPIB_RAIL_SOUT] == MPIB_RAIL_SOUT &&
	    p->c.carrier[MPIB_RAIL_SUP] == MPIB_RAIL_SUP)
		mpib_adapt_ended(&f->lane->adapt, f->lane->track, &end);
}

__attribute__((always_inline)) static inline int retire(struct engine_conn *f)
{
	bool delivered = f->lane->delivered;
	struct mpib_sender *tx = &f->tx;
	int n = 0;

	for (; tx->op_tail != tx->op_head; n++) {
		const struct send_op *p = send_op_at(f, tx->op_tail);

		if (p->c.pending)
			break;
		if (delivered && p->slot >= tx->acked &&
		    send_op_is_held(f, p)) {
			if (!f->on_ack)
				mpib_ack_enter(f);
			break;
		}
		if (!delivered && p->slot == tx->cts_next)
			tx->released = true;
		tx->op_tail++;
		tx->op_range_tail += p->n;
		for (unsigned i = 0; i < p->n; i++) {
			const struct op_range *s =
				mpib_kept(send_op_range(f, p, i));

			if (s->mr)
				mpib_mr_unref(s->mr);
			range_count(f, p, s);
		}
	}
	return n;
}

int mpib_sender_retire(struct engine_conn *f)
{
	return retire(f);
}

/* Return the largest ack that the peer wrote, either separately or in a CTS
 * that was not read yet. */
static inline uint64_t ack_newest(struct engine_conn *f)
{
	const struct mpib_e2e_ack *d =
		(const void *)((const char *)f->tables.in + MPIB_ACK_AT);
	struct mpib_sender *tx = &f->tx;
	uint64_t acked = tx->acked;
	struct mpib_cts cts;

	/* Each rail has its own word; the word of a missing rail stays 0. */
#pragma GCC unroll 2
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		/* Acquire: the peer writes the word by RDMA. No other load
		 * depends on this word. */
		uint64_t word = __atomic_load_n(&d->ended[r], __ATOMIC_ACQUIRE);

		if (word > acked)
			acked = word;
	}
	if (tx->cts_seen < tx->cts_next)
		/* mpib_sender_cts() has applied the acks of earlier CTS */
		tx->cts_seen = tx->cts_next;
	for (; mpib_cts_copy(f, tx->cts_seen, &cts); tx->cts_seen++) {
		if (cts.ended > acked)
			acked = cts.ended;
	}
	return acked;
}

void mpib_ack_bad(struct engine_conn *f)
{
	engine_conn_break(f, -EPROTO,
			  "peer %s acknowledged a message that was not sent",
			  f->lane->peer);
}

int mpib_ack_read(struct engine_conn *f)
{
	return mpib_ack_take(f, ack_newest(f)) ? mpib_sender_retire(f) : 1;
}

int mpib_ack_read_turn(struct mpib_shard *s)
{
	struct engine_conn *f, *next;
	int ended = 0;

	for (f = TAILQ_FIRST(&s->waiting); f; f = next) {
		next = TAILQ_NEXT(f, ack_link);
		ended += mpib_ack_read(f);
		if (mpib_sender_idle(f))
			mpib_ack_leave(f);
	}
	return ended;
}

/* If stripes of a range failed, set the range's length to 0, so that the range
 * does not count as progress. */
__attribute__((noinline)) static void ranges_failed(struct engine_conn *f,
						    const struct send_op *p)
{
	for (unsigned i = 0; i < p->n; i++) {
		struct op_range *o = send_op_range(f, p, i);

		o->len = 0;
		if (f->state == ENGINE_CONN_STOPPING)
			engine_conn_finish(f, o->req, f->error, NULL, 0);
	}
}

__attribute__((always_inline)) static inline void
completed(struct engine_conn *f, unsigned op, uint8_t stripes, bool ok)
{
	struct send_op *p = mpib_kept(send_op_at(f, op));
	uint64_t posted;

	stripes &= p->c.pending;
	if (!stripes)
		return;
	p->c.pending &= (uint8_t)~stripes;
	posted = p->stripe[!(stripes & 1u)].posted;
#pragma GCC unroll 2
	for (unsigned k = 0; k < MPIB_RAILS; k++) {
		if (!(stripes & mpib_rail_bit(k)))
			continue;
		if (ok)
			stripe_acked(f, p, k);
		else
			drop_stripe(f, p, k);
	}
	if (!ok)
		ranges_failed(f, p);
	else if (p->before >= 0 && !p->c.pending)
		judge_cut(f, p, f->shard->now - posted);
	/* Connections that wait for acks are polled once per turn. */
	if (f->on_ack && f->state == ENGINE_CONN_OPEN)
		return;
	retire(f);
	if (f->state == ENGINE_CONN_STOPPING)
		engine_conn_check_stopped(f);
}

void mpib_sender_completed(struct engine_conn *f, unsigned op, uint8_t stripes,
			   bool ok)
{
	completed(f, op, stripes, ok);
}

/* Almost every completion calls one of the next two functions. They are
 * separate functions, so that the compiler can remove the code that each case
 * does not need. */
void mpib_sender_sout_acked(struct engine_conn *f, unsigned op)
{
	completed(f, op, mpib_rail_bit(MPIB_RAIL_SOUT), true);
}

void mpib_sender_sup_acked(struct engine_conn *f, unsigned op)
{
	completed(f, op, mpib_rail_bit(MPIB_RAIL_SUP), true);
}

bool mpib_sender_idle(const struct engine_conn *f)
{
	return f->tx.op_tail == f->tx.op_head;
}

void mpib_sender_forget(struct engine_conn *f)
{
	struct mpib_sender *tx = &f->tx;

	for (; tx->op_tail != tx->op_head; tx->op_tail++) {
		struct send_op *p = send_op_at(f, tx->op_tail);

		tx->op_range_tail += p->n;
		for (unsigned i = 0; i < p->n; i++) {
			if (send_op_range(f, p, i)->mr)
				mpib_mr_unref(send_op_range(f, p, i)->mr);
		}
		for (unsigned r = 0; r < MPIB_RAILS; r++)
			drop_stripe(f, p, r);
	}
}

/*
 * End-to-end acks. An ack is a slot number, which means that all lower slots
 * have ended. The receiver writes the ack to the sender. A CTS carries an ack
 * at no cost. If no CTS is posted in time, the ack is written separately,
 * preferably in a turn that rings the doorbell of the same QP anyway.
 *
 * A completion of the sender's WR shows only that the peer's device has
 * accepted the bytes. The end-to-end ack shows that the receiver's shard has
 * seen the bytes, so no fence can lose them any more.
 */

/* Maximum time that an ack waits for a CTS that can carry it. A client that
 * answers a message needs time to post its next receive. With 3 us instead of
 * 20 us, a ping-pong of 8 bytes took a quarter more time. */
#define TELL_NS 20000u

static struct engine_conn_list *list_of(const struct engine_conn *f)
{
	return f->is_sender ? &f->shard->waiting : &f->shard->ack_pending;
}

void mpib_ack_enter(struct engine_conn *f)
{
	if (!f->is_sender)
		f->rx.ack_since = f->shard->now;
	f->on_ack = true;
	TAILQ_INSERT_TAIL(list_of(f), f, ack_link);
}

void mpib_ack_leave(struct engine_conn *f)
{
	if (!f->on_ack)
		return;
	f->on_ack = false;
	TAILQ_REMOVE(list_of(f), f, ack_link);
}

bool mpib_ack_write(struct engine_conn *f)
{
	struct mpib_e2e_ack *d = (void *)((char *)f->tables.out + MPIB_ACK_AT);
	struct mpib_lane_qp *q = engine_conn_cts_qp(f);
	unsigned home = engine_conn_home(f);

	if (!f->lane->delivered || f->rx.acked == f->rx.tail)
		return true;
	if (!(f->lane->open & mpib_rail_bit(home)) || !mpib_qp_fits(q, home, 1))
		return false;
	f->rx.acked = d->ended[home] = f->rx.tail;
	/* The peer's table has one word per rail, because acks on two rails may
	 * overtake each other. */
	mpib_unsignaled_write(f, q, MPIB_ACK_AT + home * sizeof(d->ended[0]),
			      sizeof(d->ended[0]));
	return true;
}

/* Return whether to write the ack now: the shard is about to sleep, or rings
 * the QP's doorbell anyway, or the ack has waited long enough. */
static bool ack_is_due(struct engine_conn *f)
{
	const struct mpib_shard *s = f->shard;

	return s->now - f->rx.ack_since >= TELL_NS || s->settling ||
	       engine_conn_cts_qp(f)->chain.n;
}

int mpib_ack_write_turn(struct mpib_shard *s)
{
	struct engine_conn *f, *next;
	int acked = 0;

	for (f = TAILQ_FIRST(&s->ack_pending); f; f = next) {
		next = TAILQ_NEXT(f, ack_link);
		/* A stopping connection writes its ack in post_last_writes(). */
		if (f->rx.acked != f->rx.tail &&
		    f->state < ENGINE_CONN_STOPPING && !f->lane->broken) {
			if (!ack_is_due(f) || !mpib_ack_write(f))
				continue;
			acked++;
		}
		mpib_ack_leave(f);
	}
	return acked;
}
