/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a fence: which chunks the rail lost, by what the other end says it
 * has, and their second journey on a rail that is open. CTS that the sender
 * does not have are posted again, too; doing so twice changes nothing.
 */
#include <errno.h>
#include <mpib/wire.h>

#include "base/clock.h"
#include "engine/flow/chain.h"
#include "engine/measure/count.h"

/* The answers are sorted, see order() in failover.c. */
static const struct mpib_answer *find(const struct mpib_answers *a,
				      uint32_t flow, bool sender)
{
	uint32_t lo = 0, hi = a->n;

	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;
		const struct mpib_answer *at = &a->v[mid];

		if (at->sender < sender ||
		    (at->sender == sender && at->flow < flow))
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == a->n || a->v[lo].flow != flow || a->v[lo].sender != sender)
		return NULL;
	return &a->v[lo];
}

static uint8_t seen_of(const struct mpib_answer *a, uint64_t slot)
{
	uint64_t i = slot - a->first;
	unsigned bit = (unsigned)i * MPIB_RAILS;

	return i < a->slots ? a->seen[bit / 8] >> bit % 8 & 3 : 0;
}

static struct mpib_piece *piece_at(struct mpib_flow *f, uint32_t i)
{
	return &f->tx.piece[i % MPIB_PIECES];
}

static uint8_t carried_by(const struct mpib_piece *p, unsigned rail)
{
	uint8_t bits = 0;

	for (unsigned k = 0; k < MPIB_RAILS; k++)
		bits |= (uint8_t)((p->c.carrier[k] == rail) << k);
	return bits & p->c.pending & (uint8_t)~p->c.lost;
}

/* Of a flow that is over: what the rail had is of no interest. */
static void forget(struct mpib_flow *f, unsigned rail)
{
	for (uint32_t i = f->tx.piece_tail; i != f->tx.piece_head; i++)
		mpib_sender_completed(f, i, carried_by(piece_at(f, i), rail),
				      false);
}

void mpib_replay_drop(struct mpib_flow *f)
{
	for (uint32_t i = f->tx.piece_tail; f->tx.lost && i != f->tx.piece_head;
	     i++) {
		struct mpib_piece *p = piece_at(f, i);
		uint8_t lost = p->c.lost;

		if (!lost)
			continue;
		f->tx.lost--;
		mpib_sender_completed(f, i, lost, false);
		p->c.lost = 0;
	}
}

/*
 * A chunk whose every write was acknowledged on the rail must have been seen,
 * for its completion was pushed before the acknowledgement left. A device that
 * died between the two breaks that: the client has its buffer back, so nothing
 * can be sent again.
 */
static bool kept_its_word(struct mpib_flow *f, unsigned rail,
			  const struct mpib_answer *a)
{
	uint8_t pending[MPIB_SLOTS] = { 0 };

	for (uint32_t i = f->tx.piece_tail; i != f->tx.piece_head; i++) {
		const struct mpib_piece *p = piece_at(f, i);

		pending[p->slot % MPIB_SLOTS] |= p->c.imm & p->c.pending;
	}
	for (uint64_t s = a->first; s < f->tx.cts_next; s++) {
		uint8_t e = f->tx.ended[s % MPIB_SLOTS];
		uint8_t missing = e & (uint8_t)~seen_of(a, s) &
				  (uint8_t)~pending[s % MPIB_SLOTS];

		for (unsigned k = 0; k < MPIB_RAILS; k++) {
			if (missing >> k & 1 &&
			    (e >> MPIB_RAILS >> k & 1) == rail)
				return false;
		}
	}
	return true;
}

static void judge_piece(struct mpib_flow *f, uint32_t i,
			struct mpib_rail_job *job, const struct mpib_answer *a)
{
	struct mpib_piece *p = piece_at(f, i);
	uint8_t before = p->c.lost, lost;
	uint8_t placed = mpib_chunks_judge(&p->c, job->rail, p->slot < a->first,
					   seen_of(a, p->slot));

	lost = p->c.lost & (uint8_t)~before;
	f->tx.lost += !before && lost;
	for (unsigned k = 0; k < MPIB_RAILS; k++) {
		if (!(lost & 1u << k))
			continue;
		mpib_tracker_drop(&f->lane->track[job->rail], &p->chunk[k],
				  f->shard->now);
		job->lost_bytes += p->chunk[k].bytes;
		job->lost_chunks++;
	}
	mpib_sender_completed(f, i, placed, true);
}

static void judge_sender(struct mpib_flow *f, struct mpib_rail_job *job)
{
	const struct mpib_answer *a = find(&job->answers, f->remote.id, false);
	uint32_t head = f->tx.piece_head;
	uint8_t others = (uint8_t) ~(1u << job->rail);

	f->tx.mask &= others;
	f->tx.group.mask &= others;
	if (!a) {
		if (!mpib_sender_quiet(f))
			mpib_flow_break(f, -ECONNRESET,
					"peer %s has no such connection any "
					"more",
					f->lane->peer);
	} else if (a->first + MPIB_SLOTS < f->tx.cts_next ||
		   a->first > f->tx.cts_next + MPIB_SLOTS) {
		/* It may be ahead of us by parts of a message that ended. */
		mpib_flow_break(f, -EPROTO,
				"peer %s claims to have what was not sent",
				f->lane->peer);
	} else if (!kept_its_word(f, job->rail, a)) {
		mpib_flow_break(f, -EIO,
				"rail %u to %s: the peer's device died with "
				"data it had acknowledged",
				job->rail, f->lane->peer);
	}
	if (f->broken || f->stopping) {
		forget(f, job->rail);
		return;
	}
	for (uint32_t i = f->tx.piece_tail; a && i != head; i++)
		judge_piece(f, i, job, a);
	if (f->tx.lost)
		mpib_flow_make_ready(f);
}

static void judge_receiver(struct mpib_flow *f, struct mpib_rail_job *job)
{
	const struct mpib_answer *a = find(&job->answers, f->id, true);
	struct mpib_receiver *rx = &f->rx;
	/* A sender that has not started yet has taken none. */
	uint64_t from = a && a->first > rx->tail ? a->first : rx->tail;

	if (from >= rx->cts_posted || f->broken || f->stopping)
		return;
	rx->cts_again = from;
	if (!f->on_cts) {
		f->on_cts = true;
		TAILQ_INSERT_TAIL(&f->shard->cts, f, cts_link);
	}
}

static void count(struct mpib_lane *lane, const struct mpib_rail_job *job)
{
	struct mpib_snap_rail *rail = &lane->shard->rail[job->rail].n;
	struct mpib_snap_failover *n = &rail->failover;
	uint64_t ns = mpib_now_ns() - lane->stop[job->rail].fault_ns;

	rail->failovers++;
	rail->failover_ns += ns;
	n->count[job->cause]++;
	n->lost_bytes += job->lost_bytes;
	n->lost_chunks += job->lost_chunks;
	n->last_ns = ns;
	n->sum_ns += ns;
	if (ns > n->max_ns)
		n->max_ns = ns;
}

void mpib_rail_on_replay(struct mpib_msg *msg)
{
	struct mpib_call *call = (struct mpib_call *)msg;
	struct mpib_rail_job *job = call->what;
	struct mpib_lane *lane = job->lane;
	struct mpib_flow *f, *next;

	TAILQ_FOREACH(f, &lane->flows, lane_link)
	{
		if (f->is_sender)
			judge_sender(f, job);
		else
			judge_receiver(f, job);
	}
	mpib_lane_drop_rail(lane, job->rail);
	lane->epoch[job->rail] = job->epoch;
	lane->fencing &= (uint8_t) ~(1u << job->rail);
	count(lane, job);
	for (f = TAILQ_FIRST(&lane->flows); f; f = next) {
		next = TAILQ_NEXT(f, lane_link);
		if (f->stopping && !f->stopped)
			mpib_flow_check_stopped(f);
	}
	mpib_call_done(lane->shard, call, 0);
}

/* The CTS that a share goes by: still in its place, for the slot is not ended
 * at the receiver. */
static bool share_cts(struct mpib_flow *f, const struct mpib_piece *p,
		      const struct mpib_share *s, struct mpib_cts *cts)
{
	if (mpib_sender_cts(f, p->slot + s->buf, cts) && mpib_cts_sane(cts) &&
	    s->at <= cts->len && s->len <= cts->len - s->at)
		return true;
	mpib_flow_break(f, -EPROTO, "peer %s took back a CTS it had sent",
			f->lane->peer);
	return false;
}

/* Chunk k of the piece, on rail q. */
static bool build(struct mpib_flow *f, const struct mpib_piece *p, unsigned k,
		  unsigned q, struct mpib_chain *chain)
{
	for (unsigned i = 0; i < p->n; i++) {
		const struct mpib_share *s = &p->share[i];
		uint32_t off = k == MPIB_RAIL_SUP ? 0 : s->sup;
		struct mpib_span span = {
			.mr = s->mr,
			.from = s->from + off,
			.len = k == MPIB_RAIL_SUP ? s->sup : s->len - s->sup,
		};
		struct mpib_cts cts;

		if (span.len == 0)
			continue;
		if (!share_cts(f, p, s, &cts))
			return false;
		span.to = cts.addr + s->at + off;
		span.rkey = cts.rkey[q];
		mpib_chain_write(f, chain, q, &span);
	}
	return true;
}

/* The record that says what the slot is; made now if there was no need. */
static struct mpib_record *record_of(struct mpib_flow *f,
				     const struct mpib_piece *p)
{
	struct mpib_record *rec = f->tables.out;

	rec += p->slot % MPIB_SLOTS;
	if (rec->seq == p->slot + 1)
		return rec;
	*rec = (struct mpib_record){ .seq = p->slot + 1, .n = 1 };
	if (p->n)
		rec->size[0] = f->req[p->share[0].req].total;
	for (unsigned k = 0; k < MPIB_RAILS; k++)
		rec->rail[k] = p->chunk[k].bytes;
	return rec;
}

/* Who carried what, as the receiver will count it. */
static void move_bytes(struct mpib_flow *f, struct mpib_piece *p, unsigned q,
		       bool open)
{
	uint32_t *rail = f->tx.rail;

	if (!open)
		rail = record_of(f, p)->rail;
	else if (f->tx.group.n)
		rail = f->tx.group.rail;
	for (unsigned k = 0; k < MPIB_RAILS; k++) {
		if (!(p->c.lost & 1u << k))
			continue;
		rail[p->c.carrier[k]] -= p->chunk[k].bytes;
		rail[q] += p->chunk[k].bytes;
		mpib_tracker_post(&f->lane->track[q], &p->chunk[k],
				  p->chunk[k].bytes, f->shard->now);
		f->shard->rail[q].n.failover.replayed_bytes +=
			p->chunk[k].bytes;
		mpib_count_replay(f, q, p->chunk[k].bytes);
	}
}

static void add_imm(struct mpib_flow *f, const struct mpib_piece *p, unsigned q,
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
	mpib_chain_imm(f, chain, q, imm, rec);
}

static void post(struct mpib_flow *f, struct mpib_lane_qp *q,
		 struct mpib_chain *c, uint64_t last_wr_id)
{
	if (c->n == 0)
		return;
	for (unsigned i = 0; i + 1 < c->n; i++)
		c->wr[i].wr_id = mpib_wr_tag(MPIB_WR_QUIET, f->id, 0);
	c->wr[c->n - 1].wr_id = last_wr_id;
	if (mpib_wr_kind(last_wr_id) == MPIB_WR_REPLAY)
		c->wr[c->n - 1].send_flags |= IBV_SEND_SIGNALED;
	mpib_count_post(f, q, c->n, c->bytes,
			c->wr[c->n - 1].opcode == IBV_WR_RDMA_WRITE_WITH_IMM);
	mpib_qp_post(q, c->wr, c->n);
}

static void repost(struct mpib_flow *f, struct mpib_piece *p, uint32_t number,
		   unsigned q, struct mpib_chain *chain)
{
	struct mpib_lane_qp *qp = mpib_flow_qp(f, q, p->slot);
	bool open = p->slot == f->tx.cts_next;
	unsigned last = p->c.lost >> 1; /* the higher chunk */
	uint8_t again;

	move_bytes(f, p, q, open);
	if (p->c.imm)
		add_imm(f, p, q, &chain[last]);
	again = mpib_chunks_repost(&p->c, q, open);
	f->tx.lost--;
	if (open) {
		f->tx.mask |= (uint8_t)(!f->tx.group.n << q);
		f->tx.group.mask |= (uint8_t)((f->tx.group.n > 0) << q);
	}
	for (unsigned k = 0; p->c.imm && k < MPIB_RAILS; k++) {
		uint8_t *e = &f->tx.ended[p->slot % MPIB_SLOTS];

		if (again & 1u << k)
			*e = (*e & (uint8_t) ~(1u << MPIB_RAILS << k)) |
			     (uint8_t)(q << MPIB_RAILS << k);
	}
	if (last)
		post(f, qp, &chain[0], mpib_wr_tag(MPIB_WR_QUIET, f->id, 0));
	post(f, qp, &chain[last],
	     mpib_wr_tag(MPIB_WR_REPLAY, f->id, number | again << 8));
}

/* Nothing that the piece's IMM covers is under way on another rail. */
static bool ordered(struct mpib_flow *f, uint32_t last, unsigned q)
{
	const struct mpib_piece *p = piece_at(f, last);

	for (uint32_t i = f->tx.piece_tail; p->c.imm && i != last; i++) {
		const struct mpib_piece *earlier = piece_at(f, i);

		if (earlier->slot == p->slot &&
		    !mpib_chunks_ordered(&earlier->c, p->c.lost, q))
			return false;
	}
	return true;
}

uint64_t mpib_replay_step(struct mpib_flow *f)
{
	struct mpib_chain chain[MPIB_RAILS];
	unsigned q = mpib_flow_home(f);
	uint32_t i = f->tx.piece_tail;
	uint64_t bytes = 0;
	struct mpib_piece *p;

	while (i != f->tx.piece_head && !piece_at(f, i)->c.lost)
		i++;
	p = piece_at(f, i);
	if (i == f->tx.piece_head || !(f->lane->open & 1u << q) ||
	    mpib_qp_room(mpib_flow_qp(f, q, p->slot)) < MPIB_REPLAY_WRS ||
	    !ordered(f, i, q))
		return 0;
	for (unsigned k = 0; k < MPIB_RAILS; k++) {
		chain[k].n = chain[k].bytes = 0;
		if (!(p->c.lost & 1u << k))
			continue;
		if (!build(f, p, k, q, &chain[k]))
			return 0;
		bytes += chain[k].bytes;
	}
	repost(f, p, i % MPIB_PIECES, q, chain);
	return bytes + 1;
}

bool mpib_replay_arrived(struct mpib_flow *f, unsigned rail, uint32_t qpn,
			 uint32_t imm)
{
	struct mpib_receiver *rx = &f->rx;
	uint64_t number =
		rx->tail +
		((mpib_imm_slot(imm) - (uint32_t)rx->tail) & (MPIB_SLOTS - 1));
	struct mpib_slot *s = &rx->slot[number % MPIB_SLOTS];
	uint8_t all = (uint8_t)((1u << f->lane->rails) - 1);
	struct mpib_record rec;

	if (number >= rx->cts_posted || s->state != MPIB_SLOT_POSTED ||
	    mpib_flow_qp(f, rail, number)->qpn != qpn ||
	    !mpib_receiver_record(f, number, &rec) || !rec.ends ||
	    rec.ends & ~rec.expected || rec.expected & ~(uint32_t)all ||
	    rec.ends & s->seen || (s->expected && s->expected != rec.expected))
		return false;
	s->expected = (uint8_t)rec.expected;
	s->seen |= (uint8_t)rec.ends;
	s->size_q = MPIB_IMM_SIZEQ_SENTINEL;
	f->n[rail].rx_imms++;
	if (s->seen == s->expected)
		mpib_receiver_whole(f, s);
	return true;
}
