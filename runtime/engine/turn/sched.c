/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Posting in a turn: CTS first, then send ops of the connections in the order
 * of their DRR classes (lane/drr.h), whatever lane they are on. Shard thread.
 */
#include "base/container.h"
#include "base/crash.h"
#include "engine/conn/conn.h"

#define OPS_PER_TURN 64
/* While tenants share the shard: a short turn yields the core sooner to the
 * ranks and shards on which the next messages depend. */
#define OPS_SHARED 8

/* mpib_drr_run_fn of a connection. */
static int sched_run(struct mpib_drr_class *leaf, struct mpib_drr_run *run)
{
	struct engine_conn *conn = container_of(leaf, struct engine_conn, drr);

	mpib_works_for = conn->client->id;
	return mpib_sender_run(conn, run);
}

static int post_cts(struct mpib_shard *s)
{
	struct engine_conn *f, *next;
	/* A stopping connection without room for its last write queues itself
	 * again: stop at the old tail. */
	struct engine_conn *last = TAILQ_LAST(&s->cts, engine_conn_list);
	int posted = 0;

	for (f = TAILQ_FIRST(&s->cts); f; f = next) {
		next = f == last ? NULL : TAILQ_NEXT(f, cts_link);
		if (!f->stopping)
			posted += mpib_receiver_post_cts(f);
		if (!f->stopping && !f->broken && f->rx.cts_again != f->rx.next)
			continue; /* the SQ is full, or no rail is open */
		f->on_cts = false;
		TAILQ_REMOVE(&s->cts, f, cts_link);
		if (f->stopping && !f->stopped)
			engine_conn_check_stopped(f);
	}
	return posted;
}

int mpib_sched_turn(struct mpib_shard *s)
{
	int posted = TAILQ_EMPTY(&s->cts) ? 0 : post_cts(s);
	struct mpib_drr_turn t;

	if (TAILQ_EMPTY(&s->drrs.active))
		return posted;
	t = (struct mpib_drr_turn){
		.left = mpib_pace_is_shared(&s->pace, s->now) ? OPS_SHARED
							      : OPS_PER_TURN,
		.now_ns = s->now,
		.wake_ns = UINT64_MAX,
		.run = sched_run,
	};
	s->full = 0;
	s->contended = mpib_drr_contended(&s->drrs);
	mpib_drr_round(&s->drrs, &t);
	s->drr_wake_ns = t.wake_ns;
	s->unseen = t.unseen;
	/* A class in debt can post in a later round: do not sleep. */
	return posted + (int)t.posted + t.in_debt;
}

int mpib_sched_sleep_ms(const struct mpib_shard *s, int most)
{
	uint64_t ms = (s->drr_wake_ns - s->now) / 1000000 + 1;

	/* CTS and end-to-end acks are plain writes, which raise no event here
	 * except with the software HCA, whose socket wakes the shard: look
	 * every millisecond. */
	if (s->drrs.children > 0 || !TAILQ_EMPTY(&s->waiting))
		most = 1;
	return ms < (uint64_t)most ? (int)ms : most;
}
