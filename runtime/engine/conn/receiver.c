/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiving end of a connection: descriptors become slots, and IMMs end
 * them. The first IMM of a slot contains a mask: the rails whose IMMs the
 * receiver must wait for. In the IMM of a replay the mask is 0, and the slot's
 * record contains the mask. Shard thread.
 */
#include <mpib/wire.h>
#include <stdatomic.h>
#include <string.h>

#include "engine/conn/chain.h"
#include "engine/conn/request.h"
#include "engine/measure/count.h"

#define CTS_QUIET 128u

static bool receiver_well_formed(const struct mpib_desc *d)
{
	return (d->op & ~MPIB_OP_REPORT) == MPIB_OP_RECV && d->n >= 1 &&
	       d->n <= MPIB_GROUP_MAX && d->idx < d->n &&
	       d->req < MPIB_REQUESTS && d->gen != 0 &&
	       d->total <= MPIB_SIZE_MAX && d->pos <= d->total &&
	       d->len <= d->total - d->pos && (d->len > 0 || d->total == 0) &&
	       (d->n == 1 || d->len == d->total);
}

/* Fill the table entry of the next slot. */
static void cts_write(struct engine_conn *f, const struct mpib_desc *d,
		      const struct mpib_mr *mr, uint64_t addr)
{
	struct mpib_cts *cts = f->tables.out;

	cts += f->rx.next % MPIB_TABLE_SLOTS;
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

/* Open the next slot for the buffer of this descriptor. Returns what
 * mpib_receiver_take() returns. */
static inline int open_slot(struct engine_conn *f, const struct mpib_desc *d)
{
	struct mpib_slot *s = mpib_slot_at(f, f->rx.next);
	struct mpib_mr *mr;
	uint64_t addr;
	int rc = engine_conn_hold(f, d, &mr, &addr);

	if (rc < 0)
		return rc;
	cts_write(f, d, mr, addr);
	*s = (struct mpib_slot){
		.state = d->idx ? MPIB_SLOT_MEMBER : MPIB_SLOT_POSTED,
		.req = d->req,
		.n = d->n,
		.idx = d->idx,
		.pos = d->pos,
		.len = d->len,
		.mr = mr,
	};
	f->rx.next++;
	mpib_cts_due(f);
	return 1;
}

/* Open all slots of a group when its last descriptor has come, because a group
 * is announced as a whole. */
static int open_group(struct engine_conn *f)
{
	struct mpib_receiver *rx = &f->rx;
	int rc = 1;

	for (unsigned i = 0; rc > 0 && i < rx->group[0].n; i++)
		rc = open_slot(f, &rx->group[i]);
	rx->group_got = 0;
	return rc;
}

int mpib_receiver_take(struct engine_conn *f, const struct mpib_desc *d)
{
	struct mpib_receiver *rx = &f->rx;
	const struct mpib_desc *first = &rx->group[0];
	const struct engine_request *r;
	int rc;

	if (d->op == MPIB_OP_FLUSH)
		return mpib_flush_take(f, d);
	if (!receiver_well_formed(d))
		return -EINVAL;
	r = &f->req[d->req];
	if (d->pos > 0 && !r->active && r->gen == d->gen)
		return 1; /* the message ended before this part */
	if (d->idx != rx->group_got ||
	    (d->idx && (d->n != first->n || d->req != first->req ||
			d->gen != first->gen)))
		return -EINVAL;
	rc = d->idx ? 0 : engine_conn_feed(f, d, &rx->msg);
	if (rc < 0)
		return rc;
	if (d->n == 1) {
		if (d->tag >= 0)
			f->rank = d->tag;
		return open_slot(f, d);
	}
	rx->group[rx->group_got++] = *d;
	return rx->group_got < d->n ? 1 : open_group(f);
}

static void receiver_release(struct mpib_slot *s)
{
	if (s->mr)
		mpib_mr_unref(s->mr);
	s->mr = NULL;
}

/* The message has ended in the slot at `tail`: cancel the request's later
 * slots. The sender skips the CTS of those slots, so no data arrives in
 * them. */
static void cancel_rest(struct engine_conn *f, unsigned req)
{
	for (uint64_t i = f->rx.tail + 1; i < f->rx.next; i++) {
		struct mpib_slot *s = mpib_slot_at(f, i);

		if (s->req != req || s->state != MPIB_SLOT_POSTED)
			break;
		s->state = MPIB_SLOT_CANCELLED;
		receiver_release(s);
	}
}

/* Copy the slot's record. False: the sender wrote no record. If the entry has
 * another seq, an earlier slot has used it. */
static bool copy_record(const struct engine_conn *f, uint64_t number,
			struct mpib_record *rec)
{
	const struct mpib_record *entry = f->tables.in;

	entry += number % MPIB_TABLE_SLOTS;
	/* Relaxed: this load only avoids a copy if there is no record. The seq
	 * is checked again in the copy. */
	if (__atomic_load_n(&entry->seq, __ATOMIC_RELAXED) != number + 1)
		return false;
	*rec = *entry;
	/* Check and use only the copy, as in mpib_cts_copy(). */
	atomic_signal_fence(memory_order_seq_cst);
	return rec->seq == number + 1;
}

/* Release slot s, which is at `tail`, and the other slots of its group. */
static void free_slots(struct engine_conn *f, struct mpib_slot *s)
{
	for (unsigned i = 0, n = s->n; i < n; i++) {
		struct mpib_slot *m = mpib_slot_at(f, f->rx.tail + i);

		receiver_release(m);
		m->state = MPIB_SLOT_FREE;
	}
}

static int end_group(struct engine_conn *f, struct mpib_slot *s,
		     const struct mpib_record *rec)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < s->n; i++) {
		if (rec->size[i] > mpib_slot_at(f, f->rx.tail + i)->len)
			return -EPROTO;
		sum += rec->size[i];
	}
	free_slots(f, s);
	engine_conn_finish(f, s->req,
			   (int32_t)(sum > MPIB_SIZE_MAX ? MPIB_SIZE_MAX : sum),
			   rec->size, s->n);
	return 0;
}

/* Return the size of a slot without a record: the sum of the IMMs' byte_len. On
 * a lane with IMM v1, check the size against the rounded size in the IMM. */
static int size_by_imm(const struct engine_conn *f, const struct mpib_slot *s,
		       uint32_t *bytes)
{
	uint64_t sum = (uint64_t)s->rail[0] + s->rail[1];

	if (sum > s->len || s->n > 1)
		return -EPROTO;
	if (f->lane->imm_version == MPIB_IMM_V1 &&
	    s->size_q != mpib_size_q(sum))
		return -EPROTO;
	*bytes = (uint32_t)sum;
	return 0;
}

/* End a slot of a receive with one buffer. The slot has the whole message or a
 * part of it. */
static int end_part(struct engine_conn *f, struct mpib_slot *s, bool recorded,
		    const struct mpib_record *rec)
{
	struct engine_request *r = mpib_kept(&f->req[s->req]);
	uint32_t bytes, end;
	bool last;
	int rc;

	if (recorded) {
		if (rec->size[0] < s->pos || rec->size[0] > r->total)
			return -EPROTO;
		bytes = rec->size[0] - s->pos;
		bytes = bytes < s->len ? bytes : s->len;
		end = s->pos + bytes;
		last = end == rec->size[0];
	} else {
		rc = size_by_imm(f, s, &bytes);
		if (rc < 0)
			return rc;
		end = s->pos + bytes;
		last = bytes < s->len || end == r->total;
	}
	receiver_release(s);
	s->state = MPIB_SLOT_FREE;
	if (!r->active)
		return 0;
	r->done = end;
	if (!last) {
		engine_conn_progress(f, s->req, end);
		return 0;
	}
	if (r->multipart)
		cancel_rest(f, s->req);
	engine_conn_finish(f, s->req, (int32_t)end, &end, 1);
	return 0;
}

/* Handle a record whose status says that the message is larger than the
 * receive. */
static void receiver_refused(struct engine_conn *f, struct mpib_slot *s,
			     const struct mpib_record *rec)
{
	uint32_t sizes[2] = { rec->size[0], f->req[s->req].total };

	for (unsigned i = 0; s->n > 1 && i < s->n; i++) {
		if (rec->size[i] > mpib_slot_at(f, f->rx.tail + i)->len) {
			sizes[0] = rec->size[i];
			sizes[1] = mpib_slot_at(f, f->rx.tail + i)->len;
		}
	}
	cancel_rest(f, s->req);
	free_slots(f, s);
	engine_conn_finish(f, s->req, -EMSGSIZE, sizes, 2);
}

static int end_slot(struct engine_conn *f, struct mpib_slot *s)
{
	struct mpib_record rec;
	bool recorded = copy_record(f, f->rx.tail, &rec);

	if (f->lane->imm_version == MPIB_IMM_V1 &&
	    recorded != (s->size_q == MPIB_IMM_SIZEQ_SENTINEL))
		return -EPROTO;
	if (recorded && rec.status < 0) {
		receiver_refused(f, s, &rec);
		return 0;
	}
	for (unsigned r = 0; r < f->lane->rails; r++) {
		/* Without a record, each rail carried the bytes that its IMM
		 * counted. */
		uint64_t bytes = recorded ? rec.rail[r] : s->rail[r];

		if (bytes == 0)
			continue;
		f->n[r].rx_bytes += bytes;
		if (f->req[s->req].report)
			mpib_report_rail(f, s->req, r, 0, 0, bytes);
	}
	f->messages++;
	if (s->n > 1)
		return recorded ? end_group(f, s, &rec) : -EPROTO;
	return end_part(f, s, recorded, &rec);
}

/* End slots that have arrived, in order from `tail`, so that the client's
 * progress word covers no gaps. */
static void end_slots(struct engine_conn *f)
{
	struct mpib_receiver *rx = &f->rx;

	while (rx->tail != rx->next && f->state == ENGINE_CONN_OPEN) {
		struct mpib_slot *s = mpib_kept(mpib_slot_at(f, rx->tail));
		unsigned n = s->n;

		if (s->state == MPIB_SLOT_CANCELLED) {
			rx->tail++;
			continue;
		}
		if (s->state != MPIB_SLOT_ARRIVED)
			return;
		if (end_slot(f, s) < 0) {
			engine_conn_break(f, -EPROTO,
					  "peer's sizes cannot be right");
			return;
		}
		rx->tail += n;
		/* The sender answers slots in order, so it has read all CTS
		 * before `tail`. */
		rx->freed = rx->tail;
		mpib_ack_need(f);
	}
}

/* Record an IMM in its slot and return the slot. NULL: a correct sender does
 * not post this IMM. */
static inline struct mpib_slot *note_imm(struct engine_conn *f, unsigned rail,
					 uint32_t qpn, uint32_t imm,
					 uint32_t byte_len)
{
	uint32_t tail = (uint32_t)f->rx.tail;
	uint64_t number =
		f->rx.tail + ((mpib_imm_slot(imm) - tail) & (MPIB_SLOTS - 1));
	struct mpib_slot *s = mpib_kept(mpib_slot_at(f, number));
	uint8_t expected = (uint8_t)mpib_imm_mask(imm);
	uint8_t ends = mpib_rail_bit(rail);
	bool replayed = !expected;
	struct mpib_record rec;

	if (number + s->n > f->rx.cts_posted || s->state != MPIB_SLOT_POSTED ||
	    engine_conn_qp(f, rail, number)->qpn != qpn)
		return NULL;
	if (replayed) {
		if (!copy_record(f, number, &rec))
			return NULL;
		expected = rec.expected;
		ends = rec.ends;
	}
	if (!ends || ends & ~expected || expected & ~f->lane->all ||
	    ends & s->seen || (s->expected && s->expected != expected))
		return NULL;
	s->expected = expected;
	s->seen |= ends;
	/* If an earlier replay has set the sentinel, which is all ones, keep
	 * it. */
	if (mpib_imm_v1_size_q(imm) > s->size_q)
		s->size_q = mpib_imm_v1_size_q(imm);
	if (replayed)
		return s;
	mpib_record(f, MPIB_TIME_POST_SOUT + rail, f->shard->now - s->posted);
	if (f->req[s->req].report)
		mpib_report_rail(f, s->req, rail, -1, qpn, 0);
	s->rail[rail] = byte_len;
	return s;
}

void mpib_receiver_arrived(struct engine_conn *f, unsigned rail, uint32_t qpn,
			   uint32_t imm, uint32_t byte_len)
{
	struct mpib_slot *s = note_imm(f, rail, qpn, imm, byte_len);

	f->n[rail].rx_imms++;
	f->rx.flush.arrived[rail] = f->shard->now;
	if (!s) {
		f->shard->rail[rail].n.bad_imms++;
		engine_conn_break(
			f, -EPROTO,
			"imm 0x%08x on rail %u matches no posted receive", imm,
			rail);
		return;
	}
	if (s->seen != s->expected)
		return;
	s->state = MPIB_SLOT_ARRIVED;
	end_slots(f);
	mpib_submit_again(f);
}

void mpib_receiver_drop(struct engine_conn *f)
{
	for (unsigned i = 0; i < MPIB_TABLE_SLOTS; i++) {
		receiver_release(&f->rx.slot[i]);
		f->rx.slot[i].state = MPIB_SLOT_FREE;
	}
	f->rx.cts_posted = f->rx.cts_again = f->rx.next;
	mpib_flush_drop(f);
}

bool mpib_receiver_uses(const struct engine_conn *f, const struct mpib_mr *mr)
{
	for (uint64_t i = f->rx.tail; i != f->rx.next; i++) {
		if (f->rx.slot[i % MPIB_TABLE_SLOTS].mr == mr)
			return true;
	}
	return mpib_flush_uses(f, mr);
}

/* CTS (clear to send), receiving end. For each slot the receiver fills an entry
 * of its own table and copies it into the sender's table by RDMA WRITE, on the
 * first QP of the home rail. Shard thread. */

/* Return how many of the CTS from slot `first` to before slot `end` one WRITE
 * can carry. Their entries must be adjacent in the table and have at most
 * MPIB_MSG_LEAST bytes in total. */
static unsigned cts_run(uint64_t first, uint64_t end)
{
	uint64_t n = end - first;
	uint64_t edge = MPIB_TABLE_SLOTS - first % MPIB_TABLE_SLOTS;

	return (unsigned)(n < edge ? n : edge);
}

/* An unsignalled WR occupies the SQ until a later signalled WR completes. After
 * all signalled WRs have completed, the SQ must have room for a replay, the
 * longest chain on one QP. The limit on unsignalled WRs ensures this room. One
 * completion per CTS_QUIET WRs costs almost nothing, so the limit need not be
 * higher. */
uint32_t mpib_cts_quiet_most(uint32_t sq_depth)
{
	uint32_t fit =
		sq_depth > MPIB_REPLAY_WRS ? sq_depth - MPIB_REPLAY_WRS : 1;

	return fit < CTS_QUIET ? fit : CTS_QUIET;
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
	/* The completion of a signalled WR also frees the SQ entries of the
	 * unsignalled WRs before it. So signal a WR before the SQ is full, and
	 * also if one more send could leave a QP without room in the CQ for a
	 * replay. */
	q->cts_unsignaled += (len + 63) / 64;
	if (q->cts_unsignaled >= f->shard->quiet_most ||
	    !mpib_budget_fits(&rail->budget,
			      rail->budget.sends + MPIB_REPLAY_WRS + 1)) {
		w->wr.send_flags |= IBV_SEND_SIGNALED;
		w->wr.wr_id = mpib_wr_tag(MPIB_WR_CTS, f->id, 0);
		q->cts_unsignaled = 0;
	}
	f->wrote |= mpib_rail_bit(r);
	mpib_count_post(f, q, r, 1, 0, false);
	mpib_qp_add(q, w);
}

/* Post n entries with one WRITE, from slot `first` on. The last entry carries
 * the end-to-end ack. */
static void post_run(struct engine_conn *f, struct mpib_lane_qp *q,
		     uint64_t first, unsigned n)
{
	unsigned home = q->rail;
	struct mpib_cts *cts = f->tables.out;
	size_t at = first % MPIB_TABLE_SLOTS;

	if (f->lane->delivered) {
		cts[at + n - 1].ended = f->rx.tail;
		/* The peer reads each CTS only once. It may already have read a
		 * repeated CTS that first came on another rail. The peer would
		 * then not see an ack in the repeated CTS, so write the ack
		 * separately. */
		if (first >= f->rx.cts_posted)
			f->rx.acked = f->rx.tail;
	}
	f->n[home].cts += n;
	mpib_unsignaled_write(f, q, at * sizeof(*cts),
			      n * (uint32_t)sizeof(*cts));
}

/* Record the time of posting in the slots and their requests. Skip cancelled
 * slots: their request has ended, and a newer request may use its index. */
static void note_posted(struct engine_conn *f, uint64_t first, unsigned n)
{
	uint64_t now = f->shard->now;

	for (uint64_t i = first; i < first + n; i++) {
		struct mpib_slot *s = mpib_slot_at(f, i);
		struct engine_request *r = &f->req[s->req];

		if (s->state == MPIB_SLOT_CANCELLED)
			continue;
		s->posted = now;
		/* One IMM per rail answers all buffers of a group. */
		if (s->idx == 0 && r->report)
			mpib_report_rail(f, s->req, engine_conn_home(f), 1,
					 engine_conn_cts_qp(f)->qpn, 0);
		if (!r->posted)
			mpib_record(f, MPIB_TIME_SUBMIT_POST, now - r->since);
		r->posted = true;
	}
}

/* Post the CTS from *next up to `end`, while there is room. Return the number
 * of CTS posted. */
static int post_runs(struct engine_conn *f, uint64_t *next, uint64_t end)
{
	/* The control thread owns the QPs of a rail that is not open. */
	unsigned home = engine_conn_home(f);
	bool open = f->lane->open & mpib_rail_bit(home);
	struct mpib_lane_qp *q = engine_conn_cts_qp(f);
	int posted = 0;

	while (*next != end) {
		unsigned n = cts_run(*next, end);

		if (!open || !mpib_qp_fits(q, home, 1)) {
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
		/* Skip slots that have ended since the fence, because the peer
		 * has read the CTS of these slots. The table entries may
		 * already hold the CTS of newer slots, which the peer must not
		 * see yet. */
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
