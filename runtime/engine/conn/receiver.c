/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiving end of a connection: descriptors become slots, IMMs end them.
 * The first IMM of a slot says which rails the receiver has to wait for. Shard
 * thread.
 */
#include <mpib/wire.h>
#include <stdatomic.h>
#include <string.h>

#include "engine/conn/request.h"

static bool receiver_well_formed(const struct mpib_desc *d)
{
	return (d->op & ~MPIB_OP_REPORT) == MPIB_OP_RECV && d->n >= 1 &&
	       d->n <= MPIB_GROUP_MAX && d->idx < d->n &&
	       d->req < MPIB_REQUESTS && d->gen != 0 &&
	       d->total <= MPIB_SIZE_MAX && d->pos <= d->total &&
	       d->len <= d->total - d->pos && (d->len > 0 || d->total == 0) &&
	       (d->n == 1 || d->len == d->total);
}

/* Open the next slot, which takes over the caller's reference on mr. */
__attribute__((always_inline)) static inline void
open_slot(struct engine_conn *f, const struct mpib_desc *d, struct mpib_mr *mr,
	  uint64_t addr)
{
	struct mpib_slot *s = mpib_kept(mpib_slot_at(f, f->rx.next));

	mpib_cts_write(f, d, mr, addr);
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
	if (!f->on_cts) {
		f->on_cts = true;
		TAILQ_INSERT_TAIL(&f->shard->cts, f, cts_link);
	}
}

/* A descriptor of a group. The slots are opened when the last one has come, so
 * that a group is announced as a whole. */
static int take_member(struct engine_conn *f, const struct mpib_desc *d)
{
	const struct mpib_desc *first = &f->rx.group[0];
	struct mpib_mr *mr;
	uint64_t addr;
	int rc;

	if (d->idx != f->rx.group_got ||
	    (d->idx && (d->n != first->n || d->req != first->req ||
			d->gen != first->gen)))
		return -EINVAL;
	rc = d->idx ? 0 : engine_conn_feed(f, d, &f->rx.msg);
	if (rc < 0)
		return rc;
	f->rx.group[f->rx.group_got++] = *d;
	if (f->rx.group_got < d->n)
		return 1;

	for (unsigned i = 0; i < d->n; i++) {
		rc = engine_conn_hold(f, &f->rx.group[i], &mr, &addr);
		if (rc < 0)
			return rc;
		open_slot(f, &f->rx.group[i], mr, addr);
	}
	f->rx.group_got = 0;
	return 1;
}

int mpib_receiver_take(struct engine_conn *f, const struct mpib_desc *d)
{
	const struct engine_request *r;
	struct mpib_mr *mr;
	uint64_t addr;
	int rc;

	if (d->op == MPIB_OP_FLUSH)
		return mpib_flush_take(f, d);
	if (!receiver_well_formed(d))
		return -EINVAL;
	r = &f->req[d->req];
	if (d->pos > 0 && !r->active && r->gen == d->gen)
		return 1; /* the message ended before this part */
	if (d->n > 1 || f->rx.group_got)
		return take_member(f, d);

	rc = engine_conn_hold(f, d, &mr, &addr);
	if (rc < 0)
		return rc;
	rc = engine_conn_feed(f, d, &f->rx.msg);
	if (rc < 0) {
		if (mr)
			mpib_mr_unref(mr);
		return rc;
	}
	if (d->tag >= 0)
		f->remote_rank = d->tag;
	open_slot(f, d, mr, addr);
	return 1;
}

static void receiver_release(struct mpib_slot *s)
{
	if (s->mr)
		mpib_mr_unref(s->mr);
	s->mr = NULL;
}

/* The message ended in the slot at tail: no later slot of the request will be
 * written, for the sender skips their CTS. */
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

/* An entry with another seq is of an earlier slot with the same place. */
bool mpib_receiver_record(struct engine_conn *f, uint64_t number,
			  struct mpib_record *rec)
{
	const struct mpib_record *entry = f->tables.in;

	entry += mpib_entry_of(f, number);
	/* Relaxed: most slots have none; what counts is the copy's. */
	if (__atomic_load_n(&entry->seq, __ATOMIC_RELAXED) != number + 1)
		return false;
	*rec = *entry;
	/* As in mpib_cts_copy(): only the copy is checked and used. */
	atomic_signal_fence(memory_order_seq_cst);
	return rec->seq == number + 1;
}

static void count_rx(struct engine_conn *f, unsigned r, uint64_t bytes)
{
	f->n[r].rx_bytes += bytes;
	f->lane->n[r].rx_bytes += bytes;
	f->shard->rail[r].n.n.rx_bytes += bytes;
}

/* A slot without a record: each rail has the bytes of its IMM. */
static inline void count_imms(struct engine_conn *f, const struct mpib_slot *s)
{
	for (unsigned on = s->seen; on; on &= on - 1) {
		unsigned r = (unsigned)__builtin_ctz(on);

		count_rx(f, r, s->rail[r]);
	}
}

/* Release s, the slot at tail, and the other slots of its group. */
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

/* A slot without a record: its size is the sum of the IMMs' byte_len, in v1
 * checked against the rounded size of the IMM. */
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

/* End a slot of a receive with one buffer: a part of the message, or all. */
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
	engine_conn_done(f, s->req, end);
	return 0;
}

/* The record's status: the message is larger than the receive. */
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

/* What came by each rail, of a slot without a record if rec is NULL. */
static void report_slot(struct engine_conn *f, const struct mpib_slot *s,
			const struct mpib_record *rec)
{
	for (unsigned r = 0; r < f->lane->rails; r++)
		mpib_report_arrived(f, s->req, r,
				    rec ? rec->rail[r] : s->rail[r]);
}

static int end_slot(struct engine_conn *f, struct mpib_slot *s)
{
	struct mpib_record rec;
	bool recorded = mpib_receiver_record(f, f->rx.tail, &rec);

	if (f->lane->imm_version == MPIB_IMM_V1 &&
	    recorded != (s->size_q == MPIB_IMM_SIZEQ_SENTINEL))
		return -EPROTO;
	if (recorded && rec.status < 0) {
		receiver_refused(f, s, &rec);
		return 0;
	}
	if (__builtin_expect(recorded, 0)) {
		for (unsigned r = 0; r < f->lane->rails; r++)
			count_rx(f, r, rec.rail[r]);
	} else {
		count_imms(f, s);
	}
	if (__builtin_expect(f->req[s->req].report, 0))
		report_slot(f, s, recorded ? &rec : NULL);
	mpib_count_messages(f, 1);
	if (s->n > 1)
		return recorded ? end_group(f, s, &rec) : -EPROTO;
	return end_part(f, s, recorded, &rec);
}

/* End all slots from tail on that have arrived. Slots end in order, so that the
 * client's progress word has no gaps. */
static void end_slots(struct engine_conn *f)
{
	struct mpib_receiver *rx = &f->rx;

	while (rx->tail != rx->next && !f->broken) {
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
		/* The sender answers slots in order, so it has read every CTS
		 * before tail. */
		rx->freed = rx->tail;
		if (f->lane->delivered && !f->on_ack)
			mpib_ack_enter(f);
	}
}

/* The slot that this IMM may end, or NULL when it ends none. */
static struct mpib_slot *receiver_slot_of(struct engine_conn *f, unsigned rail,
					  uint32_t qpn, uint32_t imm)
{
	uint32_t mask = mpib_imm_mask(imm), slot = mpib_imm_slot(imm);
	uint64_t number =
		f->rx.tail + ((slot - (uint32_t)f->rx.tail) & (MPIB_SLOTS - 1));
	struct mpib_slot *s = mpib_kept(mpib_slot_at(f, number));

	if (number + s->n > f->rx.cts_posted || s->state != MPIB_SLOT_POSTED ||
	    mask == 0 || mask >= 1u << f->lane->rails ||
	    !(mask & mpib_rail_bit(rail)) || s->seen & mpib_rail_bit(rail) ||
	    (s->expected && s->expected != mask) ||
	    engine_conn_qp(f, rail, number)->qpn != qpn)
		return NULL;
	return s;
}

/* The IMM came that the slot waits for on the rail. */
static inline void slot_arrived(struct engine_conn *f, struct mpib_slot *s,
				unsigned rail, uint32_t qpn, uint32_t imm,
				uint32_t byte_len)
{
	f->n[rail].rx_imms++;
	mpib_record(f, MPIB_TIME_POST_SOUT + rail, f->shard->now - s->posted);
	mpib_report_done(f, s->req, rail, qpn);
	s->expected = (uint8_t)mpib_imm_mask(imm);
	/* A replay that came first has set the sentinel, all ones: keep it. */
	if (mpib_imm_v1_size_q(imm) > s->size_q)
		s->size_q = mpib_imm_v1_size_q(imm);
	s->seen |= mpib_rail_bit(rail);
	s->rail[rail] = byte_len;
}

void mpib_receiver_arrived(struct engine_conn *f, unsigned rail, uint32_t qpn,
			   uint32_t imm, uint32_t byte_len)
{
	struct mpib_slot *s = receiver_slot_of(f, rail, qpn, imm);

	f->rx.flush.arrived[rail] = f->shard->now;
	if (__builtin_expect(s != NULL, 1))
		slot_arrived(f, s, rail, qpn, imm, byte_len);
	else if (mpib_imm_mask(imm) == 0)
		s = mpib_replay_arrived(f, rail, qpn, imm);
	if (__builtin_expect(!s, 0)) {
		f->shard->rail[rail].n.bad_imms++;
		engine_conn_break(
			f, -EPROTO,
			"imm 0x%08x on rail %u fits no posted receive", imm,
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
	for (unsigned i = 0; i < f->slots; i++) {
		receiver_release(&f->rx.slot[i]);
		f->rx.slot[i].state = MPIB_SLOT_FREE;
	}
	f->rx.cts_posted = f->rx.cts_again = f->rx.next;
	mpib_flush_drop(f);
}

bool mpib_receiver_uses(const struct engine_conn *f, const struct mpib_mr *mr)
{
	for (uint64_t i = f->rx.tail; i != f->rx.next; i++) {
		if (f->rx.slot[mpib_entry_of(f, i)].mr == mr)
			return true;
	}
	return mpib_flush_uses(f, mr);
}
