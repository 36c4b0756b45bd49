/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the sending end answers a grouped receive. Each send gets the first free
 * buffer with its tag, see sender.c. A send whose bytes are in one range is
 * held until every buffer has its send, so that each rail carries the whole
 * group as one chain. A send in parts is posted part by part, because only
 * posting frees the client's staging window. A large send is posted
 * immediately, too. Shard thread.
 */
#include <errno.h>
#include <string.h>

#include "engine/measure/count.h"

/* Size of the largest send that is held. The limit is needed because a chain's
 * bytes are counted in 32 bits. */
#define HELD_MAX (16u << 20)

/* Return the buffer that was assigned to the send of range e. If none was
 * assigned, return the first free buffer with the send's tag. -1: no such
 * buffer is free. */
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

/* The mpib_fits_fn of a group. */
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
			/* the group's other CTS come in a later WRITE */
			return 0;
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

/* Return the op_range of the first `len` bytes of range e, for buffer `i`. SUP
 * carries `sup` of the `len` bytes. */
static struct op_range group_kept(const struct send_range *e, unsigned i,
				  uint32_t len, uint32_t sup)
{
	return (struct op_range){
		.mr = e->mr,
		.from = e->addr,
		.at = e->pos,
		.len = len,
		.sup = sup,
		.req = e->req,
		.buf = (uint8_t)i,
	};
}

/* Assign buffer i to the send of range e. If `all` is true, e is the last range
 * of the send. */
static void group_take(struct mpib_group *g, unsigned i,
		       const struct send_range *e, bool all)
{
	g->matched |= (uint8_t)(1u << i);
	g->whole |= (uint8_t)(all << i);
	g->req[i] = e->req;
}

/* Refuse the send of range e, which is larger than its buffer i. The group's
 * record ends the receive with -EMSGSIZE. The send also ends with -EMSGSIZE,
 * when the send op that carries the record ends. */
static void group_refuse(struct engine_conn *f, unsigned i,
			 const struct send_range *e)
{
	struct mpib_group *g = &f->tx.group;

	g->refused = true;
	g->size[i] = mpib_total_of(f, e);
	group_take(g, i, e, true);
	mpib_sender_refused(f, e->req, g->cts[i].total);
	/* Compare all queued ranges again, because some may fit other
	 * buffers. */
	f->tx.looked = f->tx.range_tail;
}

/* Drop the first `len` bytes of the oldest range, which are posted. */
static void advance_by(struct engine_conn *f, uint32_t len)
{
	struct send_range *e = mpib_sender_oldest(f);

	if (len == e->len) {
		mpib_sender_advance(f);
		return;
	}
	/* The send op now owns the range's reference, so take another
	 * reference. */
	mpib_mr_ref(e->mr);
	e->addr += len;
	e->pos += len;
	e->len -= len;
}

/* Post a send op without an IMM. It has the bytes of the oldest range, but no
 * more than the rails carry in one WR. If there is no room, return 0 and change
 * nothing. */
static uint64_t write_part(struct engine_conn *f, unsigned i)
{
	struct mpib_group *g = &f->tx.group;
	const struct send_range *e = mpib_sender_oldest(f);
	uint32_t total = mpib_total_of(f, e);
	uint32_t len = e->len < f->lane->msg_most ? e->len : f->lane->msg_most;
	uint32_t sup = mpib_split(f, total, e->pos, len, NULL);
	const struct op_range range = group_kept(e, i, len, sup);
	struct mpib_step s = {
		.range = &range,
		.n = 1,
		.cts = g->cts,
		.rail = { [MPIB_RAIL_SOUT] = len - sup, [MPIB_RAIL_SUP] = sup },
	};

	s.stripes = mpib_rails_with_bytes(s.rail);
	/* Require room for the whole group. Otherwise the group might never
	 * complete. */
	if (!mpib_step_may_post(f, g->n, &s))
		return 0;
	mpib_step_make(f, &s);

	g->mask |= s.stripes;
	g->size[i] += len;
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		g->rail[r] += s.rail[r];
	group_take(g, i, e, g->size[i] == total);
	if (g->size[i] == total)
		f->messages++;
	advance_by(f, len);
	return (uint64_t)len + 1;
}

/* Make an op_range for each send of the group. The op_range of a held send is
 * split between the rails. The op_range of any other send is empty, because its
 * bytes are already posted (g->rail[]). Set sum[r] to the number of held bytes
 * for rail r. */
static void cut_held(struct engine_conn *f, struct op_range *cut, uint32_t *sum)
{
	struct mpib_group *g = &f->tx.group;

	for (unsigned i = 0; i < g->n; i++) {
		const struct send_range *e = &g->range[i];
		uint32_t sup;

		cut[i] = (struct op_range){ .req = g->req[i] };
		if (!(g->held & 1u << i))
			continue;
		sup = mpib_split(f, g->size[i], 0, e->len, sum);
		cut[i] = group_kept(e, i, e->len, sup);
		sum[MPIB_RAIL_SUP] += sup;
		sum[MPIB_RAIL_SOUT] += e->len - sup;
	}
}

/* Continue with the next receive, after all slots of the group are answered. */
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
	const struct mpib_group *g = &f->tx.group;
	struct op_range cut[MPIB_GROUP_MAX];
	struct mpib_record record = {
		.n = g->n,
		.status = g->refused ? -EMSGSIZE : 0,
	};
	struct mpib_step s = {
		.range = cut,
		.n = g->n,
		.cts = g->cts,
		.apart = true,
		.record = &record,
	};

	cut_held(f, cut, s.rail);
	s.imm = g->mask | mpib_rails_with_bytes(s.rail);
	if (s.imm == 0)
		s.imm = mpib_rail_bit(engine_conn_home(f));
	s.stripes = s.imm;
	if (!mpib_step_may_post(f, s.n, &s))
		return 0;
	memcpy(record.size, g->size, sizeof(record.size));
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		record.rail[r] = g->rail[r] + s.rail[r];
	mpib_step_make(f, &s);
	f->messages += (unsigned)__builtin_popcount(g->held);
	close_group(f);
	return (uint64_t)s.rail[0] + s.rail[1] + 1;
}

/* Tell the client that sends of the group are missing. */
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

	/* Wait for a usable rail. Without one, the split would select SOUT. But
	 * a region that was registered while SOUT was absent has no key for
	 * SOUT. */
	if (!f->lane->use)
		return 0;
	while (g->whole != (1u << g->n) - 1) {
		if (!mpib_match(f, group_fits, 0)) {
			tell_missing(f);
			return 0; /* wait for the other sends */
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

		/* range[i] takes over the range's reference to its region. */
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
