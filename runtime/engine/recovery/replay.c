/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replay: post the stripes that find_lost.c found lost again, on an open rail.
 * mpib_replay_arrived() is the receiver's side. Shard thread.
 */
#include <errno.h>
#include <mpib/wire.h>

#include "engine/conn/clear.h"
#include "engine/conn/post.h"

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

/* The CTS that the share was posted by. It is still in the CTS table, since the
 * slot has not ended at the receiver. */
static bool share_cts(struct engine_conn *f, const struct send_op *p,
		      const struct op_range *s, struct mpib_cts *cts)
{
	if (mpib_sender_cts(f, p->slot + s->buf, cts) && mpib_cts_sane(cts) &&
	    s->at <= cts->len && s->len <= cts->len - s->at)
		return true;
	engine_conn_break(f, -EPROTO, "peer %s took back a CTS it had sent",
			  f->lane->peer);
	return false;
}

/* Append the writes of stripe k of the send op to its chain. */
static bool replay_build(struct engine_conn *f, const struct send_op *p,
			 unsigned k, struct mpib_chain *chain)
{
	for (unsigned i = 0; i < p->n; i++) {
		const struct op_range *s = send_op_share(f, p, i);
		struct mpib_span span;
		struct mpib_cts cts;

		if (mpib_range_bytes(s, k) == 0)
			continue;
		if (!share_cts(f, p, s, &cts))
			return false;
		span = mpib_range_span(s, k, &cts, chain->rail);
		mpib_chain_write(f, chain, &span);
	}
	return true;
}

/* The send op that has the IMM of p's slot: p, or one posted later. Only a peer
 * that lies of what it has makes that none; then it is p. */
static unsigned ender_of(const struct engine_conn *f, const struct send_op *p)
{
	unsigned first = (unsigned)(p - f->tx.op), i = first;

	while (!f->tx.op[i].c.imm && (i + 1) % SEND_OPS != first)
		i = (i + 1) % SEND_OPS;
	return f->tx.op[i].c.imm ? i : first;
}

/* The slot's completion record; made now if the first post needed none, as a
 * slot of several send ops always does. */
static struct mpib_record *record_of(struct engine_conn *f,
				     const struct send_op *p)
{
	struct mpib_record *rec = f->tables.out;

	rec += ender_of(f, p);
	if (rec->seq == p->slot + 1)
		return rec;
	*rec = (struct mpib_record){ .seq = p->slot + 1, .n = 1 };
	if (p->n)
		rec->size[0] = f->req[send_op_share(f, p, 0)->req].total;
	for (unsigned k = 0; k < MPIB_RAILS; k++)
		rec->rail[k] = p->stripe[k].bytes;
	return rec;
}

/* Count the lost stripes for rail q and no longer for the rail that lost them,
 * in the record (or what will become the record) too, so that the receiver
 * counts the same bytes per rail. open: the slot's IMM is not posted yet. */
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
		mpib_count_replay(f, q, p->stripe[k].bytes);
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
	unsigned last = p->c.lost >> 1; /* highest lost stripe: gets the IMM */
	uint8_t again;

	move_bytes(f, p, q, open);
	if (p->c.imm)
		add_imm(f, p, q, &chain[last]);
	again = mpib_stripes_repost(&p->c, q, open);
	p->before = -1; /* its end would say nothing of a rail */
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

/* True if no stripe that the IMM of send op last covers is in flight on another
 * rail than q, or on several QPs: the IMM could overtake such a stripe. */
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

/* With end-to-end acks send ops are held until delivered. The stripes that the
 * IMM of send op last covers must travel on the IMM's rail q: those of earlier
 * send ops that another rail acknowledged count as lost now and are posted
 * again. True if there are any. */
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
	    mpib_qp_room(engine_conn_qp(f, q, p->slot)) < MPIB_REPLAY_WRS ||
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

struct mpib_slot *mpib_replay_arrived(struct engine_conn *f, unsigned rail,
				      uint32_t qpn, uint32_t imm)
{
	struct mpib_receiver *rx = &f->rx;
	uint64_t number =
		rx->tail +
		((mpib_imm_slot(imm) - (uint32_t)rx->tail) & (MPIB_SLOTS - 1));
	struct mpib_slot *s = mpib_slot_at(f, number);
	uint8_t all = (uint8_t)((1u << f->lane->rails) - 1);
	struct mpib_record rec;

	if (number + s->n > rx->cts_posted || s->state != MPIB_SLOT_POSTED ||
	    engine_conn_qp(f, rail, number)->qpn != qpn ||
	    !mpib_receiver_record(f, number, &rec) || !rec.ends ||
	    rec.ends & ~rec.expected || rec.expected & ~all ||
	    rec.ends & s->seen || (s->expected && s->expected != rec.expected))
		return NULL;
	s->expected = rec.expected;
	s->seen |= rec.ends;
	s->size_q = MPIB_IMM_SIZEQ_SENTINEL;
	f->n[rail].rx_imms++;
	return s;
}
