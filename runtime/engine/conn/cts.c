/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CTS (clear to send), receiving end: the receiver fills an entry of its own
 * table per slot and copies it into the sender's table by RDMA WRITE, on the
 * first QP of the home rail. Shard thread.
 */
#include <mpib/wire.h>

#include "engine/conn/chain.h"
#include "engine/conn/report.h"
#include "engine/measure/count.h"

void mpib_cts_write(struct engine_conn *f, const struct mpib_desc *d,
		    const struct mpib_mr *mr, uint64_t addr)
{
	struct mpib_cts *cts = f->tables.out;

	cts += mpib_entry_of(f, f->rx.next);
	*cts = (struct mpib_cts){
		.addr = addr,
		.len = d->len,
		.pos = d->pos,
		.total = d->total,
		.msg = f->req[d->req].msg,
		.tag = d->tag,
		.n = d->n,
		.idx = d->idx,
		.seq = f->rx.next + 1,
	};
	if (!mr)
		return;
	cts->rkey[MPIB_RAIL_SOUT] = mr->rkey[MPIB_RAIL_SOUT];
	if (f->lane->rails == MPIB_RAILS)
		cts->rkey[MPIB_RAIL_SUP] = mr->rkey[MPIB_RAIL_SUP];
}

/* How many entries from slot first on, up to end, one WRITE carries: they lie
 * together in the table, and are no longer than MPIB_MSG_LEAST. */
static unsigned cts_run(uint64_t first, uint64_t end)
{
	uint64_t n = end - first;
	uint64_t edge = MPIB_TABLE_SLOTS - first % MPIB_TABLE_SLOTS;

	return (unsigned)(n < edge ? n : edge);
}

/* Unsignalled WRs keep their places in the SQ, so the limit leaves room for a
 * replay, the longest chain on one QP, once all signalled WRs have completed. */
uint32_t mpib_cts_quiet_most(uint32_t sq_depth)
{
	return sq_depth > MPIB_REPLAY_WRS ? sq_depth - MPIB_REPLAY_WRS : 1;
}

void mpib_unsignaled_write(struct engine_conn *f, struct mpib_lane_qp *q,
			   uint64_t off, uint32_t len)
{
	unsigned r = q->rail;
	struct mpib_rail *rail = mpib_kept(&f->shard->rail[r]);
	struct mpib_wr *w = mpib_wr_take(&f->shard->wrs);

	w->sge[0].addr = (uint64_t)(uintptr_t)f->tables.out + off;
	w->sge[0].length = len;
	w->sge[0].lkey = f->tables.lkey[r];
	w->wr.wr_id = mpib_wr_tag(MPIB_WR_UNSIGNALED, f->id, 0);
	w->wr.opcode = IBV_WR_RDMA_WRITE;
	w->wr.wr.rdma.remote_addr = f->remote.addr + off;
	w->wr.wr.rdma.rkey = f->remote.rkey[r];
	w->wr.send_flags = len <= rail->port.max_inline ? IBV_SEND_INLINE : 0;
	/* A signalled WR frees the SQ places of the unsignalled ones before it:
	 * signal in time, and when the CQ's budget is tight. */
	q->cts_unsignaled += (len + 63) / 64;
	if (q->cts_unsignaled >= f->shard->quiet_most ||
	    mpib_budget_is_tight(&rail->budget)) {
		w->wr.send_flags |= IBV_SEND_SIGNALED;
		w->wr.wr_id = mpib_wr_tag(MPIB_WR_CTS, f->id, 0);
		q->cts_unsignaled = 0;
	}
	f->wrote |= mpib_rail_bit(r);
	mpib_count_post(f, q, r, 1, 0, false);
	mpib_qp_add(q, w);
}

/* Post n entries from slot first on with one WRITE. The last entry carries the
 * end-to-end ack. */
static void post_run(struct engine_conn *f, struct mpib_lane_qp *q,
		     uint64_t first, unsigned n)
{
	unsigned home = q->rail;
	struct mpib_cts *cts = f->tables.out;
	size_t at = mpib_entry_of(f, first);

	if (f->lane->delivered) {
		cts[at + n - 1].ended = f->rx.tail;
		/* CTS posted again the peer may have seen by another rail, and
		 * it looks at no CTS twice: then the ack goes alone. */
		if (first >= f->rx.cts_posted)
			f->rx.acked = f->rx.tail;
	}
	f->n[home].cts += n;
	f->lane->n[home].cts += n;
	f->shard->rail[home].n.n.cts += n;
	mpib_unsignaled_write(f, q, at * sizeof(*cts),
			      n * (uint32_t)sizeof(*cts));
}

/* Note the posting in the slots and their requests; those of cancelled slots may
 * be newer ones. */
static void note_posted(struct engine_conn *f, uint64_t first, unsigned n)
{
	uint64_t now = f->shard->now;

	for (uint64_t i = first; i < first + n; i++) {
		struct mpib_slot *s = mpib_kept(mpib_slot_at(f, i));
		struct engine_request *r = mpib_kept(&f->req[s->req]);

		if (s->state == MPIB_SLOT_CANCELLED)
			continue;
		s->posted = now;
		/* One IMM a rail answers all buffers of a group. */
		if (s->idx == 0)
			mpib_report_post(f, s->req, engine_conn_home(f),
					 engine_conn_cts_qp(f)->qpn, 0);
		if (!r->posted)
			mpib_record(f, MPIB_TIME_SUBMIT_POST, now - r->since);
		r->posted = true;
	}
}

/* Post the CTS from *next up to end while there is room; how many. */
static int post_runs(struct engine_conn *f, uint64_t *next, uint64_t end)
{
	/* The control thread owns the QPs of a rail that is not open. */
	bool open = f->lane->open & mpib_rail_bit(engine_conn_home(f));
	struct mpib_lane_qp *q = engine_conn_cts_qp(f);
	int posted = 0;

	while (*next != end && !f->broken) {
		unsigned n = cts_run(*next, end);

		if (!open || !mpib_qp_fits(q, q->rail, 1)) {
			mpib_stall(f, MPIB_STALL_SQ);
			break;
		}
		post_run(f, q, *next, n);
		mpib_unstall(f);
		note_posted(f, *next, n);
		*next += n;
		posted += (int)n;
	}
	return posted;
}

int mpib_receiver_post_cts(struct engine_conn *f)
{
	struct mpib_receiver *rx = &f->rx;
	int posted = 0;

	if (rx->cts_again != rx->cts_posted) {
		/* Slots that have ended meanwhile the peer knows, and newer ones
		 * have their entries, which are not its to see yet. */
		if (rx->cts_again < rx->freed)
			rx->cts_again = rx->freed;
		posted += post_runs(f, &rx->cts_again, rx->cts_posted);
	}
	if (rx->cts_again == rx->cts_posted) {
		posted += post_runs(f, &rx->cts_posted, rx->next);
		rx->cts_again = rx->cts_posted;
	}
	return posted;
}
