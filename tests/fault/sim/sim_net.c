/* SPDX-License-Identifier: Apache-2.0 */
/* QPs, completions and packets that arrive when they like, in order. */
#include "sim.h"

uint64_t sim_draw(struct world *w, uint64_t n)
{
	uint64_t z = w->rng += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (z ^ z >> 31) % n;
}

void sim_wrong(struct world *w, const char *what)
{
	if (!w->wrong)
		w->wrong = what;
}

void sim_push(struct fifo *f, const struct item *item)
{
	f->v[f->tail++ % FIFO] = *item;
}

static void complete(struct world *w, unsigned e, unsigned rail,
		     const struct wr *wr, bool ok)
{
	struct item cqe = { .wr = *wr, .ack = true, .ok = ok };

	sim_push(&w->end[e].cq[rail], &cqe);
}

void sim_post(struct world *w, unsigned e, unsigned rail, struct wr wr)
{
	struct qp *q = &w->end[e].qp[rail];
	struct item packet;

	wr.epoch = q->epoch;
	if (!q->exists) {
		sim_wrong(w, "posted to no QP");
		return;
	}
	if (q->err) {
		complete(w, e, rail, &wr, false);
		return;
	}
	packet = (struct item){ .wr = wr };
	sim_push(&q->unacked, &packet);
	sim_push(&w->net[rail][e], &packet);
}

void sim_qp_error(struct world *w, unsigned e, unsigned rail)
{
	struct qp *q = &w->end[e].qp[rail];

	if (!q->exists || q->err)
		return;
	q->err = true;
	while (q->unacked.head != q->unacked.tail)
		complete(w, e, rail, &q->unacked.v[q->unacked.head++ % FIFO].wr,
			 false);
}

void sim_qp_make(struct world *w, unsigned e, unsigned rail, uint32_t epoch)
{
	w->end[e].qp[rail] = (struct qp){ .exists = true, .epoch = epoch };
}

static void place(struct world *w, const struct wr *wr)
{
	for (unsigned k = 0; k < RAILS; k++) {
		if (!(wr->stripes & 1u << k))
			continue;
		if (wr->message < w->tail)
			sim_wrong(w,
				  "written after the buffer was handed back");
		if (wr->message < w->reported)
			sim_wrong(w, "read after the buffer was handed back");
		w->placed[wr->message][wr->op][k] = true;
	}
}

static void request(struct world *w, unsigned to, unsigned rail,
		    const struct wr *wr)
{
	struct item cqe = { .wr = *wr };
	struct item ack = { .wr = *wr, .ack = true };

	if (w->forgets[rail][to]) {
		w->forgotten++;
		sim_push(&w->net[rail][to], &ack);
		return;
	}
	if (wr->kind == WR_CTS || wr->kind == WR_WORD) {
		if (wr->kind == WR_CTS)
			w->cts[wr->message] = true;
		if (wr->ended > w->acked)
			w->acked = wr->ended;
	} else if (wr->kind != WR_PROBE) {
		place(w, wr);
	}
	if (wr->imm)
		sim_push(&w->end[to].cq[rail], &cqe);
	sim_push(&w->net[rail][to], &ack);
}

bool sim_deliver(struct world *w, unsigned e, unsigned rail)
{
	struct fifo *net = &w->net[rail][e];
	unsigned to = !e;
	struct qp *q = &w->end[to].qp[rail];
	struct item item;

	if (net->head == net->tail || w->hurt[rail][0] || w->hurt[rail][1])
		return false;
	item = net->v[net->head % FIFO];
	/* The other end is not ready: its packets are sent again later. */
	if (!item.ack &&
	    (!q->exists || (int32_t)(q->epoch - item.wr.epoch) < 0))
		return false;
	net->head++;
	if (!q->exists || q->err || q->epoch != item.wr.epoch)
		return true; /* refused */
	if (!item.ack) {
		request(w, to, rail, &item.wr);
		return true;
	}
	q->unacked.head++;
	complete(w, to, rail, &item.wr, true);
	return true;
}
