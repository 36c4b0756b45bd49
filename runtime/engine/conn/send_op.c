/* SPDX-License-Identifier: Apache-2.0 */
/* Posted send ops: what is in flight until every rail's completion has arrived
 * and, on lanes with end-to-end acks, until the receiver has acknowledged the
 * slot; and how the receiver writes these acks. Shard thread. */
#include "engine/conn/clear.h"

#include <errno.h>
#include <mpib/wire.h>

#include "engine/conn/chain.h"
#include "engine/conn/conn.h"
#include "engine/conn/request.h"
#include "engine/conn/sent.h"
#include "engine/kept.h"

bool mpib_sender_spread(struct engine_conn *f, struct send_op *p,
			const struct mpib_chain *chain, uint32_t number)
{
	struct mpib_lane *lane = f->lane;
	unsigned r = chain->rail;

	if (lane->spread == MPIB_SPREAD_AUTO && chain->bytes > lane->frag)
		mpib_choice_posted(&lane->choice[r], chain->bytes);
	if (lane->numbered && mpib_chain_is_bare(lane, chain))
		p->c.spread |= mpib_rail_bit(r);
	if (!(p->c.spread & mpib_rail_bit(r)))
		return false;
	mpib_chain_spread(f, chain, number);
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

			mpib_report_post(f, s->req, r, qpn,
					 mpib_range_bytes(s, r));
		}
	}
}

struct mpib_record *mpib_sender_record(struct engine_conn *f)
{
	struct mpib_record *rec = f->tables.out;

	rec += f->tx.op_head % SEND_OPS;
	*rec = (struct mpib_record){ .seq = f->tx.cts_next + 1, .n = 1 };
	return rec;
}

/* The group waits for sends, some of which are staged: their posted bytes must
 * leave the client's window to make room for the rest. This never completes a
 * send of the group. */
static bool group_starves(const struct engine_conn *f)
{
	const struct mpib_group *g = &f->tx.group;
	bool staged = false;

	for (unsigned i = 0; i < g->n; i++)
		staged |= g->matched & 1u << i && f->req[g->req[i]].multipart;
	return staged;
}

/*
 * Return whether the oldest send op must end before its slot does. Either the
 * rest of the slot needs this send op, because none is free. Or the client
 * feeds no more before it gets some of the slot's bytes back: its staging
 * window is smaller than the peer's buffer or the group. Waiting for the slot's
 * end-to-end ack would be a deadlock.
 */
__attribute__((noinline)) static bool send_op_starves(struct engine_conn *f,
						      const struct send_op *p)
{
	const struct engine_request *r = &f->req[send_op_range(f, p, 0)->req];

	if (!send_op_free(f, send_op_takes(f->tx.group.n)))
		return true;
	if (!mpib_match_none(f))
		return false;
	if (f->tx.group.n)
		return group_starves(f);
	return r->multipart && r->fed < r->total;
}

bool mpib_op_is_held(struct engine_conn *f, const struct send_op *p)
{
	if (f->broken || f->stopping)
		return false;
	if (p->slot != f->tx.cts_next || !send_op_starves(f, p))
		return true;
	f->tx.released = true;
	return false;
}

static void send_op_unref(struct engine_conn *f, const struct send_op *p)
{
	for (unsigned i = 0; i < p->n; i++) {
		const struct op_range *s = send_op_range(f, p, i);

		if (s->mr)
			mpib_mr_unref(s->mr);
	}
}

void mpib_range_count(struct engine_conn *f, const struct send_op *p,
		      const struct op_range *s)
{
	struct engine_request *r = mpib_kept(&f->req[s->req]);

	if (!r->active)
		return;
	r->done += s->len;
	if (r->refused && s->len == 0)
		engine_conn_over(f, s->req, -EMSGSIZE);
	else if (r->done == r->total && p->c.imm)
		engine_conn_done(f, s->req, r->total);
	else
		engine_conn_progress(f, s->req, r->done);
}

void mpib_sender_settle(struct engine_conn *f)
{
	struct mpib_sender *tx = &f->tx;

	for (uint32_t i = tx->op_tail; i != tx->op_head; i++) {
		const struct send_op *p = send_op_at(f, i);

		for (unsigned k = 0; p->slot < tx->acked && k < p->n; k++)
			mpib_range_count(f, p, send_op_range(f, p, k));
	}
}

/* Give auto a sample: the time of a stripe on one QP, or spread over several. A
 * replayed stripe, which another rail carries, is not a sample. */
__attribute__((noinline)) static void
judge_way(struct engine_conn *f, const struct send_op *p, unsigned k)
{
	const struct mpib_stripe *c = &p->stripe[k];
	const struct mpib_tracker *t = &f->lane->track[k];

	if (p->c.carrier[k] == k && c->bytes > f->lane->frag)
		mpib_choice_note(&f->lane->choice[k], c->bytes,
				 p->c.spread >> k & 1,
				 f->shard->now - c->posted,
				 mpib_tracker_gone(t) - c->before);
}

/* Stripe k was acknowledged. */
static inline void stripe_acked(struct engine_conn *f, struct send_op *p,
				unsigned k)
{
	unsigned rail = p->c.carrier[k];
	struct mpib_stripe *c = mpib_kept(&p->stripe[k]);
	uint64_t now = f->shard->now;

	if (p->report) {
		for (unsigned i = 0; i < p->n; i++)
			mpib_report_done(f, send_op_range(f, p, i)->req, rail,
					 0);
	}
	if (f->lane->spread == MPIB_SPREAD_AUTO)
		judge_way(f, p, k);
	mpib_record(f, MPIB_TIME_POST_SOUT + rail, now - c->posted);
	mpib_tracker_ack(mpib_kept(&f->lane->track[rail]), c, now);
}

/* Stripe k is no longer in flight, and it is unknown whether it arrived. */
static void drop_stripe(struct engine_conn *f, struct send_op *p, unsigned k)
{
	mpib_tracker_drop(&f->lane->track[p->c.carrier[k]], &p->stripe[k],
			  f->shard->now);
}

/* A replayed send op is not a sample. */
void mpib_op_judge(struct engine_conn *f, const struct send_op *p, uint64_t ns)
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

int mpib_sender_retire(struct engine_conn *f)
{
	return mpib_ops_retire(f, f->lane->delivered);
}

/* Return the largest ack that the peer wrote: alone, or in a CTS since the last
 * look. */
static inline uint64_t ack_newest(struct engine_conn *f)
{
	const struct mpib_e2e_ack *d =
		(const void *)((const char *)f->tables.in + mpib_ack_at(f));
	struct mpib_sender *tx = &f->tx;
	uint64_t acked = tx->acked;
	struct mpib_cts cts;

	/* Each rail has a place; that of a missing rail remains 0. */
#pragma GCC unroll 2
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		/* Acquire: the peer's RDMA wrote it; no other read needs it. */
		uint64_t word = __atomic_load_n(&d->ended[r], __ATOMIC_ACQUIRE);

		if (word > acked)
			acked = word;
	}
	if (tx->cts_seen < tx->cts_next)
		tx->cts_seen = tx->cts_next; /* mpib_sender_cts() took those */
	for (; mpib_cts_copy(f, tx->cts_seen, &cts); tx->cts_seen++) {
		if (cts.ended > acked)
			acked = cts.ended;
	}
	return acked;
}

void mpib_ack_bad(struct engine_conn *f)
{
	engine_conn_break(f, -EPROTO,
			  "peer %s claims to have what was not sent",
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
		ended += mpib_ack_take(f, ack_newest(f))
				 ? mpib_ops_retire(f, true)
				 : 1;
		if (mpib_sender_idle(f))
			mpib_ack_leave(f);
	}
	return ended;
}

static inline void stripes_acked(struct engine_conn *f, struct send_op *p,
				 uint8_t stripes)
{
	uint64_t posted = p->stripe[!(stripes & 1u)].posted;

	for (unsigned on = stripes; on; on &= on - 1)
		stripe_acked(f, p, (unsigned)__builtin_ctz(on));
	if (p->before >= 0 && !p->c.pending)
		mpib_op_judge(f, p, f->shard->now - posted);
}

__attribute__((noinline)) static void
stripes_failed(struct engine_conn *f, struct send_op *p, uint8_t stripes)
{
	for (unsigned on = stripes; on; on &= on - 1)
		drop_stripe(f, p, (unsigned)__builtin_ctz(on));
	for (unsigned i = 0; i < p->n; i++) {
		struct op_range *o = send_op_range(f, p, i);

		o->len = 0; /* not sent: no progress */
		if (f->stopping)
			engine_conn_finish(f, o->req, f->stop_error, NULL, 0);
	}
}

void mpib_sender_completed(struct engine_conn *f, unsigned op, uint8_t stripes,
			   bool ok)
{
	struct send_op *p = mpib_kept(send_op_at(f, op));

	stripes &= p->c.pending;
	if (!stripes)
		return;
	p->c.pending &= (uint8_t)~stripes;
	if (ok)
		stripes_acked(f, p, stripes);
	else
		stripes_failed(f, p, stripes);
	/* Connections that wait for acks are polled once a turn. */
	if (f->on_ack && !f->stopping && !f->broken)
		return;
	mpib_ops_retire(f, f->lane->delivered);
	if (f->stopping)
		engine_conn_check_stopped(f);
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

		tx->op_range_tail += send_op_takes(p->n);
		send_op_unref(f, p);
		for (unsigned r = 0; r < MPIB_RAILS; r++)
			drop_stripe(f, p, r);
	}
}

/*
 * End-to-end acks: a receiver tells its sender up to which slot all slots have
 * ended. A CTS carries the ack at no cost. When no CTS is posted in time, the
 * ack is written alone, by preference in a turn whose doorbell on that QP is
 * due anyway.
 *
 * A completion of the sender's WR says only that the peer's device has taken
 * the bytes. The end-to-end ack says that the receiver's shard has seen them,
 * so that no fence can lose them any more.
 */

/* How long an ack waits for a CTS that can carry it: long enough for a client
 * that answers a message to post its next receive. With 3 us instead of 20 us,
 * a ping-pong of 8 bytes took a quarter more time. */
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

static inline void ack_off(struct engine_conn_list *list, struct engine_conn *f)
{
	f->on_ack = false;
	TAILQ_REMOVE(list, f, ack_link);
}

void mpib_ack_leave(struct engine_conn *f)
{
	if (f->on_ack)
		ack_off(list_of(f), f);
}

/* Write the end-to-end ack on q, the QP of CTS. False: no room, or its rail is
 * not open. */
static inline bool ack_write(struct engine_conn *f, struct mpib_lane_qp *q,
			     unsigned home)
{
	struct mpib_e2e_ack *d =
		(void *)((char *)f->tables.out + mpib_ack_at(f));

	if (!(f->lane->open & mpib_rail_bit(home)) || !mpib_qp_fits(q, home, 1))
		return false;
	f->rx.acked = d->ended[home] = f->rx.tail;
	/* Each rail has its own place in the peer's table, because acks on two
	 * rails may overtake each other. */
	mpib_unsignaled_write(f, q, mpib_ack_at(f) + home * sizeof(d->ended[0]),
			      sizeof(d->ended[0]));
	return true;
}

bool mpib_ack_write(struct engine_conn *f)
{
	return !f->lane->delivered || f->rx.acked == f->rx.tail ||
	       ack_write(f, engine_conn_cts_qp(f), engine_conn_home(f));
}

/* Return whether to write now: the shard is about to sleep, or a doorbell on
 * the QP is due anyway, or the ack has waited long enough. */
static inline bool is_due(const struct engine_conn *f,
			  const struct mpib_lane_qp *q)
{
	const struct mpib_shard *s = f->shard;

	return s->now - f->rx.ack_since >= TELL_NS || q->chain.n || s->settling;
}

/* The receiver, which is on the list, must write an ack and cannot yet. */
static inline bool ack_waits(struct engine_conn *f)
{
	struct mpib_lane_qp *q = mpib_kept(engine_conn_cts_qp(f));

	return !is_due(f, q) || !ack_write(f, q, engine_conn_home(f));
}

int mpib_ack_write_turn(struct mpib_shard *s)
{
	struct engine_conn *f, *next;
	int acked = 0;

	for (f = TAILQ_FIRST(&s->ack_pending); f; f = next) {
		next = TAILQ_NEXT(f, ack_link);
		/* A stopping connection writes its ack in post_last_writes(). */
		if (f->rx.acked != f->rx.tail && !f->stopping &&
		    !f->lane->broken) {
			if (ack_waits(f))
				continue;
			acked++;
		}
		ack_off(&s->ack_pending, f);
	}
	return acked;
}
