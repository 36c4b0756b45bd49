/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading descriptors from the clients' submission rings. A client's summary
 * bitmap tells which rings have descriptors, so idle connections cost nothing.
 * A ring that a turn did not empty is on its tenant's list. But if the
 * connection has no room for the descriptors, the ring is parked: a user may
 * have very many such rings. A turn reads a limited number of descriptors per
 * tenant, from rings on the list and from rings in the summaries. Shard thread.
 */
#include <errno.h>
#include <string.h>

#include "base/crash.h"
#include "engine/conn/request.h"

#define PER_RING 32
/* Maximum of descriptors read, and of rings checked, per tenant and turn. A
 * turn posts far fewer send ops. */
#define PER_TENANT 256

void mpib_submit_remember(struct engine_conn *f)
{
	struct mpib_tenant *t = f->client->tenant;

	f->parked = false;
	if (f->on_submit)
		return;
	f->on_submit = true;
	if (TAILQ_EMPTY(&t->submitting))
		TAILQ_INSERT_TAIL(&f->shard->submitting, t, submit_link);
	TAILQ_INSERT_TAIL(&t->submitting, f, submit_link);
}

void mpib_submit_forget(struct engine_conn *f)
{
	struct mpib_tenant *t = f->client->tenant;

	f->parked = false;
	if (!f->on_submit)
		return;
	f->on_submit = false;
	TAILQ_REMOVE(&t->submitting, f, submit_link);
	if (TAILQ_EMPTY(&t->submitting))
		TAILQ_REMOVE(&f->shard->submitting, t, submit_link);
}

/* Turning a sender's descriptor into a send range. */

/* Return whether the descriptor is a valid send. */
static inline bool is_send(const struct mpib_desc *d)
{
	uint32_t head; /* op, req, idx and n */

	memcpy(&head, d, sizeof(head));
	return (head & ~(MPIB_OP_REPORT | MPIB_OP_AT_ONCE |
			 (MPIB_REQUESTS - 1) << 8)) ==
		       (MPIB_OP_SEND | 1u << 24) &&
	       d->gen != 0 && d->total <= MPIB_SIZE_MAX &&
	       ((d->pos == 0 && d->len == d->total) ||
		((uint64_t)d->pos + d->len <= d->total && d->len > 0));
}

/* Make a send range from the descriptor. 1: accepted; -errno: an invalid
 * descriptor. Check submit_room() first. */
static inline int take_send(struct engine_conn *f, const struct mpib_desc *d)
{
	struct mpib_sender *tx = &f->tx;
	struct send_range *e =
		mpib_kept(&tx->range[tx->range_head % SEND_RANGES]);
	struct engine_request *r;
	int rc;

	if (!is_send(d))
		return -EINVAL;
	r = &f->req[d->req];
	if (d->pos > 0 && r->gen == d->gen && (!r->active || r->refused)) {
		/* Drop a part of a failed request. Let the client reuse the
		 * memory of the part, because other requests of the group may
		 * need that memory. The refused send ends only when those
		 * requests end. */
		engine_conn_progress(f, d->req, d->pos + d->len);
		return 1;
	}
	rc = engine_conn_feed(f, d, NULL);
	if (rc == 0)
		rc = engine_conn_hold(f, d, &e->mr, &e->addr);
	if (rc < 0)
		return rc;
	e->req = d->req;
	e->tag = d->tag;
	e->len = d->len;
	e->pos = d->pos;
	if (d->tag >= 0)
		f->rank = d->tag;
	tx->range_head++;
	return 1;
}

_Static_assert((MPIB_REQUESTS & (MPIB_REQUESTS - 1)) == 0,
	       "for the mask above");

static bool submit_room(const struct engine_conn *f)
{
	return f->is_sender ? f->tx.range_head - f->tx.range_tail < SEND_RANGES
			    : mpib_receiver_room(f);
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

/* Read up to PER_RING descriptors from one ring. Return their number. */
static int submit_serve(struct engine_conn *f)
{
	struct mpib_desc d;
	int taken = 0, rc;

	while (taken < PER_RING && submit_room(f) &&
	       mpib_ring_pop(&f->ring, &d)) {
		taken++;
		rc = f->is_sender ? take_send(f, &d)
				  : mpib_receiver_take(f, &d);
		if (rc < 0) {
			submit_refuse(f, rc, &d);
			break;
		}
	}
	if (taken)
		mpib_ring_publish(&f->ring);
	if (f->state != ENGINE_CONN_OPEN)
		return taken;
	if (taken == PER_RING || !submit_room(f)) {
		mpib_submit_remember(f);
	} else if (mpib_ring_jumped(&f->ring)) {
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

/* Serve the flushes in a ring that is parked because no slot is free for its
 * next receive. */
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

/* Serve some rings of a client: those with a set bit in `bits`. The client sets
 * these bits in its summary when it pushes descriptors; `bits` is word number
 * `word` of the summary. */
static int serve_named(struct engine_client *a, unsigned word, uint64_t bits)
{
	struct mpib_tenant *t = a->tenant;
	int taken = 0;

	t->named += !bits;
	while (bits) {
		unsigned bit = (unsigned)__builtin_ctzll(bits);
		struct engine_conn *f = a->conn[word * 64 + bit];
		int n = 0;

		bits &= bits - 1;
		t->named++;
		if (!f || f->state != ENGINE_CONN_OPEN || f->on_submit)
			continue;
		if (t->named > PER_TENANT)
			mpib_submit_remember(f);
		else if (!f->parked)
			n = submit_serve(f);
		else if (!f->is_sender)
			n = submit_early(f);
		t->named += (unsigned)n;
		taken += n;
	}
	return taken;
}

/* Return whether to serve the client in this turn. If the tenant reached its
 * limit in the last turn, serve the clients that were left out in that turn
 * first. */
static bool submit_may(const struct engine_client *a)
{
	struct mpib_tenant *t = a->tenant;

	if (t->named_turn != a->shard->n.turns) {
		if (t->named < PER_TENANT)
			t->named_from = 0;
		t->named = 0;
		t->named_turn = a->shard->n.turns;
	}
	return t->named < PER_TENANT && a->id >= t->named_from;
}

/* Stop serving a tenant that has reached its limit of this turn. `words` has a
 * bit for each summary word that remains for the next turn. */
__attribute__((noinline)) static void submit_leave(struct engine_client *a,
						   uint64_t words)
{
	struct mpib_tenant *t = a->tenant;

	t->named_from = (uint64_t)a->id + (a->id == t->named_from);
	atomic_fetch_or(&a->submit->summary.top, words);
}

int mpib_submit_client(struct engine_client *a)
{
	struct mpib_summary *sum = &a->submit->summary;
	const struct mpib_tenant *t = a->tenant;
	struct mpib_shard *s = a->shard;
	uint64_t words,
		from = UINT64_MAX << s->n.turns % (MPIB_INDEXES_MAX / 64);
	int taken = 0;

	mpib_works_for = a->id;
	mpib_pace_serve(&s->pace, t, s->now);
	if (!submit_may(a))
		return 1;
	words = atomic_exchange(&sum->top, 0);
	words &= (1ull << (MPIB_INDEXES_MAX / 64)) - 1;
	while (words && t->named < PER_TENANT) {
		unsigned w = (unsigned)__builtin_ctzll(
			words & from ? words & from : words);

		words &= ~(1ull << w);
		taken += serve_named(a, w, atomic_exchange(&sum->word[w], 0));
	}
	if (t->named >= PER_TENANT)
		submit_leave(a, words);
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

/* Serve each ring on the tenant's list once. Stop at the tail that the list had
 * at the start, because a ring that is not emptied is queued again. */
static int serve_tenant(struct mpib_tenant *t)
{
	const struct engine_conn *last =
		TAILQ_LAST(&t->submitting, engine_conn_list);
	struct engine_conn *f;
	int taken = 0, looks = 0;

	do {
		f = TAILQ_FIRST(&t->submitting);
		mpib_submit_forget(f);
		looks++;
		if (!submit_room(f)) {
			taken += submit_park(f);
			continue;
		}
		if (f->stall == MPIB_STALL_SLOT)
			mpib_unstall(f);
		mpib_works_for = f->client->id;
		taken += submit_serve(f);
	} while (f != last && taken + looks < PER_TENANT);
	return taken + !TAILQ_EMPTY(&t->submitting);
}

int mpib_submit_remembered(struct mpib_shard *s)
{
	const struct mpib_tenant *last =
		TAILQ_LAST(&s->submitting, mpib_tenant_list);
	struct mpib_tenant *t, *next;
	int taken = 0;

	for (t = TAILQ_FIRST(&s->submitting); t; t = next) {
		next = t == last ? NULL : TAILQ_NEXT(t, submit_link);
		taken += serve_tenant(t);
	}
	return taken;
}
