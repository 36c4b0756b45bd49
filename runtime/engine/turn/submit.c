/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes descriptors out of the clients' submission rings. A client's summary
 * bitmap names the rings that have any, so idle connections cost nothing; a
 * ring that could not be emptied is on shard->submitting, or parked until there is
 * room: a user may have very many that wait for it. Shard thread.
 */
#include <errno.h>

#include "engine/conn/take.h"

#define PER_RING 32

void mpib_submit_remember(struct engine_conn *f)
{
	f->parked = false;
	if (f->on_submit)
		return;
	f->on_submit = true;
	TAILQ_INSERT_TAIL(&f->shard->submitting, f, submit_link);
}

static bool submit_room(const struct engine_conn *f)
{
	return f->is_sender ? mpib_sender_room(f) : mpib_receiver_room(f);
}

static void submit_refuse(struct engine_conn *f, int error,
			  const struct mpib_desc *d)
{
	engine_conn_break(f, error,
			  "client's descriptor is refused: op %u req %u off "
			  "%llu len %u of %u",
			  d->op, d->req, (unsigned long long)d->off, d->len,
			  d->total);
}

/* Take up to PER_RING descriptors out of one ring; how many. */
static int submit_serve(struct engine_conn *f)
{
	struct mpib_desc d;
	int taken = 0, rc;

	while (taken < PER_RING && submit_room(f) &&
	       mpib_ring_pop(&f->ring, &d)) {
		taken++;
		rc = f->is_sender ? mpib_sender_take(f, &d)
				  : mpib_receiver_take(f, &d);
		if (rc < 0) {
			submit_refuse(f, rc, &d);
			break;
		}
	}
	if (taken)
		mpib_ring_publish(&f->ring);
	if (f->broken)
		return taken;
	if (taken == PER_RING || !submit_room(f)) {
		mpib_submit_remember(f);
	} else if (__builtin_expect(mpib_ring_jumped(&f->ring), 0)) {
		engine_conn_break(f, -EPROTO,
				  "client's ring has an index that cannot be "
				  "right, at descriptor %llu",
				  (unsigned long long)f->ring.next);
		return taken;
	}
	if (taken && f->is_sender)
		engine_conn_make_ready(f);
	return taken;
}

/* Of a ring whose next receive has no slot. */
static int submit_early(struct engine_conn *f)
{
	struct mpib_desc d;
	int taken = 0, rc;

	while ((rc = mpib_flush_early(f, &d)) > 0)
		taken++;
	if (rc < 0)
		submit_refuse(f, rc, &d);
	return taken;
}

/* bits: rings of the client that word number word of its summary names. */
static int serve_named(struct engine_client *a, unsigned word, uint64_t bits)
{
	int taken = 0;

	while (bits) {
		unsigned bit = (unsigned)__builtin_ctzll(bits);
		struct engine_conn *f = a->conn[word * 64 + bit];

		bits &= bits - 1;
		if (!f || f->broken || f->stopping || f->on_submit)
			continue;
		if (!f->parked)
			taken += submit_serve(f);
		else if (!f->is_sender)
			taken += submit_early(f);
	}
	return taken;
}

/* Apart from mpib_submit_poll(), which mostly finds nothing. */
__attribute__((noinline)) static int serve_client(struct engine_client *a)
{
	struct mpib_summary *sum = &a->submit->summary;
	uint64_t words;
	int taken = 0;

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

static int submit_park(struct engine_conn *f)
{
	f->parked = true;
	if (f->is_sender)
		return 0;
	mpib_stall(f, MPIB_STALL_SLOT);
	return submit_early(f);
}

/* Serve each ring on shard->submitting once: stop at the old tail, for a ring
 * that is not emptied is queued again. */
__attribute__((noinline)) static int serve_remembered(struct mpib_shard *s)
{
	struct engine_conn *f, *next,
		*last = TAILQ_LAST(&s->submitting, engine_conn_list);
	int taken = 0;

	for (f = TAILQ_FIRST(&s->submitting); f; f = next) {
		next = f == last ? NULL : TAILQ_NEXT(f, submit_link);
		f->on_submit = false;
		TAILQ_REMOVE(&s->submitting, f, submit_link);
		if (!submit_room(f)) {
			taken += submit_park(f);
			continue;
		}
		if (f->stall == MPIB_STALL_SLOT)
			mpib_unstall(f);
		taken += submit_serve(f);
	}
	return taken;
}

int mpib_submit_poll(struct mpib_shard *s)
{
	struct engine_client *a;
	int taken = TAILQ_EMPTY(&s->submitting) ? 0 : serve_remembered(s);

	TAILQ_FOREACH(a, &s->clients, link)
	{
		if (mpib_summary_any(&a->submit->summary))
			taken += serve_client(a);
	}
	return taken;
}
