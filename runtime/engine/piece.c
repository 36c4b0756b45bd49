/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces in flight: what was posted for whom, until every rail's completion is
 * in.
 */
#include <string.h>

#include "engine/chain.h"
#include "engine/count.h"
#include "engine/report.h"

static bool window_open(struct mpib_flow *f, unsigned rail, uint32_t bytes)
{
	uint64_t inflight = f->lane->track[rail].inflight;

	return inflight == 0 ||
	       inflight + bytes <=
		       __atomic_load_n(&f->shard->engine->cfg.lane_window,
				       __ATOMIC_RELAXED);
}

/* Room on every rail of mask for a chain of wrs and its bytes, and a piece to
 * account for them. */
bool mpib_sender_may_post(struct mpib_flow *f, uint8_t mask, unsigned wrs,
			  const uint32_t *bytes)
{
	struct mpib_sender *tx = &f->tx;

	if (tx->piece_head - tx->piece_tail == MPIB_PIECES) {
		mpib_stall(f, MPIB_STALL_SLOT);
		return false;
	}
	for (unsigned r = 0; r < f->lane->rails; r++) {
		if (!(mask & 1u << r))
			continue;
		if (mpib_qp_room(mpib_flow_qp(f, r, tx->cts_next)) < wrs) {
			mpib_stall(f, MPIB_STALL_SQ);
			return false;
		}
		if (!window_open(f, r, bytes[r])) {
			mpib_stall(f, MPIB_STALL_WINDOW);
			return false;
		}
	}
	return true;
}

static void add_share(struct mpib_flow *f, struct mpib_piece *p,
		      const struct mpib_extent *e, uint32_t len)
{
	struct mpib_freq *r = &f->req[e->req];

	if (!r->posted)
		mpib_record(f, MPIB_TIME_SUBMIT_POST, f->shard->now - r->since);
	r->posted = true;
	p->req[p->n] = e->req;
	p->len[p->n] = len;
	p->mr[p->n] = e->mr;
	if (e->mr)
		e->mr->refs++;
	p->n++;
}

int mpib_sender_post(struct mpib_flow *f, struct mpib_chain *chain,
		     const struct mpib_extent *e, const uint32_t *len,
		     unsigned n)
{
	uint32_t number = f->tx.piece_head++ % MPIB_PIECES;
	struct mpib_piece *p = &f->tx.piece[number];

	mpib_unstall(f);
	memset(p, 0, sizeof(*p));
	for (unsigned i = 0; i < n; i++)
		add_share(f, p, &e[i], len[i]);
	for (unsigned r = 0; r < f->lane->rails; r++) {
		p->pending |= (uint8_t)((chain[r].n > 0) << r);
		if (chain[r].n)
			mpib_tracker_post(&f->lane->track[r], &p->chunk[r],
					  chain[r].bytes, f->shard->now);
	}
	for (unsigned r = 0; r < f->lane->rails; r++) {
		struct mpib_lane_qp *q = mpib_flow_qp(f, r, f->tx.cts_next);
		int rc;

		if (chain[r].n == 0)
			continue;
		/* The rail's bytes are those of one request, or of a group. */
		for (unsigned i = 0; i < n; i++)
			mpib_report_post(f, e[i].req, r, q->qpn,
					 n == 1 ? chain[r].bytes : 0);
		rc = mpib_chain_post(f, &chain[r], q, number);
		if (rc < 0)
			return rc;
	}
	return 0;
}

struct mpib_record *mpib_sender_record(struct mpib_flow *f)
{
	struct mpib_record *rec = f->tables.out;

	rec += f->tx.cts_next % MPIB_SLOTS;
	*rec = (struct mpib_record){ .seq = f->tx.cts_next + 1, .n = 1 };
	return rec;
}

uint32_t mpib_sender_imm(struct mpib_flow *f, uint8_t mask, bool record,
			 uint32_t bytes)
{
	uint32_t slot = (uint32_t)(f->tx.cts_next % MPIB_SLOTS);

	if (f->lane->imm_version == MPIB_IMM_V1)
		return mpib_imm_v1(slot, mask,
				   record ? MPIB_IMM_SIZEQ_SENTINEL
					  : mpib_size_q(bytes));
	return mpib_imm_v2(slot, mask, f->lane->epoch, f->remote.id);
}

/* Pieces are reported in the order posted, whatever rail was faster. */
static void retire_piece(struct mpib_flow *f, const struct mpib_piece *p)
{
	for (unsigned i = 0; i < p->n; i++) {
		struct mpib_freq *r = &f->req[p->req[i]];

		if (p->mr[i])
			mpib_mr_unref(p->mr[i]);
		if (!r->active)
			continue;
		r->done += p->len[i];
		if (r->done == r->total)
			mpib_flow_finish(f, p->req[i], (int32_t)r->total,
					 &r->total, 1);
		else
			mpib_flow_progress(f, p->req[i], r->done);
	}
}

void mpib_sender_completed(struct mpib_flow *f, unsigned piece, unsigned rail,
			   bool ok)
{
	struct mpib_sender *tx = &f->tx;
	struct mpib_piece *p = &tx->piece[piece % MPIB_PIECES];

	if (!(p->pending & 1u << rail))
		return;
	p->pending &= (uint8_t) ~(1u << rail);
	for (unsigned i = 0; ok && i < p->n; i++)
		mpib_report_done(f, p->req[i], rail, 0, 0);
	if (ok) {
		mpib_record(f, MPIB_TIME_POST_SOUT + rail,
			    f->shard->now - p->chunk[rail].posted);
		mpib_tracker_ack(&f->lane->track[rail], &p->chunk[rail],
				 f->shard->now);
	} else {
		mpib_tracker_drop(&f->lane->track[rail], &p->chunk[rail],
				  f->shard->now);
		memset(p->len, 0, sizeof(p->len)); /* the lane breaks us */
	}

	while (tx->piece_tail != tx->piece_head) {
		p = &tx->piece[tx->piece_tail % MPIB_PIECES];
		if (p->pending)
			break;
		tx->piece_tail++;
		retire_piece(f, p);
	}
	if (f->stopping)
		mpib_flow_check_stopped(f);
}

bool mpib_sender_quiet(const struct mpib_flow *f)
{
	return f->tx.piece_tail == f->tx.piece_head;
}

void mpib_sender_forget(struct mpib_flow *f)
{
	struct mpib_sender *tx = &f->tx;

	for (; tx->piece_tail != tx->piece_head; tx->piece_tail++) {
		struct mpib_piece *p = &tx->piece[tx->piece_tail % MPIB_PIECES];

		for (unsigned i = 0; i < p->n; i++) {
			if (p->mr[i])
				mpib_mr_unref(p->mr[i]);
		}
		for (unsigned r = 0; r < MPIB_RAILS; r++)
			mpib_tracker_drop(&f->lane->track[r], &p->chunk[r],
					  f->shard->now);
	}
}
