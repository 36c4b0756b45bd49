/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sending end of a connection: send ranges meet CTS, step by step. Here is the step
 * that is plain; others are parts.c's, and grouped receives group.c's. Shard thread.
 */
#include "engine/conn/step.h"

/* mpib_step_make() does less for a step that it sees to be plain. */
__attribute__((always_inline)) static inline uint64_t
plain_step(struct engine_conn *f, const struct send_range *e,
	   const struct mpib_cts *cts, unsigned r)
{
	struct mpib_lane_qp *q[MPIB_RAILS] = { NULL };
	uint32_t len = e->len;
	const struct mpib_step s = {
		.from = e->addr,
		.len = len,
		.rail = { r == MPIB_RAIL_SOUT ? len : 0,
			  r == MPIB_RAIL_SUP ? len : 0 },
		.data = mpib_rail_bit(r),
		.imm = mpib_rail_bit(r),
		.ends_message = true,
		.how = { .plain = true },
	};

	if (!mpib_sender_may_begin(f, 1, s.imm) ||
	    !mpib_chain_may_post(f, r, 0, 2, len, true, &q[r]))
		return 0;
	mpib_step_make(f, len, e, cts, &s, q);
	f->tx.cts_next++;
	f->tx.msg++;
	mpib_sender_advance(f);
	mpib_count_messages(f, 1);
	return (uint64_t)len + 1;
}

static inline uint64_t whole_step(struct engine_conn *f,
				  const struct send_range *e,
				  const struct mpib_cts *cts)
{
	uint32_t sup = 0;

	if (f->lane->rails == MPIB_RAILS)
		sup = mpib_split_whole(f, e->len);
	if (!sup)
		return plain_step(f, e, cts, MPIB_RAIL_SOUT);
	if (__builtin_expect(sup != e->len, 0))
		return mpib_cut_step(f, sup);
	return plain_step(f, e, cts, MPIB_RAIL_SUP);
}

/* Post at most one send op: bytes posted + 1, or 0 when nothing can go now. */
static inline uint64_t sender_step(struct engine_conn *f)
{
	const struct send_range *e;
	struct mpib_cts cts;

	/* Also without a queued range: the group may lack room only. */
	if (f->tx.group.n)
		return mpib_group_step(f);
	if (!mpib_sender_has_work(f))
		return 0;
	if (!mpib_sender_next_cts(f, &cts)) {
		mpib_stall(f, MPIB_STALL_CTS);
		return 0;
	}
	e = mpib_kept(mpib_sender_oldest(f));
	if (__builtin_expect(!mpib_step_is_plain(f, e, &cts), 0))
		return mpib_part_step(f);
	return whole_step(f, e, &cts);
}

int mpib_sender_run(struct engine_conn *f, struct mpib_drr_run *run)
{
	uint64_t n = 1;

	f->stopped_by = MPIB_DRR_NONE;
	/* A step neither loses anything nor stops the connection, and one that
	 * breaks it is the last: that is asked once a run. */
	while (__builtin_expect(n && f->tx.lost, 0)) {
		n = mpib_replay_step(f);
		if (n && !mpib_drr_pay(run, n - 1))
			return MPIB_DRR_RAN;
	}
	if (f->broken || f->stopping)
		n = 0;
	while (n) {
		n = sender_step(f);
		if (n && !mpib_drr_pay(run, n - 1))
			return MPIB_DRR_RAN;
	}
	if (!mpib_sender_has_work(f) && f->tx.group.n == 0 && f->tx.lost == 0)
		return MPIB_DRR_IDLE;
	return f->stopped_by;
}
