/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the sending end answers a grouped receive. Each send takes the first free
 * buffer with its tag, see sender.c. A send whose bytes lie in one range is
 * held until every buffer has its send, so that the whole group is one chain
 * per rail. A send in parts is posted part by part, because its client's
 * staging window is emptied only by posting. A large send is posted at once,
 * too, instead of waiting for the others. Shard thread.
 */
#include <errno.h>
#include <string.h>

#include "engine/conn/chain.h"
#include "engine/conn/clear.h"
#include "engine/lane/spread.h"
#include "engine/split/mode.h"

/* Largest send that is held: a chain's bytes are counted in 32 bits. */
#define HELD_MAX (16u << 20)

/* Return the buffer that e's send already fills, or the first free one that it
 * may fill; -1: none. */
static int buffer_of(const struct mpib_group *g, const struct send_range *e)
{
	for (int i = 0; i < g->n; i++) {
		if (g->matched & ~g->whole & 1u << i && g->req[i] == e->req)
			return i;
	}
	for (int i = 0; i < g->n && e->pos == 0; i++) {
		if (!(g->matched & 1u << i) && g->cts[i].tag == e->tag)
			return i;
	}
	return -1;
}

/* mpib_fits_fn of a group. */
static bool group_fits(const struct engine_conn *f, const struct send_range *e,
		       int32_t tag)
{
	(void)tag;
	return buffer_of(&f->tx.group, e) >= 0;
}

uint64_t mpib_group_begin(struct engine_conn *f)
{
	struct mpib_group *g = &f->tx.group;
	const struct mpib_cts *first = &g->cts[0];
	unsigned i = 0;

	do {
		if (!mpib_sender_cts(f, f->tx.cts_next + i, &g->cts[i]))
			return 0; /* the rest comes in another WRITE */
		if (!mpib_cts_sane(&g->cts[i]) || g->cts[i].n != first->n ||
		    g->cts[i].idx != i || g->cts[i].msg != f->tx.msg) {
			engine_conn_break(f, -EPROTO,
					  "peer sent a broken group of CTS");
			return 0;
		}
	} while (++i < first->n);
	g->n = (uint8_t)first->n;
	g->matched = g->whole = g->held = g->mask = 0;
	g->refused = false;
	memset(g->rail, 0, sizeof(g->rail));
	memset(g->size, 0, sizeof(g->size));
	return mpib_group_step(f);
}

/* Return its first len bytes, as the send op keeps them for a replay until they
 * have arrived. */
static struct op_range group_kept(const struct send_range *e, unsigned i,
				  uint32_t len, const uint32_t *rail)
{
	return (struct op_range){
		.mr = e->mr,
		.from = e->addr,
		.at = e->pos,
		.len = len,
		.sup = rail[MPIB_RAIL_SUP],
		.req = e->req,
		.buf = (uint8_t)i,
	};
}

static uint8_t range_rails(const struct op_range *s)
{
	uint8_t mask = 0;

	for (unsigned k = 0; k < MPIB_RAILS; k++)
		mask |= (uint8_t)((mpib_range_bytes(s, k) > 0) << k);
	return mask;
}

/* Add a WRITE of the rail's part of the range to the chain. */
static void chain_range(struct engine_conn *f, struct mpib_chain *chain,
			const struct op_range *s)
{
	unsigned r = chain->rail;
	struct mpib_span span =
		mpib_range_span(s, r, &f->tx.group.cts[s->buf], r);

	if (span.len)
		mpib_chain_write(f, chain, &span);
}

/* Give buffer i to the send of range e. all: the send is complete with e. */
static void group_take(struct mpib_group *g, unsigned i,
		       const struct send_range *e, bool all)
{
	g->matched |= (uint8_t)(1u << i);
	g->whole |= (uint8_t)(all << i);
	g->req[i] = e->req;
}

/* The send of range e is larger than its buffer, i. Both end in -EMSGSIZE: the
 * receive by the group's record, and the send with that record's send op. */
static void group_refuse(struct engine_conn *f, unsigned i,
			 const struct send_range *e)
{
	struct mpib_group *g = &f->tx.group;

	g->refused = true;
	g->size[i] = mpib_total_of(f, e);
	group_take(g, i, e, true);
	mpib_sender_refused(f, e->req, g->cts[i].total);
	/* The receive goes on: the remaining ranges may still fit. */
	f->tx.looked = f->tx.range_tail;
}

/* The first len bytes of the oldest range are posted: drop them. */
static void advance_by(struct engine_conn *f, uint32_t len)
{
	struct send_range *e = mpib_sender_oldest(f);

	if (len == e->len) {
		mpib_sender_advance(f);
		return;
	}
	/* The send op owns the range's reference, so take another. */
	mpib_mr_ref(e->mr);
	e->addr += len;
	e->pos += len;
	e->len -= len;
}

/* Post the oldest range, or as much of it as the rails carry in one WR, as a
 * send op without an IMM. Returns 0 and changes nothing if it does not fit. */
static uint64_t write_part(struct engine_conn *f, unsigned i)
{
	struct mpib_group *g = &f->tx.group;
	struct send_range *e = mpib_sender_oldest(f);
	struct mpib_lane_qp *q[MPIB_RAILS];
	struct send_op *p;
	uint32_t number;
	uint32_t rail[MPIB_RAILS];
	uint32_t len = e->len < f->lane->msg_most ? e->len : f->lane->msg_most;
	struct op_range whole;
	uint8_t mask, spread;

	rail[MPIB_RAIL_SUP] =
		mpib_split(f, mpib_total_of(f, e), e->pos, len, NULL);
	rail[MPIB_RAIL_SOUT] = len - rail[MPIB_RAIL_SUP];
	whole = group_kept(e, i, len, rail);
	mask = range_rails(&whole);
	spread = mpib_spread_rails(f->lane, f->tx.spread, rail, 0);
	/* Check for room for the whole group, which could otherwise never be
	 * completed. */
	if (!mpib_sender_may_post(f, g->n, mask, spread, 1, rail, q))
		return 0;
	*mpib_sender_range(f, 0) = whole;
	number = mpib_sender_number(f);
	p = mpib_sender_post(f, 1, rail, mask, 0, spread);
	for (unsigned on = mask; on; on &= on - 1) {
		unsigned r = (unsigned)__builtin_ctz(on);
		struct mpib_chain chain = { .rail = r, .q = q[r] };

		chain_range(f, &chain, &whole);
		mpib_sender_stripe(f, p, number, &chain, false);
	}
	if (p->report)
		mpib_sender_report(f, p);

	g->mask |= mask;
	g->size[i] += len;
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		g->rail[r] += rail[r];
	group_take(g, i, e, g->size[i] == mpib_total_of(f, e));
	if (g->size[i] == mpib_total_of(f, e))
		mpib_count_messages(f, 1);
	advance_by(f, len);
	return (uint64_t)len + 1;
}

/* Make a range for each send of the group, to end with it: held ones, which are
 * cut, and empty ones. sum[r]: the bytes for rail r, besides g->rail[r] posted
 * before. */
static void cut_held(struct engine_conn *f, struct op_range *cut, uint32_t *sum,
		     uint8_t *mask)
{
	struct mpib_group *g = &f->tx.group;

	for (unsigned i = 0; i < g->n; i++) {
		const struct send_range *e = &g->range[i];
		uint32_t rail[MPIB_RAILS];

		cut[i] = (struct op_range){ .req = g->req[i] };
		if (!(g->held & 1u << i))
			continue;
		rail[MPIB_RAIL_SUP] = mpib_split(f, g->size[i], 0, e->len, sum);
		rail[MPIB_RAIL_SOUT] = e->len - rail[MPIB_RAIL_SUP];
		cut[i] = group_kept(e, i, e->len, rail);
		*mask |= range_rails(&cut[i]);
		for (unsigned r = 0; r < MPIB_RAILS; r++)
			sum[r] += rail[r];
	}
}

/* Return the group's record. The leader's IMM on the first rail carries it. */
static struct mpib_record *group_record(struct engine_conn *f,
					const uint32_t *sum)
{
	const struct mpib_group *g = &f->tx.group;
	struct mpib_record *rec = mpib_sender_record(f);

	rec->n = g->n;
	rec->status = g->refused ? -EMSGSIZE : 0;
	memcpy(rec->size, g->size, sizeof(rec->size));
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		rec->rail[r] = g->rail[r] + sum[r];
	return rec;
}

/* All slots of the group are answered: continue with the next receive. */
static void close_group(struct engine_conn *f)
{
	struct mpib_group *g = &f->tx.group;

	for (unsigned i = 1; i < g->n; i++)
		*mpib_ended_at(f, f->tx.cts_next + i) = 0;
	f->tx.cts_next += g->n;
	f->tx.msg++;
	g->n = g->held = 0;
}

/* Every buffer has its send: post the held ranges and one IMM per active
 * rail. */
static uint64_t write_all(struct engine_conn *f)
{
	struct mpib_lane_qp *q[MPIB_RAILS];
	struct op_range cut[MPIB_GROUP_MAX];
	uint32_t sum[MPIB_RAILS] = { 0 };
	uint8_t mask = f->tx.group.mask, spread;
	struct mpib_record *rec;
	struct send_op *p;
	uint32_t number;
	unsigned n = f->tx.group.n;

	cut_held(f, cut, sum, &mask);
	if (mask == 0)
		mask = mpib_rail_bit(engine_conn_home(f));
	spread = mpib_spread_rails(f->lane, f->tx.spread, sum, mask);
	if (!mpib_sender_may_post(f, n, mask, spread, MPIB_CHAIN_MAX, sum, q))
		return 0;
	for (unsigned i = 0; i < n; i++)
		*mpib_sender_range(f, i) = cut[i];
	rec = group_record(f, sum);
	number = mpib_sender_number(f);
	p = mpib_sender_post(f, n, sum, mask, mask, spread);
	for (unsigned on = mask; on; on &= on - 1) {
		unsigned r = (unsigned)__builtin_ctz(on);
		struct mpib_chain chain = { .rail = r, .q = q[r] };

		for (unsigned i = 0; i < n; i++)
			chain_range(f, &chain, &cut[i]);
		mpib_chain_imm(f, &chain, mpib_sender_imm(f, r, mask, true, 0),
			       rec);
		rec = NULL;
		mpib_sender_stripe(f, p, number, &chain, false);
	}
	if (p->report)
		mpib_sender_report(f, p);

	mpib_count_messages(f, (unsigned)__builtin_popcount(f->tx.group.held));
	close_group(f);
	return (uint64_t)sum[0] + sum[1] + 1;
}

/* Sends of the group are missing: tell the client. */
static void tell_missing(struct engine_conn *f)
{
	const struct mpib_group *g = &f->tx.group;
	int32_t tag[MPIB_GROUP_MAX];
	unsigned n = 0;

	for (unsigned i = 0; i < g->n; i++) {
		if (!(g->matched & 1u << i))
			tag[n++] = g->cts[i].tag;
	}
	if (n)
		mpib_want_tell(&f->reply->want, f->ring.next, tag, n);
}

uint64_t mpib_group_step(struct engine_conn *f)
{
	struct mpib_group *g = &f->tx.group;
	struct send_range *e;
	int i;

	/* Without a usable rail the split names SOUT, for which a region that
	 * was registered while SOUT was absent has no key. */
	if (!f->lane->use)
		return 0;
	while (g->whole != (1u << g->n) - 1) {
		if (!mpib_match(f, group_fits, 0)) {
			tell_missing(f);
			return 0; /* the other sends come later */
		}
		e = mpib_sender_oldest(f);
		i = buffer_of(g, e);
		if (mpib_total_of(f, e) > g->cts[i].total) {
			group_refuse(f, (unsigned)i, e);
			continue;
		}
		if (e->len != mpib_total_of(f, e) || e->len > HELD_MAX ||
		    e->len > f->lane->msg_most ||
		    f->req[e->req].multipart) /* MPIB_OP_AT_ONCE */
			return write_part(f, (unsigned)i);

		/* range[i] takes over the range's reference on its region. */
		group_take(g, (unsigned)i, e, true);
		g->range[i] = *e;
		g->size[i] = mpib_total_of(f, e);
		g->held |= (uint8_t)(1u << i);
		mpib_sender_advance(f);
	}
	return write_all(f);
}

void mpib_group_drop(struct engine_conn *f)
{
	struct mpib_group *g = &f->tx.group;

	for (unsigned i = 0; i < g->n; i++) {
		if (g->held & 1u << i && g->range[i].mr)
			mpib_mr_unref(g->range[i].mr);
	}
	g->n = g->held = 0;
}
