/* SPDX-License-Identifier: Apache-2.0 */
/* The shards: what the engine's send_op.c, replay.c and stop.c do, on the core's
 * own bookkeeping. */
#include "sim.h"

#include <limits.h>

static void fault(struct world *w, unsigned e, unsigned rail)
{
	struct note n = { .kind = NOTE_FAULT, .rail = rail };
	struct end *end = &w->end[e];

	if (end->faulted[rail])
		return;
	end->faulted[rail] = true;
	end->open[rail] = false;
	sim_note(&end->to_control, &n);
}

static bool whole(const struct op *p)
{
	return p->posted && !p->c.pending;
}

/* Messages are reported in order, when all their send ops are. */
static void report(struct world *w)
{
	while (w->reported < (w->wire ? MESSAGES : w->acked)) {
		for (unsigned i = 0; i < w->ops[w->reported]; i++) {
			if (!whole(&w->tx[w->reported][i]))
				return;
		}
		w->reported++;
	}
}

static void sent(struct world *w, unsigned e, unsigned rail,
		 const struct item *cqe)
{
	struct op *p = &w->tx[cqe->wr.message][cqe->wr.op];
	struct note n = { .kind = NOTE_PROBED, .rail = rail, .ok = cqe->ok };

	if (!cqe->ok)
		fault(w, e, rail);
	if (cqe->wr.kind == WR_PROBE && w->end[e].probing[rail]) {
		w->end[e].probing[rail] = false;
		sim_note(&w->end[e].to_control, &n);
	}
	if (!cqe->ok || cqe->wr.kind == WR_CTS || cqe->wr.kind == WR_WORD ||
	    cqe->wr.kind == WR_PROBE)
		return;
	p->c.pending &= (uint8_t)~cqe->wr.stripes;
	report(w);
}

static void end_messages(struct world *w)
{
	while (w->tail < w->posted && w->expected[w->tail] &&
	       w->seen[w->tail] == w->expected[w->tail]) {
		for (unsigned i = 0; i < w->ops[w->tail]; i++) {
			const struct op *p = &w->tx[w->tail][i];

			for (unsigned k = 0; k < RAILS; k++) {
				bool used = p->c.carrier[k] != 0xff;

				if (used && !w->placed[w->tail][i][k])
					sim_wrong(w, "ended without its data");
			}
		}
		w->tail++;
	}
}

static void received(struct world *w, unsigned e, unsigned rail,
		     const struct item *cqe)
{
	unsigned m = cqe->wr.message;
	/* A replay's record says what it ends; a first IMM ends its rail's. */
	uint8_t ends = cqe->wr.kind == WR_REPLAY ? cqe->wr.stripes
						 : (uint8_t)(1u << rail);

	if (cqe->wr.epoch != w->end[e].epoch[rail]) {
		w->stale++;
		return;
	}
	if (m < w->tail || w->seen[m] & ends ||
	    (w->expected[m] && w->expected[m] != cqe->wr.expected)) {
		sim_wrong(w, "an IMM that fits no receive");
		return;
	}
	w->expected[m] = cqe->wr.expected;
	w->seen[m] |= ends;
	end_messages(w);
}

static struct bitmap bitmap(const struct world *w, unsigned e)
{
	struct bitmap a = { .first = w->tail };

	for (unsigned m = 0; m < MESSAGES; m++)
		a.seen[m] = w->seen[m];
	for (a.have = w->sent; a.have < MESSAGES && w->cts[a.have]; a.have++)
		;
	(void)e;
	return a;
}

static void check_stopped(struct world *w, unsigned e, unsigned rail)
{
	struct end *end = &w->end[e];
	struct note n = { .kind = NOTE_STOPPED, .rail = rail };

	if (!end->stopping[rail] || end->cq[rail].head != end->cq[rail].tail)
		return;
	end->stopping[rail] = false;
	n.bitmap = bitmap(w, e);
	sim_note(&end->to_control, &n);
}

bool sim_poll(struct world *w, unsigned e, unsigned rail)
{
	struct fifo *cq = &w->end[e].cq[rail];
	struct item *cqe;

	if (cq->head == cq->tail)
		return false;
	cqe = &cq->v[cq->head++ % FIFO];
	if (cqe->ack)
		sent(w, e, rail, cqe);
	else
		received(w, e, rail, cqe);
	check_stopped(w, e, rail);
	return true;
}

static void judge(struct world *w, unsigned rail, const struct bitmap *a)
{
	w->mask &= (uint8_t) ~(1u << rail);
	if (a->first > w->acked)
		w->acked = a->first;
	for (unsigned m = 0; m < MESSAGES; m++) {
		uint8_t pending = 0;

		for (unsigned i = 0; i < w->ops[m]; i++) {
			struct op *p = &w->tx[m][i];

			if (p->posted)
				pending |= p->c.imm & p->c.pending;
		}
		for (unsigned k = 0; k < RAILS; k++) {
			if (w->wire && m >= a->first && w->ended[m] >> k & 1 &&
			    (w->carried[m] >> k & 1) == rail &&
			    !((a->seen[m] | pending) >> k & 1))
				sim_wrong(w, "acknowledged and not seen");
		}
		for (unsigned i = 0; i < w->ops[m]; i++) {
			struct op *p = &w->tx[m][i];
			uint8_t placed;

			if (!p->posted)
				continue;
			placed = mpib_stripes_find_lost(&p->c, rail,
							m < a->first,
							a->seen[m], !w->wire);
			p->c.pending &= (uint8_t)~placed;
		}
	}
	report(w);
}

static void on_replay(struct world *w, unsigned e, const struct note *n)
{
	struct note done = { .kind = NOTE_REPLAYED, .rail = n->rail };

	if (e == 0) {
		judge(w, n->rail, &n->bitmap);
	} else {
		w->again = n->bitmap.have > w->tail ? n->bitmap.have : w->tail;
		if (w->again > w->announced)
			w->again = w->announced;
		w->word = UINT_MAX;
	}
	w->end[e].epoch[n->rail] = n->epoch;
	sim_note(&w->end[e].to_control, &done);
}

bool sim_shard_note(struct world *w, unsigned e)
{
	struct end *end = &w->end[e];
	struct box *b = &end->to_shard;
	const struct note *n;

	if (b->head == b->tail)
		return false;
	n = &b->v[b->head++ % 64];
	switch (n->kind) {
	case NOTE_STOP:
		end->open[n->rail] = false;
		end->faulted[n->rail] = true;
		end->probing[n->rail] = false;
		end->stopping[n->rail] = true;
		check_stopped(w, e, n->rail);
		break;
	case NOTE_REPLAY:
		on_replay(w, e, n);
		break;
	case NOTE_CONNECT:
		end->faulted[n->rail] = false;
		end->probing[n->rail] = true;
		sim_post(w, e, n->rail, (struct wr){ .kind = WR_PROBE });
		break;
	case NOTE_RESUME:
		end->open[n->rail] = !end->faulted[n->rail];
		break;
	default:
		sim_wrong(w, "a note to the wrong thread");
	}
	return true;
}

static int open_rail(struct world *w, unsigned e)
{
	unsigned first = (unsigned)sim_draw(w, RAILS);

	for (unsigned i = 0; i < RAILS; i++) {
		if (w->end[e].open[(first + i) % RAILS])
			return (int)((first + i) % RAILS);
	}
	return -1;
}

static bool ordered(struct world *w, unsigned m, unsigned last, unsigned rail)
{
	for (unsigned i = 0; i < last; i++) {
		if (!w->wire)
			mpib_stripes_reclaim(&w->tx[m][i].c,
					     w->tx[m][last].c.lost, rail);
		if (!mpib_stripes_ordered(&w->tx[m][i].c, w->tx[m][last].c.lost,
					  rail))
			return false;
	}
	return true;
}

/* NOLINTNEXTLINE(readability-function-cognitive-complexity): as the engine. */
static bool replay(struct world *w)
{
	int q = open_rail(w, 0);

	for (unsigned m = 0; m < MESSAGES && q >= 0; m++) {
		for (unsigned i = 0; i < w->ops[m]; i++) {
			struct op *p = &w->tx[m][i];
			bool open = m == w->sent;
			struct wr wr = { .kind = WR_REPLAY,
					 .message = m,
					 .op = i };

			if (!p->posted || !p->c.lost)
				continue;
			if (p->c.imm && !ordered(w, m, i, (unsigned)q))
				return false;
			w->replays++;
			wr.stripes =
				mpib_stripes_repost(&p->c, (unsigned)q, open);
			wr.imm = p->c.imm != 0;
			wr.expected = p->c.imm;
			if (open)
				w->mask |= (uint8_t)(1u << q);
			for (unsigned k = 0; wr.imm && k < RAILS; k++) {
				if (wr.stripes & 1u << k)
					w->carried[m] = (w->carried[m] &
							 (uint8_t) ~(1u << k)) |
							(uint8_t)(q << k);
			}
			sim_post(w, 0, (unsigned)q, wr);
			return true;
		}
	}
	return false;
}

static bool any_lost(const struct world *w)
{
	for (unsigned m = 0; m < MESSAGES; m++) {
		for (unsigned i = 0; i < w->ops[m]; i++) {
			if (w->tx[m][i].posted && w->tx[m][i].c.lost)
				return true;
		}
	}
	return false;
}

/* The next send op, split by chance over what is open. */
static bool send_piece(struct world *w)
{
	struct end *end = &w->end[0];
	uint8_t data = (uint8_t)(1 + sim_draw(w, 3)), open = 0, imm = 0;
	bool last = w->sent < MESSAGES && w->op + 1 == w->ops[w->sent];
	struct op *p;

	for (unsigned r = 0; r < RAILS; r++)
		open |= (uint8_t)(end->open[r] << r);
	if (w->sent == MESSAGES || !w->cts[w->sent] || !open)
		return false;
	data = data & open ? data & open : open;
	if (last)
		imm = w->mask | data;
	if ((data | imm) & ~open)
		return false; /* until its fence is through */
	p = &w->tx[w->sent][w->op];
	p->posted = true;
	mpib_stripes_post(&p->c, data | imm, imm);
	for (unsigned r = 0; r < RAILS; r++) {
		struct wr wr = { .kind = WR_DATA,
				 .message = w->sent,
				 .op = w->op,
				 .stripes = (uint8_t)(1u << r),
				 .imm = imm >> r & 1,
				 .expected = imm };

		if ((data | imm) & 1u << r)
			sim_post(w, 0, r, wr);
		else
			p->c.carrier[r] = 0xff; /* not used */
	}
	w->mask |= data;
	w->op++;
	if (last) {
		w->ended[w->sent] = imm;
		w->carried[w->sent] = 1u << 1; /* stripe k on rail k */
		w->sent++;
		w->op = w->mask = 0;
	}
	return true;
}

static bool announce(struct world *w)
{
	int rail = open_rail(w, 1);
	struct wr wr = { .kind = WR_CTS };

	if (w->posted < MESSAGES && w->posted - w->tail < WINDOW)
		w->posted++;
	if (rail < 0)
		return false;
	if (w->again < w->announced)
		wr.message = w->again++;
	else if (w->announced < w->posted)
		wr.message = w->announced++, w->again = w->announced;
	else if (w->word != w->tail)
		wr.kind = WR_WORD;
	else
		return false;
	wr.ended = w->word = w->tail;
	sim_post(w, 1, (unsigned)rail, wr);
	return true;
}

bool sim_work(struct world *w, unsigned e)
{
	if (e == 1)
		return announce(w);
	report(w); /* a word may have come */
	return any_lost(w) ? replay(w) : send_piece(w);
}

bool sim_watchdog(struct world *w, unsigned e, unsigned rail)
{
	const struct qp *q = &w->end[e].qp[rail];

	if (!w->end[e].open[rail] || q->unacked.head == q->unacked.tail ||
	    (!w->hurt[rail][0] && !w->hurt[rail][1] && !q->err &&
	     !w->end[!e].qp[rail].err))
		return false;
	fault(w, e, rail);
	return true;
}
