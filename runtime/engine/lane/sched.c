/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may post next. Flows of a lane take turns by deficit round robin: a flow
 * posts while its credit is positive, pays what it posted, and is given a
 * quantum a round. Lanes take turns plainly. A flow that is alone on its lane
 * never waits for credit.
 */
#include "engine/flow/flow.h"

#define QUANTUM (128 * 1024)
#define DEBT_MAX (8 * QUANTUM) /* one huge piece is not held against it long */
#define PIECES_PER_VISIT 16

static void retire_ready(struct mpib_flow *f)
{
	f->on_ready = false;
	f->tx.deficit = 0;
	TAILQ_REMOVE(&f->lane->ready, f, ready_link);
}

/* Post what the flow's credit allows; how many pieces. */
static int visit(struct mpib_flow *f, bool alone)
{
	int posted = 0;

	while (posted < PIECES_PER_VISIT && (alone || f->tx.deficit > 0)) {
		uint64_t n = mpib_sender_step(f);

		if (n == 0)
			break;
		f->tx.deficit -= (int64_t)(n - 1);
		posted++;
	}
	if (f->tx.deficit < -DEBT_MAX)
		f->tx.deficit = -DEBT_MAX;
	/* Somebody in debt gets his turn in a later round: no time to sleep. */
	return posted + (!alone && f->tx.deficit <= 0 && !f->tx.waiting);
}

static int serve_lane(struct mpib_lane *lane)
{
	struct mpib_flow *f, *next,
		*last = TAILQ_LAST(&lane->ready, mpib_flow_list);
	bool alone = TAILQ_FIRST(&lane->ready) == last;
	int posted = 0;

	for (f = TAILQ_FIRST(&lane->ready); f; f = next) {
		next = f == last ? NULL : TAILQ_NEXT(f, ready_link);
		f->tx.deficit += QUANTUM;
		if (f->tx.deficit > QUANTUM || alone)
			f->tx.deficit = QUANTUM;
		posted += visit(f, alone);
		if (!mpib_sender_has_work(f) && f->tx.group.n == 0 &&
		    f->tx.lost == 0)
			retire_ready(f);
	}
	/* The next round begins with another flow, for the SQ may have filled
	 * before the last one's turn. */
	f = TAILQ_FIRST(&lane->ready);
	if (f && posted) {
		TAILQ_REMOVE(&lane->ready, f, ready_link);
		TAILQ_INSERT_TAIL(&lane->ready, f, ready_link);
	}
	return posted;
}

static int post_cts(struct mpib_shard *s)
{
	struct mpib_flow *f, *next;
	int posted = 0;

	for (f = TAILQ_FIRST(&s->cts); f; f = next) {
		next = TAILQ_NEXT(f, cts_link);
		if (!f->stopping)
			posted += mpib_receiver_post_cts(f);
		if (!f->stopping && !f->broken && f->rx.cts_again != f->rx.next)
			continue; /* the SQ is full, or no rail is open */
		f->on_cts = false;
		TAILQ_REMOVE(&s->cts, f, cts_link);
		if (f->stopping && !f->stopped)
			mpib_flow_check_stopped(f);
	}
	return posted;
}

int mpib_sched_turn(struct mpib_shard *s)
{
	struct mpib_lane *lane, *next;
	int posted = post_cts(s);

	for (lane = TAILQ_FIRST(&s->active); lane; lane = next) {
		next = TAILQ_NEXT(lane, active_link);
		posted += serve_lane(lane);
		if (TAILQ_EMPTY(&lane->ready)) {
			lane->active = false;
			TAILQ_REMOVE(&s->active, lane, active_link);
		}
	}
	return posted;
}
