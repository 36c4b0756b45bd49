/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a fence: find the stripes that the rail lost, by the peer's receive
 * bitmaps. CTS that the peer's senders do not have are posted again, too;
 * posting a CTS twice changes nothing. Shard thread.
 */
#include <errno.h>

#include "base/clock.h"
#include "engine/conn/conn.h"
#include "engine/recovery/stop.h"

/* Binary search: the bitmaps are sorted by failover_order(). */
static const struct mpib_recv_bitmap *
find_lost_find(const struct mpib_recv_bitmaps *a, uint32_t conn, bool sender)
{
	uint32_t lo = 0, hi = a->n;

	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;
		const struct mpib_recv_bitmap *at = &a->v[mid];

		if (at->sender < sender ||
		    (at->sender == sender && at->conn < conn))
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == a->n || a->v[lo].conn != conn || a->v[lo].sender != sender)
		return NULL;
	return &a->v[lo];
}

static uint8_t seen_of(const struct mpib_recv_bitmap *a, uint64_t slot)
{
	uint64_t i = slot - a->first;
	unsigned bit = (unsigned)i * MPIB_RAILS;

	return i < a->slots ? a->seen[bit / 8] >> bit % 8 & 3 : 0;
}

static uint8_t carried_by(const struct send_op *p, unsigned rail)
{
	uint8_t bits = 0;

	for (unsigned k = 0; k < MPIB_RAILS; k++)
		bits |= (uint8_t)((p->c.carrier[k] == rail) << k);
	return bits & p->c.pending & (uint8_t)~p->c.lost;
}

/* The connection is broken or stopping: give up the stripes that the rail
 * carries, without posting them again. */
static void find_lost_forget(struct engine_conn *f, unsigned rail)
{
	for (uint32_t i = f->tx.op_tail; i != f->tx.op_head; i++)
		mpib_sender_completed(f, i, carried_by(send_op_at(f, i), rail),
				      false);
}

/*
 * The receiver should have seen every stripe whose writes the rail
 * acknowledged. It has not if its device died between the acknowledgement and
 * the receive completion. False if that happened to a stripe whose bytes the
 * client has back, so that they cannot be sent again. With end-to-end acks a
 * client gets bytes back only when the slot is delivered, except for slots with
 * MPIB_ENDED_RELEASED.
 */
static bool kept_its_word(struct engine_conn *f, unsigned rail,
			  const struct mpib_recv_bitmap *a)
{
	uint64_t s = f->lane->delivered ? f->tx.acked : a->first;
	uint8_t pending[MPIB_SLOTS] = { 0 };

	/* Older slots have ended at both ends. */
	if (s + f->slots < f->tx.cts_next)
		s = f->tx.cts_next - f->slots;
	for (uint32_t i = f->tx.op_tail; i != f->tx.op_head; i++) {
		const struct send_op *p = send_op_at(f, i);

		if (p->slot >= s)
			pending[mpib_entry_of(f, p->slot)] |=
				p->c.imm & p->c.pending;
	}
	for (; s < f->tx.cts_next; s++) {
		uint8_t e = *mpib_ended_at(f, s);
		uint8_t missing = e & (uint8_t)~seen_of(a, s) &
				  (uint8_t)~pending[mpib_entry_of(f, s)];

		if (f->lane->delivered && !(e & MPIB_ENDED_RELEASED))
			continue;
		for (unsigned k = 0; k < MPIB_RAILS; k++) {
			if (missing >> k & 1 &&
			    (e >> MPIB_RAILS >> k & 1) == rail)
				return false;
		}
	}
	return true;
}

static void find_lost_op(struct engine_conn *f, uint32_t i,
			 struct mpib_rail_job *job,
			 const struct mpib_recv_bitmap *a)
{
	struct send_op *p = send_op_at(f, i);
	uint8_t before = p->c.lost, pending = p->c.pending, lost;
	bool done = p->slot < a->first || p->slot < f->tx.acked;
	uint8_t placed =
		mpib_stripes_find_lost(&p->c, job->rail, done,
				       seen_of(a, p->slot), f->lane->delivered);

	lost = p->c.lost & (uint8_t)~before;
	f->tx.lost += !before && lost;
	for (unsigned k = 0; k < MPIB_RAILS; k++) {
		if (!(lost & mpib_rail_bit(k)))
			continue;
		mpib_tracker_drop(&f->lane->track[job->rail], &p->stripe[k],
				  f->shard->now);
		job->lost_bytes += p->stripe[k].bytes;
		job->lost_stripes++;
		job->acked_stripes += !(pending >> k & 1);
	}
	mpib_sender_completed(f, i, placed, true);
}

/* The receiver cancelled the rest of a message that ended early, and does not
 * announce those slots again: do not wait for their CTS. */
static void skip_cancelled(struct engine_conn *f, uint64_t first)
{
	while (f->tx.cts_next < first)
		*mpib_ended_at(f, f->tx.cts_next++) = 0;
}

static void find_lost_sender(struct engine_conn *f, struct mpib_rail_job *job)
{
	/* The peer's bitmap may be many slots old, for the other rail goes on
	 * meanwhile. A receiver without a bitmap had not started when the peer
	 * stopped; CTS that we have from it came later, by the other rail. */
	static const struct mpib_recv_bitmap not_started;
	const struct mpib_recv_bitmap *a =
		find_lost_find(&job->bitmaps, f->remote.id, false);
	uint32_t head = f->tx.op_head;
	uint8_t others = (uint8_t)~mpib_rail_bit(job->rail);

	if (!a)
		a = &not_started;
	if (a->first > f->tx.acked)
		f->tx.acked = a->first;
	f->tx.mask &= others;
	f->tx.spread &= others;
	f->tx.group.mask &= others;
	if (a->first > f->tx.cts_next + MPIB_SLOTS) {
		/* Up to MPIB_SLOTS ahead is legal: slots that the receiver
		 * cancelled, see skip_cancelled(). */
		engine_conn_break(f, -EPROTO,
				  "peer %s claims to have what was not sent",
				  f->lane->peer);
	} else if (!kept_its_word(f, job->rail, a)) {
		engine_conn_break(f, -EIO,
				  "rail %u to %s: the peer's device died with "
				  "data it had acknowledged",
				  job->rail, f->lane->peer);
	}
	if (f->broken || f->stopping) {
		find_lost_forget(f, job->rail);
		return;
	}
	skip_cancelled(f, a->first);
	for (uint32_t i = f->tx.op_tail; i != head; i++) {
		/* A send op that ended may have retired later ones, too. */
		if ((int32_t)(i - f->tx.op_tail) >= 0)
			find_lost_op(f, i, job, a);
	}
	mpib_sender_retire(f);
	if (f->tx.lost)
		engine_conn_make_ready(f);
}

static void find_lost_receiver(struct engine_conn *f, struct mpib_rail_job *job)
{
	const struct mpib_recv_bitmap *a =
		find_lost_find(&job->bitmaps, f->id, true);
	struct mpib_receiver *rx = &f->rx;
	/* Without a bitmap the peer's sender had not started: it has no CTS. Slots
	 * from freed to tail are cancelled ones, and the sender reads past their
	 * CTS unless they were cancelled before our bitmap. */
	uint64_t from = a && a->first > rx->freed ? a->first : rx->freed;

	rx->acked = MPIB_NOT_ACKED;
	mpib_ack_need(f);
	if (from >= rx->cts_posted || f->broken || f->stopping)
		return;
	rx->cts_again = from;
	if (!f->on_cts) {
		f->on_cts = true;
		TAILQ_INSERT_TAIL(&f->shard->cts, f, cts_link);
	}
}

static void find_lost_count(struct mpib_lane *lane,
			    const struct mpib_rail_job *job)
{
	struct mpib_snap_rail *rail = &lane->shard->rail[job->rail].n;
	struct mpib_snap_failover *n = &rail->failover;
	uint64_t now = mpib_now_ns();
	uint64_t ns = now - lane->stop[job->rail].fault_ns;

	rail->failovers++;
	n->count[job->cause]++;
	n->lost_bytes += job->lost_bytes;
	n->lost_stripes += job->lost_stripes;
	n->acked_stripes += job->acked_stripes;
	n->last_ns = ns;
	n->last_at = now;
	n->sum_ns += ns;
	if (ns > n->max_ns)
		n->max_ns = ns;
}

void mpib_rail_on_bitmaps(struct mpib_msg *msg)
{
	struct mpib_call *call = container_of(msg, struct mpib_call, msg);
	struct mpib_rail_job *job = call->what;
	struct mpib_lane *lane = job->lane;
	struct engine_conn *f, *next;

	TAILQ_FOREACH(f, &lane->conns, lane_link)
	{
		if (f->is_sender)
			find_lost_sender(f, job);
		else
			find_lost_receiver(f, job);
	}
	mpib_lane_drop_rail(lane, job->rail);
	lane->epoch[job->rail] = job->epoch;
	lane->fencing &= (uint8_t)~mpib_rail_bit(job->rail);
	find_lost_count(lane, job);
	for (f = TAILQ_FIRST(&lane->conns); f; f = next) {
		next = TAILQ_NEXT(f, lane_link);
		/* Of one that the QP refused no completion has come. */
		f->stop_posted &= (uint8_t)~mpib_rail_bit(job->rail);
		if (f->stopping && !f->stopped)
			engine_conn_check_stopped(f);
	}
	mpib_call_done(lane->shard, call, 0);
}
