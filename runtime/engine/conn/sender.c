/* SPDX-License-Identifier: Apache-2.0 */
/* The sending end of a connection: matches send ranges with CTS, step by step;
 * group.c answers grouped receives. Shard thread. */
#include <mpib/wire.h>
#include <string.h>

#include "engine/conn/chain.h"
#include "engine/conn/clear.h"
#include "engine/conn/conn.h"
#include "engine/lane/spread.h"
#include "engine/split/mode.h"

/*
 * How the sender matches sends with receives. Receives are answered in the
 * order posted, and each buffer gets the oldest queued send with its tag: so
 * the n-th send of a tag goes to the n-th buffer of that tag, in whatever order
 * tags come. Sends with other tags remain queued, and later ones overtake them.
 */

/* Move range i to the front; the ranges before it keep their order. */
static void to_front(struct mpib_sender *tx, uint32_t i)
{
	struct send_range e = tx->range[i % SEND_RANGES];

	for (; i != tx->range_tail; i--)
		tx->range[i % SEND_RANGES] = tx->range[(i - 1) % SEND_RANGES];
	tx->range[i % SEND_RANGES] = e;
}

/* Return the first range not yet compared with the current receive. A buffer
 * that got its send never becomes free again, so a range that did not fit this
 * receive once never will. */
static uint32_t first_unseen(struct mpib_sender *tx)
{
	if (tx->looked_for != tx->cts_next ||
	    (int32_t)(tx->looked - tx->range_tail) < 0) {
		tx->looked_for = tx->cts_next;
		tx->looked = tx->range_tail;
	}
	return tx->looked;
}

bool mpib_match(struct engine_conn *f, mpib_fits_fn *fits, int32_t tag)
{
	struct mpib_sender *tx = &f->tx;
	uint32_t i = first_unseen(tx);

	/* A range that fits but had no room to be posted is in front. */
	if (mpib_sender_has_work(f) && fits(f, mpib_sender_oldest(f), tag))
		return true;
	while (i != tx->range_head &&
	       !fits(f, &tx->range[i % SEND_RANGES], tag))
		i++;
	tx->looked = i;
	if (i == tx->range_head)
		return false;
	to_front(tx, i);
	return true;
}

bool mpib_match_none(const struct engine_conn *f)
{
	const struct mpib_sender *tx = &f->tx;

	return tx->range_head == tx->range_tail ||
	       (tx->looked_for == tx->cts_next && tx->looked == tx->range_head);
}

/* mpib_fits_fn: the range is one of request req. */
static bool is_of(const struct engine_conn *f, const struct send_range *e,
		  int32_t req)
{
	(void)f;
	return e->req == req;
}

void mpib_match_forget(struct engine_conn *f, uint8_t req)
{
	f->tx.looked = f->tx.range_tail;
	while (mpib_match(f, is_of, req))
		mpib_sender_pop(f);
}

void mpib_sender_drop(struct engine_conn *f)
{
	mpib_replay_drop(f);
	mpib_group_drop(f);
	while (mpib_sender_has_work(f))
		mpib_sender_pop(f);
	/* End the send ops that wait only for an end-to-end ack. */
	mpib_sender_retire(f);
}

bool mpib_sender_uses(const struct engine_conn *f, const struct mpib_mr *mr)
{
	const struct mpib_sender *tx = &f->tx;

	for (uint32_t i = tx->range_tail; i != tx->range_head; i++) {
		if (tx->range[i % SEND_RANGES].mr == mr)
			return true;
	}
	for (unsigned i = 0; i < tx->group.n; i++) {
		if (tx->group.held & 1u << i && tx->group.range[i].mr == mr)
			return true;
	}
	return false;
}

/* A step: one send op for a receive of one buffer. */

/* The step's bytes are not split between the rails yet. */
#define NOT_SPLIT UINT32_MAX

/* What one step for a receive of one buffer posts. */
struct step {
	uint64_t from; /* address of the bytes */
	uint32_t at; /* offset from the address in the CTS */
	uint32_t len; /* bytes of this send op */
	uint32_t rail[MPIB_RAILS];
	uint8_t data; /* rails with bytes of this send op */
	uint8_t imm; /* rails that get an IMM; 0: the slot continues */
	bool ends_message;
	struct step_how {
		/* a WRITE_WITH_IMM of the bytes on each rail suffices */
		bool plain;
		bool record;
		bool apart; /* payload by WRITE, the IMM without it */
		uint8_t spread; /* rails whose part uses several QPs */
	} how;
};

/* Return whether the oldest range is a send whose bytes are the payload of its
 * IMMs and go into one buffer that it may fill. Usually it is: then no parts
 * must be matched. */
static inline bool step_is_plain(const struct engine_conn *f,
				 const struct send_range *e,
				 const struct mpib_cts *cts)
{
	return cts->n == 1 && e->tag == cts->tag &&
	       e->len == mpib_total_of(f, e) && e->len <= cts->total &&
	       cts->len == cts->total && e->len - 1 < f->lane->plain_most &&
	       !f->tx.pos && f->lane->spread == MPIB_SPREAD_SPLIT &&
	       f->lane->imm_version != MPIB_IMM_V1;
}

/* Return the record of a send op, by rail, of a message of total bytes. */
static struct mpib_record *step_record(struct engine_conn *f, uint32_t total,
				       uint32_t sout, uint32_t sup)
{
	struct mpib_record *rec = mpib_sender_record(f);

	rec->size[0] = total;
	rec->rail[MPIB_RAIL_SOUT] = f->tx.rail[MPIB_RAIL_SOUT] + sout;
	rec->rail[MPIB_RAIL_SUP] = f->tx.rail[MPIB_RAIL_SUP] + sup;
	return rec;
}

/* Build the send op's chain on one rail. rec: the slot's record, if this rail
 * leads. */
__attribute__((always_inline)) static inline void
step_build(struct engine_conn *f, const struct send_range *e,
	   const struct mpib_cts *cts, const struct step *s,
	   struct mpib_chain *chain, const struct mpib_record *rec)
{
	unsigned r = chain->rail;
	/* SUP has the front, so that the cut is a multiple of 128. */
	uint32_t off = r == MPIB_RAIL_SUP ? 0 : s->rail[MPIB_RAIL_SUP];
	struct mpib_span span = {
		.mr = e->mr,
		.from = s->from + off,
		.to = cts->addr + s->at + off,
		.rkey = cts->rkey[r],
		.len = s->rail[r],
	};

	if (span.len && (s->how.apart || !s->imm)) {
		mpib_chain_write(f, chain, &span);
		span.len = 0;
	}
	if (s->imm)
		mpib_chain_last(f, chain, &span,
				s->how.plain ? mpib_sender_imm_v2(f, r, s->imm)
					     : mpib_sender_imm(f, r, s->imm,
							       s->how.record,
							       s->len),
				rec);
}

/* Post the step, which has room: q[r] is the QP of its chain on rail r. */
__attribute__((always_inline)) static inline void
step_make(struct engine_conn *f, uint32_t total, const struct send_range *e,
	  const struct mpib_cts *cts, const struct step *s,
	  struct mpib_lane_qp **q)
{
	struct op_range *range = mpib_kept(mpib_sender_range(f, 0));
	struct mpib_record *rec = NULL;
	uint32_t number = mpib_sender_number(f);
	uint8_t stripes = s->data | s->imm;
	struct send_op *p;

	*range = (struct op_range){
		.mr = e->mr,
		.from = s->from,
		.at = s->at,
		.len = s->len,
		.sup = s->rail[MPIB_RAIL_SUP],
		.req = e->req,
	};
	if (s->how.record)
		rec = step_record(f, total, s->rail[MPIB_RAIL_SOUT],
				  s->rail[MPIB_RAIL_SUP]);
	p = mpib_sender_post(f, 1, s->rail, stripes, s->imm, s->how.spread);
#pragma GCC unroll 2
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		if (stripes & mpib_rail_bit(r)) {
			struct mpib_chain chain = { .rail = r, .q = q[r] };

			step_build(f, e, cts, s, &chain, rec);
			mpib_sender_stripe(f, p, number, &chain, s->how.plain);
			rec = NULL; /* only the first rail has it */
		}
	}
	if (p->report)
		mpib_sender_report(f, p);
}

/*
 * Steps of the sending end that are not plain: of a message in parts, or to a
 * receive in parts, on several rails or QPs, with a record, or of a send that
 * is too large for its receive. One step posts one send op: the bytes that both
 * the next CTS and the oldest fitting range cover, and no more than the rails
 * carry in one WR.
 */

void mpib_sender_bad_cts(struct engine_conn *f)
{
	engine_conn_break(f, -EPROTO, "peer sent a CTS that cannot be right");
}

/* Tell the receiver that its receive is too small: a record with -EMSGSIZE and
 * the message's size, by an IMM on the home rail. No byte of the message is
 * sent. The send ends with the send op, so after its receive. */
__attribute__((noinline)) static bool sender_refuse(struct engine_conn *f,
						    const struct mpib_cts *cts)
{
	struct mpib_lane_qp *q[MPIB_RAILS];
	struct mpib_chain chain = { 0 };
	const uint32_t none[MPIB_RAILS] = { 0 };
	struct send_range *e = mpib_sender_oldest(f);
	unsigned home = engine_conn_home(f);
	uint8_t mask = mpib_rail_bit(home), req = e->req;
	struct mpib_record *rec;
	struct send_op *p;
	uint32_t number;

	if (!mpib_sender_may_post(f, 1, mask, 0, 1, none, q))
		return false;

	rec = mpib_sender_record(f);
	rec->status = -EMSGSIZE;
	rec->size[0] = mpib_total_of(f, e);
	mpib_sender_refused(f, req, cts->total);
	chain.rail = home;
	chain.q = q[home];
	mpib_chain_imm(f, &chain, mpib_sender_imm(f, home, mask, true, 0), rec);
	*mpib_sender_range(f, 0) = (struct op_range){ .req = req };
	number = mpib_sender_number(f);
	p = mpib_sender_post(f, 1, none, mask, mask, 0);
	p->report = false; /* no rail carries bytes of it */
	mpib_sender_stripe(f, p, number, &chain, false);

	f->tx.cts_next++;
	f->tx.msg++;
	return true;
}

static uint8_t rails_with_bytes(const uint32_t *rail)
{
	return (uint8_t)((rail[MPIB_RAIL_SOUT] > 0) << MPIB_RAIL_SOUT |
			 (rail[MPIB_RAIL_SUP] > 0) << MPIB_RAIL_SUP);
}

/* Decide how to post a step that is not plain. whole: the message and the part
 * end together, before the buffer does. */
__attribute__((noinline)) static struct step_how
step_not_plain(struct engine_conn *f, uint32_t at, uint32_t sout, uint32_t sup,
	       uint8_t imm, bool whole)
{
	const uint32_t rail[MPIB_RAILS] = { sout, sup };
	const struct mpib_lane *lane = f->lane;
	uint32_t len = sout + sup;
	struct step_how how = { false };

	if (lane->spread != MPIB_SPREAD_SPLIT)
		how.spread = mpib_spread_some(f->lane, f->tx.spread, rail, imm);
	if (!imm)
		return how;
	how.apart = len > f->shard->ar_above || how.spread;
	/* byte_len alone tells the receiver the size only if each rail's bytes
	 * are the payload of its IMM, and if the end of the message does not
	 * look like a full slot that more parts follow. */
	how.record = at > 0 || how.apart || whole ||
		     (lane->imm_version == MPIB_IMM_V1 &&
		      mpib_size_q(len) == MPIB_IMM_SIZEQ_SENTINEL);
	return how;
}

/* sup: SUP's bytes, if they are known already, else NOT_SPLIT. */
static inline void sender_plan(struct engine_conn *f, uint32_t total,
			       const struct send_range *e,
			       const struct mpib_cts *cts, uint32_t sup,
			       struct step *s)
{
	struct mpib_sender *tx = &f->tx;
	const struct mpib_lane *lane = f->lane;
	uint32_t part_end = cts->pos + cts->len;
	uint32_t ext_end = e->pos + e->len;
	uint32_t end = part_end < ext_end ? part_end : ext_end;
	uint32_t len = end - tx->pos;

	if (len > lane->msg_most) {
		len = lane->msg_most;
		end = tx->pos + len;
	}
	*s = (struct step){ .from = e->addr + (tx->pos - e->pos),
			    .at = tx->pos - cts->pos,
			    .len = len,
			    .ends_message = end == total };
	/* The peer may have changed the CTS since sup was decided. */
	s->rail[MPIB_RAIL_SUP] =
		sup > len ? mpib_split(f, total, tx->pos, len, NULL) : sup;
	s->rail[MPIB_RAIL_SOUT] = len - s->rail[MPIB_RAIL_SUP];
	s->data = rails_with_bytes(s->rail);
	if (end == part_end || s->ends_message) {
		s->imm = tx->mask | s->data;
		if (s->imm == 0)
			s->imm = mpib_rail_bit(engine_conn_home(f));
	}
	s->how.plain = true;
	if (!s->imm || s->at || len > f->shard->ar_above ||
	    part_end < cts->total || lane->spread != MPIB_SPREAD_SPLIT ||
	    lane->imm_version == MPIB_IMM_V1)
		s->how = step_not_plain(f, s->at, s->rail[MPIB_RAIL_SOUT],
					s->rail[MPIB_RAIL_SUP], s->imm,
					part_end < cts->total &&
						s->ends_message &&
						end == part_end);
}

/* The bytes are posted: move on to those after them. */
static void sender_advance(struct engine_conn *f, const struct send_range *e,
			   const struct step *s)
{
	struct mpib_sender *tx = &f->tx;
	uint32_t pos = tx->pos + s->len;

	if (s->imm) {
		tx->cts_next++;
		tx->mask = 0;
		memset(tx->rail, 0, sizeof(tx->rail));
	} else {
		tx->mask |= s->data;
		for (unsigned r = 0; r < MPIB_RAILS; r++)
			tx->rail[r] += s->rail[r];
	}
	/* The send op now owns the range's reference to the region; take
	 * another one if the range goes on. */
	if (pos == e->pos + e->len)
		mpib_sender_advance(f);
	else if (e->mr)
		mpib_mr_ref(e->mr);
	if (s->ends_message) {
		tx->msg++;
		tx->pos = 0;
		mpib_count_messages(f, 1);
	} else {
		tx->pos = pos;
		tx->req = e->req;
	}
}

/* mpib_fits_fn of a receive of one buffer: the next range of the send that it
 * has begun, or the first range of a send with its tag. */
static inline bool sender_fits(const struct engine_conn *f,
			       const struct send_range *e, int32_t tag)
{
	if (f->tx.pos)
		return e->req == f->tx.req;
	return e->tag == tag && e->pos == 0;
}

/* Make any step. sup: as for sender_plan(). */
static uint64_t any_step(struct engine_conn *f, uint32_t sup)
{
	const struct send_range *e = mpib_sender_oldest(f);
	struct mpib_lane_qp *q[MPIB_RAILS] = { NULL };
	struct mpib_cts copy, *cts = &copy;
	uint32_t total;
	struct step s;

	if (!mpib_sender_next_cts(f, cts))
		return 0;
	if (cts->n > 1)
		return mpib_group_begin(f);
	if (!sender_fits(f, e, cts->tag) &&
	    !mpib_match(f, sender_fits, cts->tag)) {
		/* Otherwise it has its send, whose next part has not come
		 * yet. */
		if (!f->tx.pos)
			mpib_want_tell(&f->reply->want, f->ring.next, &cts->tag,
				       1);
		mpib_stall(f, MPIB_STALL_CTS);
		return 0;
	}
	total = mpib_total_of(f, e);
	if (total > cts->total)
		return sender_refuse(f, cts);
	if (f->tx.pos - e->pos > e->len || f->tx.pos - cts->pos > cts->len) {
		engine_conn_break(f, -EPROTO, "parts out of order");
		return 0;
	}
	sender_plan(f, total, e, cts, sup, &s);
	if (!mpib_sender_may_post(f, 1, s.data | s.imm, s.how.spread, 2, s.rail,
				  q))
		return 0;
	step_make(f, total, e, cts, &s, q);
	sender_advance(f, e, &s);
	return (uint64_t)s.len + 1;
}

/* step_make() does less for a step that it can see is plain. */
__attribute__((always_inline)) static inline uint64_t
plain_step(struct engine_conn *f, const struct send_range *e,
	   const struct mpib_cts *cts, unsigned r)
{
	struct mpib_lane_qp *q[MPIB_RAILS] = { NULL };
	uint32_t len = e->len;
	const struct step s = {
		.from = e->addr,
		.len = len,
		.rail = { r == MPIB_RAIL_SOUT ? len : 0,
			  r == MPIB_RAIL_SUP ? len : 0 },
		.data = mpib_rail_bit(r),
		.imm = mpib_rail_bit(r),
		.ends_message = true,
		.how = { .plain = true },
	};

	if (!mpib_sender_may_begin(f, 1, s.imm) ||
	    !mpib_chain_may_post(f, r, 0, 2, len, true, &q[r]))
		return 0;
	step_make(f, len, e, cts, &s, q);
	f->tx.cts_next++;
	f->tx.msg++;
	mpib_sender_advance(f);
	mpib_count_messages(f, 1);
	return (uint64_t)len + 1;
}

static inline uint64_t whole_step(struct engine_conn *f,
				  const struct send_range *e,
				  const struct mpib_cts *cts)
{
	uint32_t sup = mpib_split(f, e->len, 0, e->len, NULL);

	if (!sup)
		return plain_step(f, e, cts, MPIB_RAIL_SOUT);
	if (sup != e->len)
		return any_step(f, sup);
	return plain_step(f, e, cts, MPIB_RAIL_SUP);
}

/* Post at most one send op. Returns bytes posted + 1, or 0 if nothing can be
 * posted now. */
static inline uint64_t sender_step(struct engine_conn *f)
{
	const struct send_range *e;
	struct mpib_cts cts;

	/* Also without a queued range: the group may only lack room. */
	if (f->tx.group.n)
		return mpib_group_step(f);
	if (!mpib_sender_has_work(f))
		return 0;
	if (!mpib_sender_next_cts(f, &cts)) {
		mpib_stall(f, MPIB_STALL_CTS);
		return 0;
	}
	e = mpib_kept(mpib_sender_oldest(f));
	if (!step_is_plain(f, e, &cts))
		return any_step(f, NOT_SPLIT);
	return whole_step(f, e, &cts);
}

int mpib_sender_run(struct engine_conn *f, struct mpib_drr_run *run)
{
	uint64_t n = 1;

	f->stopped_by = MPIB_DRR_NONE;
	/* A step neither loses stripes nor stops the connection, and one that
	 * breaks it is the last. So check for these once per run. */
	while (n && f->tx.lost) {
		n = mpib_replay_step(f);
		if (n && !mpib_drr_pay(run, n - 1))
			return MPIB_DRR_RAN;
	}
	if (f->broken || f->stopping)
		n = 0;
	while (n) {
		n = sender_step(f);
		if (n && !mpib_drr_pay(run, n - 1))
			return MPIB_DRR_RAN;
	}
	if (!mpib_sender_has_work(f) && f->tx.group.n == 0 && f->tx.lost == 0)
		return MPIB_DRR_IDLE;
	return f->stopped_by;
}
