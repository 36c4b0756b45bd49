/* SPDX-License-Identifier: Apache-2.0 */
/* The effect of a completion on its send op. The rest is in send_op.c. Shard
 * thread. */
#ifndef MPIB_ENGINE_CONN_SENT_H
#define MPIB_ENGINE_CONN_SENT_H

#include "engine/measure/count.h"

/* send_op.c: add the bytes of a range of a completed send op to its request.
 * Only the send op that ends the receive ends the request, too: others may end
 * before it. */
void mpib_range_count(struct engine_conn *f, const struct send_op *p,
		      const struct op_range *s);
/* send_op.c: measure a send op whose cut is judged. Its last stripes were
 * acknowledged ns after its post. */
void mpib_op_judge(struct engine_conn *f, const struct send_op *p, uint64_t ns);
/* send_op.c: the rails acknowledged the send op, but its end-to-end ack has not
 * arrived. Return whether it waits for that: a fence may still find that the
 * peer lacks its bytes. */
bool mpib_op_is_held(struct engine_conn *f, const struct send_op *p);

/* Report the oldest send op to its requests: in the order posted, whichever
 * rail was faster. */
__attribute__((always_inline)) static inline void
mpib_op_retire(struct engine_conn *f, const struct send_op *p)
{
	for (unsigned i = 0; i < p->n; i++) {
		const struct op_range *s = mpib_kept(send_op_range(f, p, i));

		if (s->mr)
			mpib_mr_unref(s->mr);
		mpib_range_count(f, p, s);
	}
}

/* Report the completed send ops, in the order posted; return how many.
 * delivered: of the lane. */
__attribute__((always_inline)) static inline int
mpib_ops_retire(struct engine_conn *f, bool delivered)
{
	struct mpib_sender *tx = &f->tx;
	int n = 0;

	for (; tx->op_tail != tx->op_head; n++) {
		struct send_op *p = mpib_kept(send_op_at(f, tx->op_tail));

		if (p->c.pending)
			break;
		if (delivered && p->slot >= tx->acked &&
		    mpib_op_is_held(f, p)) {
			if (!f->on_ack)
				mpib_ack_enter(f);
			break;
		}
		if (!delivered && p->slot == tx->cts_next)
			tx->released = true;
		tx->op_tail++;
		tx->op_range_tail += send_op_takes(p->n);
		mpib_op_retire(f, p);
	}
	return n;
}

/* The same as mpib_sender_completed() for the stripe that rail r was given
 * first, acknowledged. Inline, because each message has one; rare cases are
 * left to that function. */
__attribute__((always_inline)) static inline void
mpib_sender_sent(struct engine_conn *f, unsigned op, unsigned r)
{
	struct send_op *p = mpib_kept(send_op_at(f, op));
	const uint8_t bit = mpib_rail_bit(r);
	uint64_t now = f->shard->now, posted;

	if (!(p->c.pending & bit) || p->c.carrier[r] != r || p->report ||
	    f->stopping || f->broken || f->lane->spread != MPIB_SPREAD_SPLIT) {
		mpib_sender_completed(f, op, bit, true);
		return;
	}
	p->c.pending &= (uint8_t)~bit;
	posted = p->stripe[r].posted;
	mpib_record(f, MPIB_TIME_POST_SOUT + r, now - posted);
	mpib_tracker_ack(&f->lane->track[r], &p->stripe[r], now);
	if (p->before >= 0 && !p->c.pending)
		mpib_op_judge(f, p, now - posted);
	/* Connections that wait for acks are polled once a turn. */
	if (!f->on_ack)
		mpib_ops_retire(f, f->lane->delivered);
}

#endif
