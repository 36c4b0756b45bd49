/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may post next: flows with something to send are served by their claims
 * (claim.h), whatever lane they are on.
 *
 * Order decides nothing once bytes wait in send queues and sockets, where each
 * QP has the same turn. So where tenants compete, or weights differ, a rail is
 * given only so much at once (share.window), and the room that a completion
 * makes is that of whose turn it is. Elsewhere lanes have only their own
 * windows, and no lane waits for another.
 */
#include "engine/flow/flow.h"

#define PIECES_PER_TURN 64
#define LOOK_NS 1000000ull
#define LOOKS 20

static struct mpib_flow *flow_of(struct mpib_claim *leaf)
{
	return (struct mpib_flow *)((char *)leaf -
				    offsetof(struct mpib_flow, claim));
}

static int64_t step(struct mpib_claim *leaf)
{
	struct mpib_flow *f = flow_of(leaf);
	uint64_t n;

	f->stopped_by = MPIB_CLAIM_NONE;
	n = mpib_sender_step(f);
	if (n > 0)
		return (int64_t)n;
	if (!mpib_sender_has_work(f) && f->tx.group.n == 0 && f->tx.lost == 0)
		return MPIB_CLAIM_REST;
	return f->stopped_by;
}

/* A lane is parked when it acknowledged nothing at so many looks, and for four
 * times its round trip. Looks, not time: if the process stood still, no lane is
 * to blame. */
static bool is_parked(struct mpib_lane *lane, unsigned r)
{
	const struct mpib_tracker *t = &lane->track[r];
	uint64_t usual = 4 * t->srtt / LOOK_NS;

	if (t->inflight == 0 || t->acked != lane->looked[r].acked)
		lane->looked[r].times = 0;
	lane->looked[r].acked = t->acked;
	return ++lane->looked[r].times > (usual > LOOKS ? usual : LOOKS);
}

/* Bytes on lanes that do not move: others need not wait for those. */
static uint64_t parked(struct mpib_shard *s, unsigned r)
{
	struct mpib_lane *lane;
	uint64_t bytes = 0;

	TAILQ_FOREACH(lane, &s->lanes, link)
	{
		if (is_parked(lane, r))
			bytes += lane->track[r].inflight;
	}
	return bytes;
}

static bool is_full(struct mpib_shard *s, unsigned r)
{
	const struct mpib_engine_config *cfg = &s->engine->cfg;
	struct mpib_rail *rail = &s->rail[r];
	uint32_t window = __atomic_load_n(&cfg->share_window, __ATOMIC_RELAXED);

	/* One piece may be beyond it, so that any size passes. */
	if (window == 0 || rail->inflight < window)
		return false;
	if (s->now - rail->parked_ns > LOOK_NS) {
		rail->parked = parked(s, r);
		rail->parked_ns = s->now;
	}
	return rail->inflight >= rail->parked + window;
}

bool mpib_sched_may(struct mpib_flow *f, unsigned rail)
{
	struct mpib_shard *s = f->shard;
	uint8_t bit = (uint8_t)(1u << rail);

	if (s->full & bit || is_full(s, rail)) {
		s->full |= bit;
		f->stopped_by = MPIB_CLAIM_SHUT;
	} else if (f->lane->full_turn == s->n.turns) {
		f->stopped_by = MPIB_CLAIM_KEEP;
	}
	return f->stopped_by == MPIB_CLAIM_NONE;
}

void mpib_sched_no_room(struct mpib_flow *f)
{
	f->stopped_by = MPIB_CLAIM_KEEP;
	f->lane->full_turn = f->shard->n.turns;
}

static int post_cts(struct mpib_shard *s)
{
	struct mpib_flow *f, *next;
	/* Who stops and finds no room for his fence goes to the end again. */
	struct mpib_flow *last = TAILQ_LAST(&s->cts, mpib_flow_list);
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
			mpib_flow_check_stopped(f);
	}
	return posted;
}

int mpib_sched_turn(struct mpib_shard *s)
{
	struct mpib_claim_turn t = {
		.left = PIECES_PER_TURN,
		.now_ns = s->now,
		.wake_ns = UINT64_MAX,
		.step = step,
	};
	int posted = post_cts(s);

	s->full = 0;
	s->contended = mpib_claim_contended(&s->claims);
	mpib_claim_round(&s->claims, &t);
	s->claim_wake_ns = t.wake_ns;
	/* Somebody in debt gets his turn in a later round: no time to sleep. */
	return posted + (int)t.posted + t.owing;
}

int mpib_sched_sleep_ms(const struct mpib_shard *s, int most)
{
	uint64_t ms = (s->claim_wake_ns - s->now) / 1000000 + 1;

	/* A word is a plain write, which may come without an event. */
	if (!TAILQ_EMPTY(&s->waiting))
		most = 1;
	return ms < (uint64_t)most ? (int)ms : most;
}
