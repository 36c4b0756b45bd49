/* SPDX-License-Identifier: Apache-2.0 */
/* Replay: stripes that a rail lost are posted again on an open rail. At the
 * receiver, mpib_receiver_arrived() handles replayed stripes. Shard thread. */
#include <errno.h>
#include <mpib/wire.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "engine/conn/chain.h"
#include "engine/conn/conn.h"
#include "engine/recovery/stop.h"

void mpib_replay_drop(struct engine_conn *f)
{
	for (uint32_t i = f->tx.op_tail; f->tx.lost && i != f->tx.op_head;
	     i++) {
		struct send_op *p = send_op_at(f, i);
		uint8_t lost = p->c.lost;

		if (!lost)
			continue;
		f->tx.lost--;
		mpib_sender_completed(f, i, lost, false);
		p->c.lost = 0;
	}
}

/* Get the CTS for which the range was posted. The CTS is still in the CTS
 * table, because the slot has not ended at the receiver. */
static bool range_cts(struct engine_conn *f, const struct send_op *p,
		      const struct op_range *s, struct mpib_cts *cts)
{
	if (mpib_sender_cts(f, p->slot + s->buf, cts) && mpib_cts_sane(cts) &&
	    s->at <= cts->len && s->len <= cts->len - s->at)
		return true;
	engine_conn_break(f, -EPROTO, "peer %s withdrew a CTS that it had sent",
			  f->lane->peer);
	return false;
}

/* Append the writes of stripe k of the send op to the stripe's chain. */
static bool replay_build(struct engine_conn *f, const struct send_op *p,
			 unsigned k, struct mpib_chain *chain)
{
	for (unsigned i = 0; i < p->n; i++) {
		const struct op_range *s = send_op_range(f, p, i);
		struct mpib_span span;
		struct mpib_cts cts;

		if (mpib_range_bytes(s, k) == 0)
			continue;
		if (!range_cts(f, p, s, &cts))
			return false;
		span = mpib_range_span(s, k, &cts, chain->rail);
		mpib_chain_write(f, chain, &span);
	}
	return true;
}

/* Return the index of the send op that carries the IMM of p's slot: p itself,
 * or a send op that was posted later. After a false receive bitmap of the peer,
 * there may be no send op with the IMM. Then return the index of p. */
static unsigned ender_of(const struct engine_conn *f, const struct send_op *p)
{
	unsigned first = (unsigned)(p - f->tx.op), i = first;

	while (!f->tx.op[i].c.imm && (i + 1) % SEND_OPS != first)
		i = (i + 1) % SEND_OPS;
	return f->tx.op[i].c.imm ? i : first;
}

/* Return the slot's completion record. If the slot was first posted without a
 * record, make the record here. A slot with several send ops always has a
 * record. */
static struct mpib_record *record_of(struct engine_conn *f,
				     const struct send_op *p)
{
	struct mpib_record *rec = f->tables.out;

	rec += ender_of(f, p);
	if (rec->seq == p->slot + 1)
		return rec;
	*rec = (struct mpib_record){ .seq = p->slot + 1, .n = 1 };
	if (p->n)
		rec->size[0] = f->req[send_op_range(f, p, 0)->req].total;
	for (unsigned k = 0; k < MPIB_RAILS; k++)
		rec->rail[k] = p->stripe[k].bytes;
	return rec;
}

/* Count the bytes of lost stripes for rail q instead of the rail that lost
 * them. The slot's record tells the receiver how many bytes each rail carried,
 * so correct the record, too. If `open` is true, the slot's IMM is not posted
 * yet. Then there is no record yet, so correct the sums from which it will be
 * made. */
static void move_bytes(struct engine_conn *f, struct send_op *p, unsigned q,
		       bool open)
{
	uint64_t *rail = f->tx.rail;

	if (!open)
		rail = record_of(f, p)->rail;
	else if (f->tx.group.n)
		rail = f->tx.group.rail;
	for (unsigned k = 0; k < MPIB_RAILS; k++) {
		if (!(p->c.lost & mpib_rail_bit(k)))
			continue;
		rail[p->c.carrier[k]] -= p->stripe[k].bytes;
		rail[q] += p->stripe[k].bytes;
		mpib_tracker_post(&f->lane->track[q], &p->stripe[k],
				  p->stripe[k].bytes, f->shard->now);
		f->n[q].replays++;
		f->n[q].replayed_bytes += p->stripe[k].bytes;
	}
}

static void add_imm(struct engine_conn *f, const struct send_op *p, unsigned q,
		    struct mpib_chain *chain)
{
	struct mpib_record *rec = record_of(f, p);
	uint32_t slot = (uint32_t)(p->slot % MPIB_SLOTS);
	uint32_t imm =
		f->lane->imm_version == MPIB_IMM_V1
			? mpib_imm_v1(slot, 0, MPIB_IMM_SIZEQ_SENTINEL)
			: mpib_imm_v2(slot, 0, f->lane->epoch[q], f->remote.id);

	rec->expected = p->c.imm;
	rec->ends = p->c.lost;
	mpib_chain_imm(f, chain, imm, rec);
}

static void replay_repost(struct engine_conn *f, struct send_op *p,
			  uint32_t number, unsigned q, struct mpib_chain *chain)
{
	bool open = p->slot == f->tx.cts_next;
	/* index of the highest lost stripe, which gets the IMM */
	unsigned last = p->c.lost >> 1;
	uint8_t again;

	move_bytes(f, p, q, open);
	if (p->c.imm)
		add_imm(f, p, q, &chain[last]);
	again = mpib_stripes_repost(&p->c, q, open);
	p->before = -1; /* its time is not a valid sample of a rail */
	f->tx.lost--;
	if (open) {
		f->tx.mask |= (uint8_t)(!f->tx.group.n << q);
		f->tx.group.mask |= (uint8_t)((f->tx.group.n > 0) << q);
	}
	for (unsigned k = 0; p->c.imm && k < MPIB_RAILS; k++) {
		uint8_t *e = mpib_ended_at(f, p->slot);

		if (again & mpib_rail_bit(k))
			*e = (*e & ~(mpib_rail_bit(k) << MPIB_RAILS)) |
			     (uint8_t)(q << MPIB_RAILS << k);
	}
	if (last && chain[0].wrs.n)
		mpib_chain_post(f, &chain[0],
				mpib_wr_tag(MPIB_WR_UNSIGNALED, f->id, 0));
	if (chain[last].wrs.n)
		mpib_chain_post(f, &chain[last],
				mpib_wr_tag(MPIB_WR_REPLAY, f->id,
					    number | again << 8));
}

/* Return false if the IMM of send op `last` could overtake a stripe that it
 * covers. So the stripes in flight that the IMM covers must all be on rail q
 * and on one QP. */
static bool replay_ordered(struct engine_conn *f, uint32_t last, unsigned q)
{
	const struct send_op *p = send_op_at(f, last);

	for (uint32_t i = f->tx.op_tail; p->c.imm && i != last; i++) {
		const struct send_op *earlier = send_op_at(f, i);

		if (earlier->slot == p->slot &&
		    !mpib_stripes_ordered(&earlier->c, p->c.lost, q))
			return false;
	}
	return true;
}

/* Reclaim stripes for the IMM of send op `last`, on lanes with end-to-end acks.
 * On these lanes, send ops are kept until they are delivered. All stripes that
 * the IMM covers must be sent on the IMM's rail q. So if another rail has
 * acknowledged stripes of earlier send ops, mark these stripes as lost, so that
 * they are posted again. Return whether a stripe became lost. */
static bool replay_reclaim(struct engine_conn *f, uint32_t last, unsigned q)
{
	const struct send_op *p = send_op_at(f, last);
	uint32_t before = f->tx.lost;

	for (uint32_t i = f->tx.op_tail; p->c.imm && i != last; i++) {
		struct send_op *earlier = send_op_at(f, i);
		uint8_t lost = earlier->c.lost, again;

		if (earlier->slot != p->slot)
			continue;
		again = mpib_stripes_reclaim(&earlier->c, p->c.lost, q);
		f->tx.lost += !lost && again;
		for (unsigned k = 0; k < MPIB_RAILS; k++) {
			struct mpib_snap_failover *n =
				&f->shard->rail[earlier->c.carrier[k]]
					 .n.failover;

			if (!(again & mpib_rail_bit(k)))
				continue;
			n->lost_bytes += earlier->stripe[k].bytes;
			n->lost_stripes++;
		}
	}
	return f->tx.lost != before;
}

static uint32_t first_lost(struct engine_conn *f)
{
	uint32_t i = f->tx.op_tail;

	while (i != f->tx.op_head && !send_op_at(f, i)->c.lost)
		i++;
	return i;
}

uint64_t mpib_replay_step(struct engine_conn *f)
{
	struct mpib_chain chain[MPIB_RAILS] = { 0 };
	unsigned q = engine_conn_home(f);
	uint32_t i = first_lost(f);
	uint64_t bytes = 0;
	struct send_op *p;

	if (f->lane->delivered && i != f->tx.op_head && replay_reclaim(f, i, q))
		i = first_lost(f);
	p = send_op_at(f, i);
	if (i == f->tx.op_head || !(f->lane->open & mpib_rail_bit(q)) ||
	    !mpib_qp_fits(engine_conn_qp(f, q, p->slot), q, MPIB_REPLAY_WRS) ||
	    !replay_ordered(f, i, q))
		return 0;
	for (unsigned k = 0; k < MPIB_RAILS; k++) {
		if (!(p->c.lost & mpib_rail_bit(k)))
			continue;
		chain[k].rail = q;
		chain[k].q = engine_conn_qp(f, q, p->slot);
		if (!replay_build(f, p, k, &chain[k])) {
			mpib_chain_drop(f, &chain[0]);
			mpib_chain_drop(f, &chain[1]);
			return 0;
		}
		bytes += chain[k].bytes;
	}
	replay_repost(f, p, i % SEND_OPS, q, chain);
	return bytes + 1;
}

/* After a fence: find the stripes that the rail lost, by the peer's receive
 * bitmaps. Also post the CTS again that the peer's senders lack. A CTS that is
 * posted twice does no harm. Shard thread. */

int mpib_recv_bitmap_order(const void *pa, const void *pb)
{
	const struct mpib_recv_bitmap *a = pa, *b = pb;

	if (a->sender != b->sender)
		return a->sender - b->sender;
	return (a->conn > b->conn) - (a->conn < b->conn);
}

static const struct mpib_recv_bitmap *
find_lost_find(const struct mpib_recv_bitmaps *a, uint32_t conn, bool sender)
{
	const struct mpib_recv_bitmap key = { .conn = conn, .sender = sender };

	return a->n ? bsearch(&key, a->v, a->n, sizeof(key),
			      mpib_recv_bitmap_order)
		    : NULL;
}

static uint8_t seen_of(const struct mpib_recv_bitmap *a, uint64_t slot)
{
	uint64_t i = slot - a->first;
	unsigned bit = (unsigned)i * MPIB_RAILS;

	return i < a->slots ? a->seen[bit / 8] >> bit % 8 & 3 : 0;
}

static uint8_t carried_by(const struct send_op *p, unsigned rail)
{
	uint8_t bits = 0;

	for (unsigned k = 0; k < MPIB_RAILS; k++)
		bits |= (uint8_t)((p->c.carrier[k] == rail) << k);
	return bits & p->c.pending & (uint8_t)~p->c.lost;
}

/* If the connection is broken or stopping, drop the stripes that the rail
 * carries instead of posting them again. */
static void find_lost_forget(struct engine_conn *f, unsigned rail)
{
	for (uint32_t i = f->tx.op_tail; i != f->tx.op_head; i++)
		mpib_sender_completed(f, i, carried_by(send_op_at(f, i), rail),
				      false);
}

/* Return whether the client may already reuse bytes that the rail carried for
 * the unfinished slot. No bitmap shows whether the receiver has these bytes. */
static bool released_open(struct engine_conn *f, unsigned rail)
{
	const struct mpib_sender *tx = &f->tx;
	uint64_t posted = tx->group.n ? tx->group.rail[rail] : tx->rail[rail];
	uint64_t held = 0;

	for (uint32_t i = tx->op_tail; i != tx->op_head; i++) {
		const struct send_op *p = send_op_at(f, i);

		for (unsigned k = 0; k < MPIB_RAILS; k++) {
			if (p->slot == tx->cts_next && p->c.carrier[k] == rail)
				held += p->stripe[k].bytes;
		}
	}
	return posted > held;
}

/*
 * Some bytes that the rail acknowledged cannot be sent again, because the
 * client may already reuse them. Check that the receiver has all of these
 * bytes. With end-to-end acks a client may reuse bytes only after the slot is
 * delivered, except for slots with MPIB_ENDED_RELEASED. If the receiver has
 * seen an IMM, it has all bytes that the IMM covers. A device that is lost may
 * have acknowledged other bytes without writing them to memory.
 */
static bool kept_its_word(struct engine_conn *f, unsigned rail,
			  const struct mpib_recv_bitmap *a, bool lost)
{
	uint64_t s = f->lane->delivered ? f->tx.acked : a->first;
	uint8_t pending[MPIB_TABLE_SLOTS] = { 0 };

	if (lost && released_open(f, rail))
		return false;
	/* Skip older slots, which have ended at both ends. */
	if (s + MPIB_TABLE_SLOTS < f->tx.cts_next)
		s = f->tx.cts_next - MPIB_TABLE_SLOTS;
	for (uint32_t i = f->tx.op_tail; i != f->tx.op_head; i++) {
		const struct send_op *p = send_op_at(f, i);

		if (p->slot >= s)
			pending[p->slot % MPIB_TABLE_SLOTS] |=
				p->c.imm & p->c.pending;
	}
	for (; s < f->tx.cts_next; s++) {
		uint8_t e = *mpib_ended_at(f, s);
		uint8_t missing = e & (uint8_t)~seen_of(a, s);
		bool released = e & MPIB_ENDED_RELEASED;

		if (f->lane->delivered && !released)
			continue;
		/* The replay of a stripe posts only the bytes of that stripe,
		 * not the other bytes that its IMM covers. */
		if (!lost || !released)
			missing &= (uint8_t)~pending[s % MPIB_TABLE_SLOTS];
		for (unsigned k = 0; k < MPIB_RAILS; k++) {
			if (missing >> k & 1 &&
			    (e >> MPIB_RAILS >> k & 1) == rail)
				return false;
		}
	}
	return true;
}

static void find_lost_op(struct engine_conn *f, uint32_t i,
			 struct mpib_rail_job *job,
			 const struct mpib_recv_bitmap *a)
{
	struct send_op *p = send_op_at(f, i);
	uint8_t before = p->c.lost, pending = p->c.pending, lost;
	bool done = p->slot < a->first || p->slot < f->tx.acked;
	uint8_t placed =
		mpib_stripes_find_lost(&p->c, job->rail, done,
				       seen_of(a, p->slot), f->lane->delivered);

	lost = p->c.lost & (uint8_t)~before;
	f->tx.lost += !before && lost;
	for (unsigned k = 0; k < MPIB_RAILS; k++) {
		if (!(lost & mpib_rail_bit(k)))
			continue;
		mpib_tracker_drop(&f->lane->track[job->rail], &p->stripe[k],
				  f->shard->now);
		job->lost_bytes += p->stripe[k].bytes;
		job->lost_stripes++;
		job->acked_stripes += !(pending >> k & 1);
	}
	mpib_sender_completed(f, i, placed, true);
}

/* Break the connection, or the lane, because only the rank still has the lost
 * bytes. If connections can resume, treat the lane as lost. The rank then posts
 * all incomplete messages again, from their first byte. With end-to-end acks,
 * the message with the lost bytes is one of them. */
static void break_of_lost(struct engine_conn *f, unsigned rail)
{
	char why[160];

	snprintf(why, sizeof(why),
		 "rail %s to %s: the peer's device died with data it had "
		 "acknowledged",
		 mpib_rail_label(f->shard, rail), f->lane->peer);
	if (f->lane->delivered && f->shard->engine->cfg.resume)
		mpib_lane_break(f->lane, -EIO, "%s", why);
	else
		engine_conn_break(f, -EIO, "%s", why);
}

static void find_lost_sender(struct engine_conn *f, struct mpib_rail_job *job)
{
	/* The peer's bitmap may be many slots old, because the other rail
	 * continues to carry messages. A receiver without a bitmap had not
	 * started when the peer stopped. If this end has CTS from a receiver
	 * that had not started, the CTS came later on the other rail. */
	static const struct mpib_recv_bitmap not_started;
	const struct mpib_recv_bitmap *a =
		find_lost_find(&job->bitmaps, f->remote.id, false);
	uint32_t head = f->tx.op_head;
	uint8_t others = (uint8_t)~mpib_rail_bit(job->rail);

	if (!a)
		a = &not_started;
	f->tx.mask &= others;
	f->tx.spread &= others;
	f->tx.group.mask &= others;
	if (mpib_ack_take(f, a->first) &&
	    !kept_its_word(f, job->rail, a, job->bitmaps.lost))
		break_of_lost(f, job->rail);
	if (f->state != ENGINE_CONN_OPEN) {
		find_lost_forget(f, job->rail);
		return;
	}
	for (uint32_t i = f->tx.op_tail; i != head; i++) {
		/* Ending an earlier send op may have retired this one, too. */
		if ((int32_t)(i - f->tx.op_tail) >= 0)
			find_lost_op(f, i, job, a);
	}
	mpib_sender_retire(f);
	if (f->tx.lost)
		engine_conn_make_ready(f);
}

static void find_lost_receiver(struct engine_conn *f, struct mpib_rail_job *job)
{
	const struct mpib_recv_bitmap *a =
		find_lost_find(&job->bitmaps, f->id, true);
	struct mpib_receiver *rx = &f->rx;
	/* A sender without a bitmap had not started and has no CTS. The sender
	 * also needs the CTS of cancelled slots, from `freed` to `tail`,
	 * because it skips cancelled slots one by one. */
	uint64_t from = a && a->first > rx->freed ? a->first : rx->freed;

	rx->acked = MPIB_NOT_ACKED;
	mpib_ack_need(f);
	if (from >= rx->cts_posted || f->state != ENGINE_CONN_OPEN)
		return;
	rx->cts_again = from;
	mpib_cts_due(f);
}

static void find_lost_count(struct mpib_lane *lane, struct mpib_rail_job *job)
{
	struct mpib_snap_rail *rail = &lane->shard->rail[job->rail].n;
	struct mpib_snap_failover *n = &rail->failover;
	uint64_t now = mpib_now_ns();
	uint64_t ns = now - job->stopped_ns;

	job->fenced_ns = ns;
	rail->failovers++;
	n->count[job->cause]++;
	n->lost_bytes += job->lost_bytes;
	n->lost_stripes += job->lost_stripes;
	n->acked_stripes += job->acked_stripes;
	n->last_ns = ns;
	n->last_at = now;
	n->sum_ns += ns;
	if (ns > n->max_ns)
		n->max_ns = ns;
}

void mpib_rail_on_bitmaps(struct mpib_msg *msg)
{
	struct mpib_call *call = container_of(msg, struct mpib_call, msg);
	struct mpib_rail_job *job = call->what;
	struct mpib_lane *lane = job->lane;
	struct engine_conn *f, *next;

	TAILQ_FOREACH(f, &lane->conns, lane_link)
	{
		if (f->is_sender)
			find_lost_sender(f, job);
		else
			find_lost_receiver(f, job);
	}
	mpib_rail_enter(lane, job->rail, MPIB_RAIL_DOWN);
	lane->epoch[job->rail] = job->epoch;
	find_lost_count(lane, job);
	for (f = TAILQ_FIRST(&lane->conns); f; f = next) {
		next = TAILQ_NEXT(f, lane_link);
		/* A WR that was refused at post never completes. */
		f->stop_posted &= (uint8_t)~mpib_rail_bit(job->rail);
		if (f->state == ENGINE_CONN_STOPPING)
			engine_conn_check_stopped(f);
	}
	mpib_call_done(lane->shard, call, 0);
}
