/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors out of the submission rings. The summary bitmap names the rings
 * that have any, so idle connections cost nothing; a ring that could not be
 * emptied is remembered on shard->intake.
 */
#include <errno.h>

#include "engine/measure/count.h"

#define PER_RING 32

static void remember(struct mpib_flow *f)
{
	if (f->on_intake)
		return;
	f->on_intake = true;
	TAILQ_INSERT_TAIL(&f->shard->intake, f, intake_link);
}

static bool room(const struct mpib_flow *f)
{
	return f->is_sender ? mpib_sender_room(f) : mpib_receiver_room(f);
}

/* Take what one ring has, within a bound. How many descriptors. */
static int serve(struct mpib_flow *f)
{
	struct mpib_desc d;
	int taken = 0, rc;

	while (taken < PER_RING && room(f) && mpib_ring_pop(&f->ring, &d)) {
		taken++;
		rc = f->is_sender ? mpib_sender_take(f, &d)
				  : mpib_receiver_take(f, &d);
		if (rc < 0) {
			mpib_flow_break(f, rc,
					"client's descriptor is refused: op %u "
					"req %u off %llu len %u of %u",
					d.op, d.req, (unsigned long long)d.off,
					d.len, d.total);
			break;
		}
	}
	if (taken)
		mpib_ring_publish(&f->ring);
	if (f->broken)
		return taken;
	if (taken == PER_RING || !room(f)) {
		remember(f);
	} else if (__builtin_expect(mpib_ring_jumped(&f->ring), 0)) {
		mpib_flow_break(f, -EPROTO,
				"client's ring has an index that cannot be "
				"right, at descriptor %llu",
				(unsigned long long)f->ring.next);
		return taken;
	}
	if (taken && f->is_sender)
		mpib_flow_make_ready(f);
	return taken;
}

static int serve_named(struct mpib_attachment *a, unsigned word, uint64_t bits)
{
	int taken = 0;

	while (bits) {
		unsigned bit = (unsigned)__builtin_ctzll(bits);
		struct mpib_flow *f = a->flow[word * 64 + bit];

		bits &= bits - 1;
		if (f && !f->broken && !f->stopping && !f->on_intake)
			taken += serve(f);
	}
	return taken;
}

static int serve_client(struct mpib_attachment *a)
{
	struct mpib_summary *sum = &a->submit->summary;
	uint64_t words;
	int taken = 0;

	if (!mpib_summary_any(sum))
		return 0;
	mpib_pace_serve(&a->shard->pace, a->tenant, a->shard->now);
	words = atomic_exchange(&sum->top, 0);
	words &= (1ull << (MPIB_CONNS_MAX / 64)) - 1;
	while (words) {
		unsigned w = (unsigned)__builtin_ctzll(words);

		words &= words - 1;
		taken += serve_named(a, w, atomic_exchange(&sum->word[w], 0));
	}
	return taken + 1;
}

static int serve_remembered(struct mpib_shard *s)
{
	struct mpib_flow *f, *next,
		*last = TAILQ_LAST(&s->intake, mpib_flow_list);
	int taken = 0;

	for (f = TAILQ_FIRST(&s->intake); f; f = next) {
		next = f == last ? NULL : TAILQ_NEXT(f, intake_link);
		if (!room(f)) {
			if (!f->is_sender)
				mpib_stall(f, MPIB_STALL_SLOT);
			continue;
		}
		f->on_intake = false;
		TAILQ_REMOVE(&s->intake, f, intake_link);
		if (f->stall == MPIB_STALL_SLOT)
			mpib_unstall(f);
		taken += serve(f);
	}
	return taken;
}

int mpib_intake_turn(struct mpib_shard *s)
{
	struct mpib_attachment *a;
	int taken = serve_remembered(s);

	TAILQ_FOREACH(a, &s->attachments, link)
	taken += serve_client(a);
	return taken;
}
