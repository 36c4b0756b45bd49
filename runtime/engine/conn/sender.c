/* SPDX-License-Identifier: Apache-2.0 */
/* The sending end of a connection: it matches send ranges with CTS and posts
 * send ops, one per step. group.c answers grouped receives. Shard thread. */
#include <errno.h>
#include <mpib/wire.h>
#include <string.h>

#include "engine/conn/chain.h"
#include "engine/lane/spread.h"
#include "engine/split/mode.h"

/*
 * How the sender matches sends with receives. Receives are answered in the
 * order in which they were posted, and each buffer gets the oldest queued send
 * with its tag. So the n-th send of a tag goes to the n-th buffer of that tag,
 * whatever sends and buffers of other tags come between. Sends with other tags
 * stay queued, and later sends may overtake them.
 */

/* Move range i to the front. The ranges before it keep their order. */
static void to_front(struct mpib_sender *tx, uint32_t i)
{
	struct send_range e = tx->range[i % SEND_RANGES];

	for (; i != tx->range_tail; i--)
		tx->range[i % SEND_RANGES] = tx->range[(i - 1) % SEND_RANGES];
	tx->range[i % SEND_RANGES] = e;
}

/* Return the first range that was not yet compared with the current receive.
 * Earlier ranges need no second comparison, because a buffer never becomes free
 * again after it was assigned to a send. */
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

	/* If a matching range was found earlier but the send queue had no room,
	 * that range is at the front. */
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

/* Drop the oldest range. */
static void sender_pop(struct engine_conn *f)
{
	struct send_range *e = mpib_sender_oldest(f);

	if (e->mr)
		mpib_mr_unref(e->mr);
	mpib_sender_advance(f);
}

/* An mpib_fits_fn: return whether the range belongs to request `req`. */
static bool is_of(const struct engine_conn *f, const struct send_range *e,
		  int32_t req)
{
	(void)f;
	return e->req == req;
}

/* Drop all queued ranges of a request. The current receive is already
 * answered. */
static void match_forget(struct engine_conn *f, uint8_t req)
{
	f->tx.looked = f->tx.range_tail;
	while (mpib_match(f, is_of, req))
		sender_pop(f);
}

void mpib_sender_drop(struct engine_conn *f)
{
	mpib_replay_drop(f);
	mpib_group_drop(f);
	while (mpib_sender_has_work(f))
		sender_pop(f);
	/* End the send ops that wait only for an end-to-end ack. */
	mpib_sender_retire(f);
}

void mpib_sender_refused(struct engine_conn *f, uint8_t req, uint32_t most)
{
	struct engine_request *r = &f->req[req];

	r->refused = true;
	f->completion[req].size[0] = r->total;
	f->completion[req].size[1] = most;
	engine_conn_progress(f, req, r->fed);
	match_forget(f, req);
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

/*
 * The limit of bytes in flight on a rail, over all its lanes.
 *
 * The order of the DRR classes has no effect on bytes that already wait in send
 * queues and sockets: there each QP gets an equal share. So while tenants
 * compete or weights differ, a rail has at most share.window bytes in flight.
 * When a completion frees room, the next connection in DRR order gets the room.
 * If tenants do not compete and weights are equal, only the window of each lane
 * applies, and no lane waits for another.
 *
 * A small message on a lane with nothing in flight does not wait for long
 * messages of other lanes, because an extra eighth of the window is reserved
 * for small messages.
 */

#define LOOK_NS 1000000ull
#define LOOKS 20
#define SMALL 4096u
#define MORE 8 /* the extra part of the window is 1/MORE */

/* Return whether the lane is parked: no byte in flight was acknowledged during
 * LOOKS successive checks. A lane with long round trips gets more checks, as
 * many as fill four round trips. The time is counted in checks, so that no lane
 * counts as parked after this process was suspended. */
static bool is_parked(struct mpib_lane *lane, unsigned r)
{
	const struct mpib_tracker *t = &lane->track[r];
	uint64_t usual = 4 * t->srtt / LOOK_NS;

	if (t->inflight == 0 || t->acked != lane->looked[r].acked)
		lane->looked[r].times = 0;
	lane->looked[r].acked = t->acked;
	return ++lane->looked[r].times > (usual > LOOKS ? usual : LOOKS);
}

/* Return the bytes in flight on parked lanes. Other lanes do not wait for
 * them. */
static uint64_t window_parked(struct mpib_shard *s, unsigned r)
{
	struct mpib_lane *lane;
	uint64_t bytes = 0;

	TAILQ_FOREACH(lane, &s->lanes, link)
	{
		if (is_parked(lane, r))
			bytes += lane->track[r].inflight;
	}
	return bytes;
}

/* Return whether the bytes in flight on the rail fill share.window. */
static bool window_full(struct mpib_shard *s, unsigned r)
{
	const struct mpib_engine_config *cfg = &s->engine->cfg;
	struct mpib_rail *rail = &s->rail[r];
	uint32_t window = __atomic_load_n(&cfg->share_window, __ATOMIC_RELAXED);

	/* The last send op may exceed the window, so that every size can be
	 * sent. */
	if (window == 0 || rail->bytes.inflight < window)
		return false;
	if (s->now - rail->parked_ns > LOOK_NS) {
		rail->parked = window_parked(s, r);
		rail->parked_ns = s->now;
	}
	return rail->bytes.inflight >= rail->parked + window;
}

/* Return whether these bytes may be posted although the window is full. They
 * may if they are few and their lane has nothing in flight on the rail. */
static bool window_passes(const struct mpib_lane *lane, unsigned r,
			  uint32_t bytes)
{
	const struct mpib_engine_config *cfg = &lane->shard->engine->cfg;
	const struct mpib_rail *rail = &lane->shard->rail[r];
	uint64_t window = __atomic_load_n(&cfg->share_window, __ATOMIC_RELAXED);

	return bytes <= SMALL && lane->track[r].inflight == 0 &&
	       rail->bytes.inflight < rail->parked + window + window / MORE;
}

/* Checking the room for a send op, and posting it. */

/* Return whether rail r has room on QP q for a chain of `wrs` WRs. On a dqplb
 * lane a chain that is not spread now may have to be spread when it is posted
 * (mpib_sender_spread()), so check both the virtual QP and the single QP. */
static inline bool chain_fits(struct engine_conn *f,
			      const struct mpib_lane_qp *q, unsigned r,
			      uint8_t spread, unsigned wrs)
{
	bool spreads = spread & mpib_rail_bit(r);

	if (spreads || (f->lane->numbered && f->lane->via[r].vqp)) {
		/* A spread chain is first built with WRs of the shard's
		 * pool. */
		if (mpib_vqp_send_room(f->lane->via[r].vqp) < MPIB_CHAIN_MAX ||
		    f->shard->wrs.left < 2 * MPIB_WR_SPARE)
			return false;
		if (spreads)
			return true;
	}
	return mpib_qp_fits(q, r, wrs);
}

/* Return whether the connection may use the free room. False: a connection that
 * is earlier in DRR order has reserved the rail's window or the lane's room.
 * Then count a stall. */
static bool is_in_turn(struct engine_conn *f, unsigned r, uint32_t bytes)
{
	struct mpib_shard *s = f->shard;
	uint8_t bit = mpib_rail_bit(r);

	if (!(s->full & bit) && window_full(s, r))
		s->full |= bit;
	if (s->full & bit && !window_passes(f->lane, r, bytes))
		f->stopped_by = MPIB_DRR_WINDOW_FULL;
	else if (f->lane->full_turn == s->n.turns)
		f->stopped_by = MPIB_DRR_BLOCKED;
	if (f->stopped_by == MPIB_DRR_NONE)
		return true;
	mpib_stall(f, MPIB_STALL_SHARE);
	return false;
}

/* Return whether the lane's window on the rail has room for these bytes, or the
 * lane has nothing in flight on the rail. */
static inline bool window_fits(const struct engine_conn *f, unsigned r,
			       uint32_t bytes)
{
	uint64_t inflight = f->lane->track[r].inflight;

	return inflight == 0 ||
	       inflight + bytes <=
		       __atomic_load_n(&f->shard->engine->cfg.lane_window,
				       __ATOMIC_RELAXED);
}

/* The lane is full. Let the connection keep its turn, so that it gets the room
 * that becomes free next. Return false. */
static bool keep_turn(struct engine_conn *f, enum mpib_stall why)
{
	f->stopped_by = MPIB_DRR_BLOCKED;
	f->lane->full_turn = f->shard->n.turns;
	mpib_stall(f, why);
	return false;
}

/* Return whether the step may be posted and a send op with this many ranges is
 * free. Fill in the step's QPs. If room is short, count a stall. */
__attribute__((always_inline)) static inline bool
step_may_post(struct engine_conn *f, unsigned ranges, struct mpib_step *s)
{
	if (s->stripes & ~f->lane->open)
		return false;
	if (!send_op_free(f, ranges)) {
		mpib_stall(f, MPIB_STALL_SLOT);
		return false;
	}
#pragma GCC unroll 2
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		if (!(s->stripes & mpib_rail_bit(r)))
			continue;
		s->q[r] = mpib_kept(engine_conn_qp(f, r, f->tx.cts_next));
		if (f->shard->contended && !is_in_turn(f, r, s->rail[r]))
			return false;
		/* The chain has a WRITE per range, and an IMM or a record. */
		if (!chain_fits(f, s->q[r], r, s->spread, s->n + 1))
			return keep_turn(f, MPIB_STALL_SQ);
		if (!window_fits(f, r, s->rail[r]))
			return keep_turn(f, MPIB_STALL_WINDOW);
	}
	return true;
}

/* Return the IMM by which a rail of the step ends the current slot. */
static inline uint32_t step_imm(const struct engine_conn *f, unsigned r,
				const struct mpib_step *s)
{
	uint32_t slot = (uint32_t)(f->tx.cts_next % MPIB_SLOTS);

	if (f->lane->imm_version == MPIB_IMM_V1)
		return mpib_imm_v1(
			slot, s->imm,
			s->record ? MPIB_IMM_SIZEQ_SENTINEL
				  : mpib_size_q(s->rail[0] + s->rail[1]));
	return mpib_imm_v2(slot, s->imm, f->lane->epoch[r], f->remote.id);
}

static inline void note_end(struct engine_conn *f, uint8_t imm)
{
	/* At first, rail k carries stripe k. */
	*mpib_ended_at(f, f->tx.cts_next) =
		imm | (uint8_t)(1u << MPIB_RAIL_SUP << MPIB_RAILS) |
		(uint8_t)(f->tx.released ? MPIB_ENDED_RELEASED : 0);
	f->tx.released = false;
}

/* Record that a range was posted. Return whether the range's request has a
 * report. */
static inline bool post_range(struct engine_conn *f, const struct op_range *s)
{
	struct engine_request *r = mpib_kept(&f->req[s->req]);

	if (!r->posted) {
		mpib_record(f, MPIB_TIME_SUBMIT_POST, f->shard->now - r->since);
		/* Relaxed: the client reads the answer only after this process
		 * has ended. The call that posts the WRs orders this store
		 * before the WRs. */
		atomic_store_explicit(
			&f->answer[s->req],
			mpib_answer(r->gen, r->refused, f->tx.msg),
			memory_order_relaxed);
	}
	r->posted = true;
	return r->report;
}

/* Make the step's send op, with nothing in flight yet. */
__attribute__((always_inline)) static inline struct send_op *
make_op(struct engine_conn *f, const struct mpib_step *s)
{
	struct mpib_sender *tx = &f->tx;
	struct send_op *p = mpib_kept(send_op_at(f, tx->op_head++));
	bool report = false;

	p->before = mpib_adapt_posted(&f->lane->adapt, s->rail[MPIB_RAIL_SOUT],
				      s->rail[MPIB_RAIL_SUP]);
	mpib_stripes_post(&p->c, s->stripes, s->imm);
	p->c.spread = s->spread;
	tx->spread = s->imm ? 0 : tx->spread | s->spread;
	p->slot = tx->cts_next;
	p->n = (uint8_t)s->n;
	p->first = tx->op_range_head;
	for (unsigned i = 0; i < s->n; i++) {
		*send_op_range(f, p, i) = s->range[i];
		report |= post_range(f, &s->range[i]);
	}
	p->report = report;
	tx->op_range_head += s->n;
	if (s->imm)
		note_end(f, s->imm);
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		p->stripe[r].posted = p->stripe[r].bytes = 0;
	return p;
}

/* Build the chain on one rail. `record` is the record in the table if this rail
 * carries it, else NULL. */
__attribute__((always_inline)) static inline void
make_chain(struct engine_conn *f, const struct mpib_step *s,
	   struct mpib_chain *chain, const struct mpib_record *record)
{
	struct mpib_span span = { 0 };
	unsigned r = chain->rail;

	for (unsigned i = 0; i < s->n; i++) {
		span = mpib_range_span(&s->range[i], r,
				       &s->cts[s->range[i].buf], r);
		if (span.len && (s->apart || !s->imm)) {
			mpib_chain_write(f, chain, &span);
			span.len = 0;
		}
	}
	if (s->imm)
		mpib_chain_last(f, chain, &span, step_imm(f, r, s), record);
}

/* Copy the step's record to the table entry of this send op. */
static struct mpib_record *make_record(struct engine_conn *f, uint32_t number,
				       const struct mpib_record *record)
{
	struct mpib_record *place = f->tables.out;

	place += number;
	*place = *record;
	place->seq = f->tx.cts_next + 1;
	return place;
}

/* Post the step, after mpib_step_may_post() has allowed it. */
__attribute__((always_inline)) static inline void
step_make(struct engine_conn *f, const struct mpib_step *s)
{
	uint32_t number = f->tx.op_head % SEND_OPS;
	struct send_op *p = make_op(f, s);
	const struct mpib_record *record = NULL;

	mpib_unstall(f);
	if (s->record)
		record = make_record(f, number, s->record);
#pragma GCC unroll 2
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		struct mpib_chain chain = { .rail = r, .q = s->q[r] };

		if (!(s->stripes & mpib_rail_bit(r)))
			continue;
		make_chain(f, s, &chain, record);
		record = NULL; /* only the first rail carries the record */
		mpib_tracker_post(&f->lane->track[r], &p->stripe[r],
				  chain.bytes, f->shard->now);
		if (f->lane->spread == MPIB_SPREAD_SPLIT ||
		    !mpib_sender_spread(f, p, chain, number))
			mpib_chain_post(f, &chain,
					mpib_wr_tag(MPIB_WR_OP, f->id, number));
	}
	if (p->report)
		mpib_sender_report(f, p);
}

bool mpib_step_may_post(struct engine_conn *f, unsigned ranges,
			struct mpib_step *s)
{
	s->spread = mpib_spread_rails(f->lane, f->tx.spread, s->rail, s->imm);
	return step_may_post(f, ranges, s);
}

void mpib_step_make(struct engine_conn *f, const struct mpib_step *s)
{
	step_make(f, s);
}

/* Steps for a receive with one buffer. Each step posts one send op. The send op
 * carries the overlap of the next CTS and the oldest range that fits, but no
 * more than the rails carry in one WR. */

/* Value of `sup` if the step's bytes are not split between the rails yet. */
#define NOT_SPLIT UINT32_MAX

/* Get the CTS for the current message. Skip a CTS if its message has already
 * ended: its receive may have more parts than the message needs. */
__attribute__((always_inline)) static inline bool
next_cts(struct engine_conn *f, struct mpib_cts *cts)
{
	struct mpib_sender *tx = &f->tx;

	while (mpib_sender_cts(f, tx->cts_next, cts)) {
		int32_t ahead = (int32_t)(cts->msg - tx->msg);

		if (!mpib_cts_sane(cts) || ahead > 0) {
			engine_conn_break(f, -EPROTO,
					  "peer sent a CTS that cannot be "
					  "right");
			return false;
		}
		if (ahead == 0)
			return true;
		*mpib_ended_at(f, tx->cts_next++) = 0;
	}
	return false;
}

/* Tell the receiver that its receive is too small, and send no byte of the
 * message. The receiver gets a record with -EMSGSIZE and the message's size. An
 * IMM on the home rail ends the slot. The send ends when this send op ends. */
static bool sender_refuse(struct engine_conn *f, const struct mpib_cts *cts)
{
	const struct send_range *e = mpib_sender_oldest(f);
	const struct op_range range = { .req = e->req };
	const struct mpib_record record = {
		.n = 1,
		.status = -EMSGSIZE,
		.size[0] = mpib_total_of(f, e),
	};
	const uint8_t home = mpib_rail_bit(engine_conn_home(f));
	struct mpib_step s = {
		.range = &range,
		.n = 1,
		.cts = cts,
		.stripes = home,
		.imm = home,
		.record = &record,
	};

	if (!mpib_step_may_post(f, 1, &s))
		return false;
	mpib_sender_refused(f, range.req, cts->total);
	mpib_step_make(f, &s);
	f->tx.cts_next++;
	f->tx.msg++;
	return true;
}

/* Return whether the IMMs of the step need a record. Without a record the
 * receiver computes the size from byte_len. But byte_len lacks the bytes of a
 * rail that are not the payload of its IMM. And if the message ends exactly at
 * the end of a slot, the receiver would expect more parts. */
static bool needs_record(const struct engine_conn *f,
			 const struct mpib_cts *cts, const struct mpib_step *s,
			 bool ends_message)
{
	uint32_t at = s->range->at, len = s->range->len;
	bool fills = at + len == cts->len && cts->pos + cts->len < cts->total;

	return at > 0 || s->apart || (fills && ends_message) ||
	       (f->lane->imm_version == MPIB_IMM_V1 &&
		mpib_size_q(len) == MPIB_IMM_SIZEQ_SENTINEL);
}

/* Advance past bytes that are posted. */
static void sender_advance(struct engine_conn *f, const struct send_range *e,
			   const struct mpib_step *s, bool ends_message)
{
	struct mpib_sender *tx = &f->tx;
	uint32_t pos = tx->pos + s->range->len;

	if (s->imm) {
		tx->cts_next++;
		tx->mask = 0;
		memset(tx->rail, 0, sizeof(tx->rail));
	} else {
		tx->mask |= s->stripes;
		for (unsigned r = 0; r < MPIB_RAILS; r++)
			tx->rail[r] += s->rail[r];
	}
	/* The send op now owns the range's reference to the region. If bytes of
	 * the range are left, take another reference. */
	if (pos == e->pos + e->len)
		mpib_sender_advance(f);
	else if (e->mr)
		mpib_mr_ref(e->mr);
	if (ends_message) {
		tx->msg++;
		tx->pos = 0;
		f->messages++;
	} else {
		tx->pos = pos;
		tx->req = e->req;
	}
}

/* Post the next bytes of range e into the buffer of the CTS. `sup`: SUP's bytes
 * if they are already known, else NOT_SPLIT. */
static uint64_t part_step(struct engine_conn *f, const struct send_range *e,
			  const struct mpib_cts *cts, uint32_t sup)
{
	struct mpib_sender *tx = &f->tx;
	uint32_t total = mpib_total_of(f, e), part_end = cts->pos + cts->len;
	uint32_t ext_end = e->pos + e->len;
	uint32_t len = (part_end < ext_end ? part_end : ext_end) - tx->pos;
	struct mpib_record record = { .n = 1, .size[0] = total };
	struct op_range range;
	struct mpib_step s = { .range = &range, .n = 1, .cts = cts };
	bool ends_message;

	if (len > f->lane->msg_most)
		len = f->lane->msg_most;
	ends_message = tx->pos + len == total;
	/* The peer may have changed the CTS since `sup` was computed. */
	if (sup > len)
		sup = mpib_split(f, total, tx->pos, len, NULL);
	range = (struct op_range){
		.mr = e->mr,
		.from = e->addr + (tx->pos - e->pos),
		.at = tx->pos - cts->pos,
		.len = len,
		.sup = sup,
		.req = e->req,
	};
	s.rail[MPIB_RAIL_SUP] = sup;
	s.rail[MPIB_RAIL_SOUT] = len - sup;
	s.stripes = mpib_rails_with_bytes(s.rail);
	if (tx->pos + len == part_end || ends_message) {
		s.imm = tx->mask | s.stripes;
		if (s.imm == 0)
			s.imm = mpib_rail_bit(engine_conn_home(f));
		s.stripes = s.imm;
	}
	if (!mpib_step_may_post(f, 1, &s))
		return 0;
	s.apart = len > f->shard->ar_above || s.spread;
	if (s.imm && needs_record(f, cts, &s, ends_message)) {
		for (unsigned r = 0; r < MPIB_RAILS; r++)
			record.rail[r] = tx->rail[r] + s.rail[r];
		s.record = &record;
	}
	mpib_step_make(f, &s);
	sender_advance(f, e, &s, ends_message);
	return (uint64_t)len + 1;
}

/* The mpib_fits_fn of a receive with one buffer. A range fits if it continues
 * the send that has begun, or if it is the first range of a send with the
 * receive's tag. */
static inline bool sender_fits(const struct engine_conn *f,
			       const struct send_range *e, int32_t tag)
{
	if (f->tx.pos)
		return e->req == f->tx.req;
	return e->tag == tag && e->pos == 0;
}

/* Post the next send op, of any kind. `sup` is as for part_step(). */
static uint64_t any_step(struct engine_conn *f, uint32_t sup)
{
	const struct send_range *e = mpib_sender_oldest(f);
	struct mpib_cts cts;

	if (!next_cts(f, &cts))
		return 0;
	if (cts.n > 1)
		return mpib_group_begin(f);
	if (!sender_fits(f, e, cts.tag) &&
	    !mpib_match(f, sender_fits, cts.tag)) {
		/* If `pos` is not 0, a send was already matched with the
		 * receive, but the next part of that send has not come yet. */
		if (!f->tx.pos)
			mpib_want_tell(&f->reply->want, f->ring.next, &cts.tag,
				       1);
		mpib_stall(f, MPIB_STALL_CTS);
		return 0;
	}
	if (mpib_total_of(f, e) > cts.total)
		return sender_refuse(f, &cts);
	if (f->tx.pos - e->pos > e->len || f->tx.pos - cts.pos > cts.len) {
		engine_conn_break(f, -EPROTO, "parts out of order");
		return 0;
	}
	return part_step(f, e, &cts, sup);
}

/* Return whether the oldest range is a plain send, which is the usual case: a
 * whole message for one buffer that is large enough, with all bytes in the
 * payload of the IMMs. A plain send needs no matching of parts. */
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

/* Post the send op of a plain send, on rail r only. */
__attribute__((always_inline)) static inline uint64_t
plain_step(struct engine_conn *f, const struct send_range *e,
	   const struct mpib_cts *cts, unsigned r)
{
	uint32_t len = e->len;
	const struct op_range range = {
		.mr = e->mr,
		.from = e->addr,
		.len = len,
		.sup = r == MPIB_RAIL_SUP ? len : 0,
		.req = e->req,
	};
	struct mpib_step s = {
		.range = &range,
		.n = 1,
		.cts = cts,
		.rail = { r == MPIB_RAIL_SOUT ? len : 0,
			  r == MPIB_RAIL_SUP ? len : 0 },
		.stripes = mpib_rail_bit(r),
		.imm = mpib_rail_bit(r),
	};

	if (!step_may_post(f, 1, &s))
		return 0;
	step_make(f, &s);
	f->tx.cts_next++;
	f->tx.msg++;
	mpib_sender_advance(f);
	f->messages++;
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

/* Post at most one send op. Return the number of its bytes plus 1; 0: nothing
 * can be posted now. */
static inline uint64_t sender_step(struct engine_conn *f)
{
	const struct send_range *e;
	struct mpib_cts cts;

	/* Call mpib_group_step() even if no range is queued: the group may have
	 * all its sends and wait only for room. */
	if (f->tx.group.n)
		return mpib_group_step(f);
	if (!mpib_sender_has_work(f))
		return 0;
	if (!next_cts(f, &cts)) {
		mpib_stall(f, MPIB_STALL_CTS);
		return 0;
	}
	e = mpib_sender_oldest(f);
	if (!step_is_plain(f, e, &cts))
		return any_step(f, NOT_SPLIT);
	return whole_step(f, e, &cts);
}

int mpib_sender_run(struct engine_conn *f, struct mpib_drr_run *run)
{
	uint64_t n = 1;

	f->stopped_by = MPIB_DRR_NONE;
	/* Check for lost stripes and for the connection's state only once per
	 * run. A step neither loses stripes nor stops the connection. A step
	 * that breaks the connection is the last one of the run. */
	while (n && f->tx.lost) {
		n = mpib_replay_step(f);
		if (n && !mpib_drr_pay(run, n - 1))
			return MPIB_DRR_RAN;
	}
	if (f->state != ENGINE_CONN_OPEN)
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
