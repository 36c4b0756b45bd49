/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a completion does to the send op that it is of. The rest is in send_op.c.
 * Shard thread.
 */
#ifndef MPIB_ENGINE_CONN_SENT_H
#define MPIB_ENGINE_CONN_SENT_H

#include "engine/measure/count.h"

/* send_op.c: the bytes of a range of the send op, which was sent, count for its
 * request. Only the send op that ends the receive ends the request, too: others may
 * be over before that. */
void mpib_range_count(struct engine_conn *f, const struct send_op *p,
		      const struct op_range *s);
/* send_op.c: the last stripes of a send op whose cut is judged were acknowledged, ns
 * after its post. */
void mpib_op_judge(struct engine_conn *f, const struct send_op *p, uint64_t ns);
/* send_op.c: the rails acknowledged the send op, but its end-to-end ack is not here:
 * whether it waits for that, as a fence may still find that the peer lacks its
 * bytes. */
bool mpib_op_is_held(struct engine_conn *f, const struct send_op *p);

/* Report the oldest send op to its requests: in the order posted, whatever rail
 * was faster. */
__attribute__((always_inline)) static inline void
mpib_op_retire(struct engine_conn *f, const struct send_op *p)
{
	for (unsigned i = 0; i < p->n; i++) {
		const struct op_range *s = mpib_kept(send_op_share(f, p, i));

		if (s->mr)
			mpib_mr_unref(s->mr);
		mpib_range_count(f, p, s);
	}
}

/* Report the send ops that are over, in the order posted; how many. delivered: so is
 * the lane. */
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
		tx->op_tail++;
		tx->share_tail += send_op_takes(p->n);
		mpib_op_retire(f, p);
	}
	return n;
}

/* As mpib_sender_completed() of the stripe that rail r was given, which was
 * acknowledged: in line, for each message has one. What is seldom is left to that. */
__attribute__((always_inline)) static inline void
mpib_sender_sent(struct engine_conn *f, unsigned op, unsigned r)
{
	struct send_op *p = mpib_kept(send_op_at(f, op));
	const uint8_t bit = mpib_rail_bit(r);
	uint64_t now = f->shard->now, posted;

	if (__builtin_expect(!(p->c.pending & bit) || p->c.carrier[r] != r ||
				     p->report || f->stopping || f->broken ||
				     f->lane->spread != MPIB_SPREAD_SPLIT,
			     0)) {
		mpib_sender_completed(f, op, bit, true);
		return;
	}
	p->c.pending &= (uint8_t)~bit;
	posted = p->stripe[r].posted;
	mpib_record(f, MPIB_TIME_POST_SOUT + r, now - posted);
	mpib_tracker_ack(&f->lane->track[r], &p->stripe[r], now);
	if (p->before >= 0 && !p->c.pending)
		mpib_op_judge(f, p, now - posted);
	/* Who waits for end-to-end acks is looked at once a turn. */
	if (!f->on_ack)
		mpib_ops_retire(f, f->lane->delivered);
}

#endif
