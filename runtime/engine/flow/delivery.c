/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delivery words: a receiver tells its sender which slots have ended. A
 * clear-to-send carries the word for nothing. Where none goes out in time the
 * word is written alone, if need be, in front of what leaves on its QP anyway.
 *
 * An acknowledgement says only that the peer's device has taken a request. The
 * word says that its shard has seen it, and that no fence will ask for it again.
 */
#include <errno.h>
#include <mpib/wire.h>

#include "engine/flow/flow.h"

/* So long a word waits for something to go with: long enough for a client that
 * answers a message to post its next receive, whose clear-to-send has it. After
 * 3 us, 8 bytes back and forth took a quarter more time. */
#define TELL_NS 20000u

static struct mpib_flow_list *list_of(const struct mpib_flow *f)
{
	return f->is_sender ? &f->shard->waiting : &f->shard->owing;
}

void mpib_delivery_enter(struct mpib_flow *f)
{
	if (!f->is_sender)
		f->rx.owed_since = f->shard->now;
	f->on_delivery = true;
	TAILQ_INSERT_TAIL(list_of(f), f, delivery_link);
}

void mpib_delivery_leave(struct mpib_flow *f)
{
	if (!f->on_delivery)
		return;
	f->on_delivery = false;
	TAILQ_REMOVE(list_of(f), f, delivery_link);
}

bool mpib_delivery_tell(struct mpib_flow *f)
{
	struct mpib_delivery *d =
		(void *)((char *)f->tables.out + MPIB_TABLE_WORDS);
	unsigned home = mpib_flow_home(f);

	if (!f->lane->delivered || f->rx.told == f->rx.tail)
		return true;
	if (!(f->lane->open & 1u << home) ||
	    mpib_qp_room(mpib_flow_cts_qp(f)) == 0)
		return false;
	f->rx.told = d->ended[home] = f->rx.tail;
	/* A place for each rail: of two that are under way the older one may
	 * come last. */
	mpib_quiet_write(f, MPIB_TABLE_WORDS + home * sizeof(d->ended[0]),
			 sizeof(d->ended[0]));
	return true;
}

static bool is_due(struct mpib_flow *f)
{
	const struct mpib_shard *s = f->shard;

	return s->settling || mpib_flow_cts_qp(f)->chain.n ||
	       s->now - f->rx.owed_since >= TELL_NS;
}

int mpib_delivery_tell_turn(struct mpib_shard *s)
{
	struct mpib_flow *f, *next;
	int told = 0;

	for (f = TAILQ_FIRST(&s->owing); f; f = next) {
		next = TAILQ_NEXT(f, delivery_link);
		/* One that stops tells it with its last writes. */
		if (f->rx.told != f->rx.tail && !f->stopping &&
		    !f->lane->broken) {
			if (!is_due(f) || !mpib_delivery_tell(f))
				continue;
			told++;
		}
		mpib_delivery_leave(f);
	}
	return told;
}

/* The newest word that the peer wrote alone, and those of CTS that came since
 * the last look. */
static uint64_t newest(struct mpib_flow *f)
{
	const struct mpib_delivery *d =
		(const void *)((const char *)f->tables.in + MPIB_TABLE_WORDS);
	const struct mpib_cts *cts = f->tables.in;
	struct mpib_sender *tx = &f->tx;
	uint64_t told = tx->told;

	for (unsigned r = 0; r < f->lane->rails; r++) {
		/* Acquire: the rail's; nothing else is read by it. */
		uint64_t word = __atomic_load_n(&d->ended[r], __ATOMIC_ACQUIRE);

		if (word > told)
			told = word;
	}
	if (tx->cts_seen < tx->cts_next)
		tx->cts_seen = tx->cts_next; /* the word was read with them */
	for (;; tx->cts_seen++) {
		const struct mpib_cts *c = &cts[tx->cts_seen % MPIB_SLOTS];

		/* Acquire: as mpib_sender_cts(). */
		if (__atomic_load_n(&c->seq, __ATOMIC_ACQUIRE) !=
		    tx->cts_seen + 1)
			return told;
		if (c->ended > told)
			told = c->ended;
	}
}

int mpib_delivery_look(struct mpib_flow *f)
{
	uint64_t told = newest(f);

	/* It may be ahead of us by parts of a message that ended. */
	if (told > f->tx.cts_next + MPIB_SLOTS) {
		mpib_flow_break(f, -EPROTO,
				"peer %s claims to have what was not sent",
				f->lane->peer);
		return 1;
	}
	f->tx.told = told;
	return mpib_sender_retire(f);
}

int mpib_delivery_look_turn(struct mpib_shard *s)
{
	struct mpib_flow *f, *next;
	int ended = 0;

	for (f = TAILQ_FIRST(&s->waiting); f; f = next) {
		next = TAILQ_NEXT(f, delivery_link);
		ended += mpib_delivery_look(f);
		if (mpib_sender_quiet(f))
			mpib_delivery_leave(f);
	}
	return ended;
}
