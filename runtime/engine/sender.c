/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sending end: extents against CTS, in order. One step posts one piece:
 * what the next extent and the next CTS have in common.
 */
#include <mpib/wire.h>
#include <string.h>

#include "engine/chain.h"
#include "engine/flow.h"
#include "engine/policy.h"

bool mpib_sender_room(const struct mpib_flow *f)
{
	return f->tx.ext_head - f->tx.ext_tail < MPIB_EXTENTS;
}

bool mpib_sender_has_work(const struct mpib_flow *f)
{
	return f->tx.ext_head != f->tx.ext_tail;
}

static struct mpib_extent *oldest(struct mpib_flow *f)
{
	return &f->tx.ext[f->tx.ext_tail % MPIB_EXTENTS];
}

static bool well_formed(const struct mpib_desc *d)
{
	return d->op == MPIB_OP_SEND && d->n == 1 && d->idx == 0 &&
	       d->req < MPIB_REQUESTS && d->gen != 0 &&
	       d->total <= MPIB_SIZE_MAX && d->pos <= d->total &&
	       d->len <= d->total - d->pos && (d->len > 0 || d->total == 0);
}

int mpib_sender_take(struct mpib_flow *f, const struct mpib_desc *d)
{
	struct mpib_sender *tx = &f->tx;
	struct mpib_extent e;
	struct mpib_freq *r;
	int rc;

	if (!well_formed(d))
		return -EINVAL;
	r = &f->req[d->req];
	if (d->pos > 0 && !r->active && r->gen == d->gen)
		return 1; /* failed while the client fed it */

	e = (struct mpib_extent){ .req = d->req,
				  .tag = d->tag,
				  .len = d->len,
				  .pos = d->pos,
				  .total = d->total };
	rc = mpib_flow_hold(f, d, &e.mr, &e.addr);
	if (rc < 0)
		return rc;
	rc = mpib_flow_feed(f, d);
	if (rc < 0) {
		if (e.mr)
			mpib_mr_unref(e.mr);
		return rc;
	}
	if (d->tag >= 0)
		f->local_rank = d->tag;
	tx->ext[tx->ext_head++ % MPIB_EXTENTS] = e;
	return 1;
}

void mpib_sender_pop(struct mpib_flow *f)
{
	struct mpib_extent *e = oldest(f);

	if (e->mr)
		mpib_mr_unref(e->mr);
	f->tx.ext_tail++;
}

/* The peer is another proxy, but its bytes are checked like anybody's. */
static bool sane(const struct mpib_cts *c)
{
	return c->total <= MPIB_SIZE_MAX && c->pos <= c->total &&
	       c->len <= c->total - c->pos && c->n >= 1 &&
	       c->n <= MPIB_GROUP_MAX && c->idx < c->n &&
	       (c->n == 1 || c->len == c->total);
}

bool mpib_sender_cts(struct mpib_flow *f, uint64_t slot, struct mpib_cts *cts)
{
	const struct mpib_cts *entry = f->tables.in;

	entry += slot % MPIB_SLOTS;
	/* Acquire: the rail wrote seq last, after the rest of the entry. */
	if (__atomic_load_n(&entry->seq, __ATOMIC_ACQUIRE) != slot + 1)
		return false;
	*cts = *entry;
	return true;
}

/* The CTS that the message being sent has to go by; skips those of messages
 * that ended before their last part. */
static bool next_cts(struct mpib_flow *f, struct mpib_cts *cts)
{
	struct mpib_sender *tx = &f->tx;

	while (mpib_sender_cts(f, tx->cts_next, cts)) {
		int32_t ahead = (int32_t)(cts->msg - tx->msg);

		if (!sane(cts) || ahead > 0) {
			mpib_flow_break(f, -EPROTO,
					"peer sent a CTS that cannot be right");
			return false;
		}
		if (ahead == 0)
			return true;
		tx->cts_next++;
	}
	return false;
}

static bool window_open(struct mpib_flow *f, unsigned rail, uint32_t bytes)
{
	uint64_t inflight = f->lane->inflight[rail];

	return inflight == 0 ||
	       inflight + bytes <= f->shard->engine->cfg.lane_window;
}

/* Room on every rail of mask for a chain of wrs and its bytes, and a piece to
 * account for them. */
bool mpib_sender_may_post(struct mpib_flow *f, uint8_t mask, unsigned wrs,
			  const uint32_t *bytes)
{
	struct mpib_sender *tx = &f->tx;

	if (tx->piece_head - tx->piece_tail == MPIB_PIECES)
		return false;
	for (unsigned r = 0; r < f->lane->rails; r++) {
		if (!(mask & 1u << r))
			continue;
		if (mpib_qp_room(mpib_flow_qp(f, r, tx->cts_next)) < wrs ||
		    !window_open(f, r, bytes[r])) {
			f->stalls_sq++;
			return false;
		}
	}
	return true;
}

static void add_share(struct mpib_piece *p, const struct mpib_extent *e,
		      uint32_t len)
{
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

	memset(p, 0, sizeof(*p));
	for (unsigned i = 0; i < n; i++)
		add_share(p, &e[i], len[i]);
	for (unsigned r = 0; r < f->lane->rails; r++) {
		p->pending |= (uint8_t)((chain[r].n > 0) << r);
		p->rail[r] = chain[r].bytes;
		f->lane->inflight[r] += chain[r].bytes;
	}
	for (unsigned r = 0; r < f->lane->rails; r++) {
		int rc;

		if (chain[r].n == 0)
			continue;
		rc = mpib_chain_post(f, &chain[r],
				     mpib_flow_qp(f, r, f->tx.cts_next),
				     number);
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

/*
 * Tell the peer that its receive is too small: a record with both sizes and an
 * empty IMM on the home rail. Nothing of the message is written.
 */
static bool refuse(struct mpib_flow *f, const struct mpib_cts *cts)
{
	struct mpib_chain chain[MPIB_RAILS] = { 0 };
	const uint32_t none[MPIB_RAILS] = { 0 };
	struct mpib_extent *e = oldest(f);
	uint8_t mask = (uint8_t)(1u << f->home), req = e->req;
	uint32_t sizes[2] = { e->total, cts->total };
	struct mpib_record *rec;

	if (!mpib_sender_may_post(f, mask, 1, none))
		return false;

	rec = mpib_sender_record(f);
	rec->status = -EMSGSIZE;
	rec->size[0] = e->total;
	mpib_chain_imm(f, &chain[f->home], f->home,
		       mpib_sender_imm(f, mask, true, 0), rec);
	if (mpib_sender_post(f, chain, NULL, NULL, 0) < 0)
		return false;

	mpib_flow_finish(f, req, -EMSGSIZE, sizes, 2);
	while (mpib_sender_has_work(f) && oldest(f)->req == req)
		mpib_sender_pop(f);
	f->tx.cts_next++;
	f->tx.msg++;
	return true;
}

/* What one stream step does. */
struct step {
	uint32_t len; /* bytes of this piece */
	uint32_t rail[MPIB_RAILS];
	uint8_t data; /* rails with bytes of this piece */
	uint8_t imm; /* rails that get an IMM now; 0: the part goes on */
	bool ends_message, record;
};

static void split(struct mpib_flow *f, uint32_t len, uint32_t *rail)
{
	uint32_t sup = mpib_sup_bytes(mpib_get_sup_bw(f, len), len);

	rail[MPIB_RAIL_SUP] = sup;
	rail[MPIB_RAIL_SOUT] = len - sup;
}

static uint8_t rails_with_bytes(const uint32_t *rail)
{
	return (uint8_t)((rail[MPIB_RAIL_SOUT] > 0) << MPIB_RAIL_SOUT |
			 (rail[MPIB_RAIL_SUP] > 0) << MPIB_RAIL_SUP);
}

static void plan(struct mpib_flow *f, const struct mpib_extent *e,
		 const struct mpib_cts *cts, struct step *s)
{
	struct mpib_sender *tx = &f->tx;
	uint32_t part_end = cts->pos + cts->len;
	uint32_t ext_end = e->pos + e->len;
	uint32_t end = part_end < ext_end ? part_end : ext_end;
	bool whole;

	*s = (struct step){ .len = end - tx->pos,
			    .ends_message = end == e->total };
	split(f, s->len, s->rail);
	s->data = rails_with_bytes(s->rail);
	if (end != part_end && !s->ends_message)
		return;

	s->imm = tx->mask | s->data;
	if (s->imm == 0)
		s->imm = (uint8_t)(1u << f->home);
	/* byte_len says it all when each rail's bytes ride on its IMM, and
	 * when a full part cannot be mistaken for "more follows". */
	whole = tx->pos == cts->pos;
	s->record =
		!whole ||
		(s->ends_message && end == part_end && part_end < cts->total) ||
		(f->lane->imm_version == MPIB_IMM_V1 &&
		 mpib_size_q(s->len) == MPIB_IMM_SIZEQ_SENTINEL);
}

static void fill_record(struct mpib_flow *f, const struct mpib_extent *e,
			const struct step *s, struct mpib_record *rec)
{
	rec->size[0] = e->total;
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		rec->rail[r] = f->tx.rail[r] + s->rail[r];
}

static void build(struct mpib_flow *f, const struct mpib_extent *e,
		  const struct mpib_cts *cts, const struct step *s,
		  struct mpib_chain *chain)
{
	struct mpib_record *rec = s->record ? mpib_sender_record(f) : NULL;
	unsigned leader = s->imm & 1u ? MPIB_RAIL_SOUT : MPIB_RAIL_SUP;
	uint32_t imm = mpib_sender_imm(f, s->imm, s->record, s->len);

	if (rec)
		fill_record(f, e, s, rec);
	for (unsigned r = 0; r < f->lane->rails; r++) {
		/* SUP has the front, so that the cut is on 128 bytes. */
		uint32_t off = r == MPIB_RAIL_SUP ? 0 : s->rail[MPIB_RAIL_SUP];
		struct mpib_record *mine = r == leader ? rec : NULL;
		struct mpib_span span = {
			.mr = e->mr,
			.from = e->addr + (f->tx.pos - e->pos) + off,
			.to = cts->addr + (f->tx.pos - cts->pos) + off,
			.rkey = cts->rkey[r],
			.len = s->rail[r],
		};

		if (s->imm & 1u << r)
			mpib_chain_last(f, &chain[r], r, &span, imm, mine);
		else if (span.len)
			mpib_chain_write(f, &chain[r], r, &span);
	}
}

static void advance(struct mpib_flow *f, const struct mpib_extent *e,
		    const struct step *s)
{
	struct mpib_sender *tx = &f->tx;

	tx->pos += s->len;
	tx->mask |= s->data;
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		tx->rail[r] += s->rail[r];
	if (s->imm) {
		tx->cts_next++;
		tx->mask = 0;
		memset(tx->rail, 0, sizeof(tx->rail));
	}
	if (tx->pos == e->pos + e->len)
		mpib_sender_pop(f);
	if (s->ends_message) {
		tx->msg++;
		tx->pos = 0;
		f->messages++;
	}
}

static uint64_t stream_step(struct mpib_flow *f, const struct mpib_cts *cts)
{
	struct mpib_chain chain[MPIB_RAILS] = { 0 };
	struct mpib_extent *e = oldest(f);
	struct step s;

	if (e->total > cts->total)
		return refuse(f, cts);
	if (f->tx.pos < e->pos || f->tx.pos < cts->pos ||
	    f->tx.pos > cts->pos + cts->len || f->tx.pos > e->pos + e->len) {
		mpib_flow_break(f, -EPROTO, "parts out of order");
		return 0;
	}
	plan(f, e, cts, &s);
	if (!mpib_sender_may_post(f, s.data | s.imm, 2, s.rail))
		return 0;

	build(f, e, cts, &s, chain);
	if (mpib_sender_post(f, chain, e, &s.len, 1) < 0)
		return 0;
	advance(f, e, &s);
	return (uint64_t)s.len + 1;
}

uint64_t mpib_sender_step(struct mpib_flow *f)
{
	struct mpib_cts cts;

	if (!mpib_sender_has_work(f) || f->broken || f->stopping)
		return 0;
	if (f->tx.group.n)
		return mpib_group_step(f);
	if (!next_cts(f, &cts)) {
		f->stalls_cts += !f->tx.waiting;
		f->tx.waiting = true;
		return 0;
	}
	f->tx.waiting = false;
	f->remote_rank = cts.tag;
	if (cts.n > 1)
		return mpib_group_begin(f, &cts);
	return stream_step(f, &cts);
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
	f->lane->inflight[rail] -= p->rail[rail];
	if (!ok)
		memset(p->len, 0, sizeof(p->len)); /* the lane breaks us */

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

void mpib_sender_drop(struct mpib_flow *f)
{
	mpib_group_drop(f);
	while (mpib_sender_has_work(f))
		mpib_sender_pop(f);
}

bool mpib_sender_quiet(const struct mpib_flow *f)
{
	return f->tx.piece_tail == f->tx.piece_head;
}

bool mpib_sender_uses(const struct mpib_flow *f, const struct mpib_mr *mr)
{
	const struct mpib_sender *tx = &f->tx;

	for (uint32_t i = tx->ext_tail; i != tx->ext_head; i++) {
		if (tx->ext[i % MPIB_EXTENTS].mr == mr)
			return true;
	}
	for (unsigned i = 0; i < tx->group.n; i++) {
		if (tx->group.held & 1u << i && tx->group.ext[i].mr == mr)
			return true;
	}
	return false;
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
	}
}
