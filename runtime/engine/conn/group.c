/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends that answer a grouped receive. Each takes the first free buffer of its
 * tag, see match.c. A send whose bytes lie in one range is held until every
 * buffer has its send, so that the whole group is one chain per rail; one that
 * comes in parts is written as it comes, for its staging window would run dry.
 * So is one that is large: it need not wait for the others.
 */
#include <errno.h>
#include <string.h>

#include "engine/conn/chain.h"
#include "engine/conn/conn.h"
#include "engine/lane/spread.h"
#include "engine/measure/count.h"

/* A group's largest chain has to be counted in 32 bits. */
#define HELD_MAX (16u << 20)

/* One rail's share of len bytes at from, SUP in front. */
static struct mpib_span group_share(const struct send_range *e,
				    const struct mpib_cts *cts, uint32_t done,
				    const uint32_t *rail, unsigned r)
{
	uint32_t off = r == MPIB_RAIL_SUP ? 0 : rail[MPIB_RAIL_SUP];

	return (struct mpib_span){
		.mr = e->mr,
		.from = e->addr + off,
		.to = cts->addr + done + off,
		.rkey = cts->rkey[r],
		.len = rail[r],
	};
}

/* The buffer that its send fills already, or the one that it may begin. */
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

static bool group_fits(const struct engine_conn *f, const struct send_range *e,
		       int32_t tag)
{
	(void)tag;
	return buffer_of(&f->tx.group, e) >= 0;
}

uint64_t mpib_group_begin(struct engine_conn *f, const struct mpib_cts *first)
{
	struct mpib_group *g = &f->tx.group;

	g->cts[0] = *first;
	for (unsigned i = 1; i < first->n; i++) {
		uint64_t slot = f->tx.cts_next + i;

		if (!mpib_sender_cts(f, slot, &g->cts[i]))
			return 0; /* its entries came in two writes */
		if (g->cts[i].n != first->n || g->cts[i].idx != i ||
		    g->cts[i].msg != first->msg) {
			engine_conn_break(f, -EPROTO,
					  "peer sent a broken group of CTS");
			return 0;
		}
	}
	g->n = (uint8_t)first->n;
	g->matched = g->whole = g->held = g->mask = 0;
	g->stale = false;
	memset(g->rail, 0, sizeof(g->rail));
	memset(g->size, 0, sizeof(g->size));
	return mpib_group_step(f);
}

/* An range's way to buffer i, split as rail says: onto each rail's chain. The
 * rails that have a part of it. */
static uint8_t chain_range(struct engine_conn *f, struct mpib_chain *chain,
			   const struct send_range *e, unsigned i,
			   const uint32_t *rail)
{
	uint8_t mask = 0;

	for (unsigned r = 0; r < f->lane->rails; r++) {
		struct mpib_span s =
			group_share(e, &f->tx.group.cts[i], e->pos, rail, r);

		if (s.len == 0)
			continue;
		mpib_chain_write(f, &chain[r], r, &s);
		mask |= (uint8_t)(1u << r);
	}
	return mask;
}

/* The same, as it is kept until it has arrived. */
static struct op_range group_kept(const struct send_range *e, unsigned i,
				  const uint32_t *rail)
{
	return (struct op_range){
		.mr = e->mr,
		.from = e->addr,
		.at = e->pos,
		.len = e->len,
		.sup = rail[MPIB_RAIL_SUP],
		.req = e->req,
		.buf = (uint8_t)i,
	};
}

/* Buffer i is its send's; all: that is whole now. */
static void group_take(struct mpib_group *g, unsigned i,
		       const struct send_range *e, bool all)
{
	g->matched |= (uint8_t)(1u << i);
	g->whole |= (uint8_t)(all << i);
	g->req[i] = e->req;
}

/* Post the range in front as it is, signalled, without an IMM. Where there is
 * no room nothing has happened, and it stays in front. */
static uint64_t write_part(struct engine_conn *f, unsigned i)
{
	struct mpib_chain chain[MPIB_RAILS];
	struct mpib_group *g = &f->tx.group;
	struct send_range *e = mpib_sender_oldest(f);
	uint32_t rail[MPIB_RAILS], len = e->len;
	struct op_range whole;
	uint8_t mask, spread;

	mpib_chains_begin(chain);
	mpib_split(f, e->total, e->pos, len, rail);
	whole = group_kept(e, i, rail);
	mask = chain_range(f, chain, e, i, rail);
	spread = mpib_spread_rails(f->lane, f->tx.spread, rail, 0);
	if (!mpib_sender_may_post(f, mask, spread, 1, rail))
		return 0;
	mpib_sender_post(f, chain, &whole, 1, 0, spread);

	g->mask |= mask;
	g->size[i] += len;
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		g->rail[r] += rail[r];
	group_take(g, i, e, g->size[i] == e->total);
	if (g->size[i] == e->total)
		mpib_count_messages(f, 1);
	mpib_sender_pop(f);
	return (uint64_t)len + 1;
}

/* What was held, onto the chains: how many. sum is what each rail gets of it,
 * beyond what g->rail says of parts that have gone. */
static unsigned chain_held(struct engine_conn *f, struct mpib_chain *chain,
			   struct op_range *held, uint32_t *sum, uint8_t *mask)
{
	struct mpib_group *g = &f->tx.group;
	unsigned n = 0;

	for (unsigned i = 0; i < g->n; i++) {
		const struct send_range *e = &g->ext[i];
		uint32_t rail[MPIB_RAILS];

		if (!(g->held & 1u << i))
			continue;
		mpib_split(f, e->total, 0, e->len, rail);
		*mask |= chain_range(f, chain, e, i, rail);
		held[n++] = group_kept(e, i, rail);
		for (unsigned r = 0; r < MPIB_RAILS; r++)
			sum[r] += rail[r];
	}
	return n;
}

/* One IMM per active rail; the record goes with the leader's. */
static void chain_imms(struct engine_conn *f, struct mpib_chain *chain,
		       const uint32_t *sum, uint8_t mask)
{
	const struct mpib_group *g = &f->tx.group;
	struct mpib_record *rec = mpib_sender_record(f);

	rec->n = g->n;
	memcpy(rec->size, g->size, sizeof(rec->size));
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		rec->rail[r] = g->rail[r] + sum[r];
	for (unsigned r = 0; r < f->lane->rails; r++) {
		bool leader = r == (mask & 1u ? MPIB_RAIL_SOUT : MPIB_RAIL_SUP);

		if (mask & 1u << r)
			mpib_chain_imm(f, &chain[r], r,
				       mpib_sender_imm(f, r, mask, true, 0),
				       leader ? rec : NULL);
	}
}

/* The slots of the group are answered. */
static void close_group(struct engine_conn *f)
{
	struct mpib_group *g = &f->tx.group;

	for (unsigned i = 1; i < g->n; i++)
		f->tx.ended[(f->tx.cts_next + i) % MPIB_SLOTS] = 0;
	f->tx.cts_next += g->n;
	f->tx.msg++;
	g->n = g->held = 0;
}

/* Every buffer has its send: what was held, then the IMMs. */
static uint64_t write_all(struct engine_conn *f)
{
	struct mpib_chain chain[MPIB_RAILS];
	struct op_range held[MPIB_GROUP_MAX];
	uint32_t sum[MPIB_RAILS] = { 0 };
	uint8_t mask = f->tx.group.mask, spread;
	unsigned n;

	mpib_chains_begin(chain);
	n = chain_held(f, chain, held, sum, &mask);
	if (mask == 0)
		mask = (uint8_t)(1u << engine_conn_home(f));
	spread = mpib_spread_rails(f->lane, f->tx.spread, sum, mask);
	if (!mpib_sender_may_post(f, mask, spread, MPIB_CHAIN_MAX, sum))
		return 0;
	chain_imms(f, chain, sum, mask);
	mpib_sender_post(f, chain, held, n, mask, spread);

	for (unsigned i = 0; i < n; i++) {
		if (held[i].mr)
			mpib_mr_unref(held[i].mr);
	}
	mpib_count_messages(f, n);
	close_group(f);
	return (uint64_t)sum[0] + sum[1] + 1;
}

/* The peer's buffers have new keys: what was announced comes again. */
static bool group_refresh(struct engine_conn *f)
{
	struct mpib_group *g = &f->tx.group;
	struct mpib_cts cts[MPIB_GROUP_MAX];

	for (unsigned i = 0; i < g->n; i++) {
		if (!mpib_sender_cts(f, f->tx.cts_next + i, &cts[i]))
			return false;
		if (cts[i].n != g->n || cts[i].idx != i ||
		    cts[i].msg != g->cts[i].msg ||
		    cts[i].total != g->cts[i].total) {
			engine_conn_break(f, -EPROTO,
					  "peer changed a group of CTS");
			return false;
		}
	}
	/* As many as were just read. */
	/* cppcheck-suppress uninitvar */
	memcpy(g->cts, cts, g->n * sizeof(cts[0]));
	g->stale = false;
	return true;
}

uint64_t mpib_group_step(struct engine_conn *f)
{
	struct mpib_group *g = &f->tx.group;
	struct send_range *e;
	int i;

	if (__builtin_expect(g->stale, 0) && !group_refresh(f))
		return 0;
	while (g->whole != (1u << g->n) - 1) {
		if (!mpib_match(f, group_fits, 0))
			return 0; /* others come later */
		e = mpib_sender_oldest(f);
		i = buffer_of(g, e);
		if (e->total > g->cts[i].total) {
			engine_conn_break(f, -EMSGSIZE,
					  "send of %u bytes is larger than the "
					  "posted receive of %u bytes",
					  e->total, g->cts[i].total);
			return 0;
		}
		if (mpib_is_question(e)) {
			group_take(g, (unsigned)i, e, false);
			engine_conn_progress(f, e->req, 0);
			mpib_sender_pop(f);
			continue;
		}
		if (e->len != e->total || e->len > HELD_MAX ||
		    f->req[e->req].multipart) /* it asked */
			return write_part(f, (unsigned)i);

		/* The hold on its region moves along. */
		group_take(g, (unsigned)i, e, true);
		g->ext[i] = *e;
		g->size[i] = e->total;
		g->held |= (uint8_t)(1u << i);
		f->tx.ext_tail++;
	}
	return write_all(f);
}

void mpib_group_drop(struct engine_conn *f)
{
	struct mpib_group *g = &f->tx.group;

	for (unsigned i = 0; i < g->n; i++) {
		if (g->held & 1u << i && g->ext[i].mr)
			mpib_mr_unref(g->ext[i].mr);
	}
	g->n = g->held = 0;
}
