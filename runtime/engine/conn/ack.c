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

#include "engine/conn/conn.h"

/* So long a word waits for something to go with: long enough for a client that
 * answers a message to post its next receive, whose clear-to-send has it. After
 * 3 us, 8 bytes back and forth took a quarter more time. */
#define TELL_NS 20000u

static struct engine_conn_list *list_of(const struct engine_conn *f)
{
	return f->is_sender ? &f->shard->waiting : &f->shard->ack_pending;
}

void mpib_ack_enter(struct engine_conn *f)
{
	if (!f->is_sender)
		f->rx.ack_since = f->shard->now;
	f->on_ack = true;
	TAILQ_INSERT_TAIL(list_of(f), f, ack_link);
}

void mpib_ack_leave(struct engine_conn *f)
{
	if (!f->on_ack)
		return;
	f->on_ack = false;
	TAILQ_REMOVE(list_of(f), f, ack_link);
}

bool mpib_ack_write(struct engine_conn *f)
{
	struct mpib_e2e_ack *d =
		(void *)((char *)f->tables.out + MPIB_TABLE_WORDS);
	unsigned home = engine_conn_home(f);

	if (!f->lane->delivered || f->rx.acked == f->rx.tail)
		return true;
	if (!(f->lane->open & 1u << home) ||
	    mpib_qp_room(engine_conn_cts_qp(f)) == 0)
		return false;
	f->rx.acked = d->ended[home] = f->rx.tail;
	/* A place for each rail: of two that are under way the older one may
	 * come last. */
	mpib_unsignaled_write(f, MPIB_TABLE_WORDS + home * sizeof(d->ended[0]),
			      sizeof(d->ended[0]));
	return true;
}

static bool is_due(struct engine_conn *f)
{
	const struct mpib_shard *s = f->shard;

	return s->settling || engine_conn_cts_qp(f)->chain.n ||
	       s->now - f->rx.ack_since >= TELL_NS;
}

int mpib_ack_write_turn(struct mpib_shard *s)
{
	struct engine_conn *f, *next;
	int acked = 0;

	for (f = TAILQ_FIRST(&s->ack_pending); f; f = next) {
		next = TAILQ_NEXT(f, ack_link);
		/* One that stops tells it with its last writes. */
		if (f->rx.acked != f->rx.tail && !f->stopping &&
		    !f->lane->broken) {
			if (!is_due(f) || !mpib_ack_write(f))
				continue;
			acked++;
		}
		mpib_ack_leave(f);
	}
	return acked;
}

/* The newest word that the peer wrote alone, and those of CTS that came since
 * the last look. */
static uint64_t ack_newest(struct engine_conn *f)
{
	const struct mpib_e2e_ack *d =
		(const void *)((const char *)f->tables.in + MPIB_TABLE_WORDS);
	const struct mpib_cts *cts = f->tables.in;
	struct mpib_sender *tx = &f->tx;
	uint64_t acked = tx->acked;

	for (unsigned r = 0; r < f->lane->rails; r++) {
		/* Acquire: the rail's; nothing else is read by it. */
		uint64_t word = __atomic_load_n(&d->ended[r], __ATOMIC_ACQUIRE);

		if (word > acked)
			acked = word;
	}
	if (tx->cts_seen < tx->cts_next)
		tx->cts_seen = tx->cts_next; /* the word was read with them */
	for (;; tx->cts_seen++) {
		const struct mpib_cts *c = &cts[tx->cts_seen % MPIB_SLOTS];

		/* Acquire: as mpib_sender_cts(). */
		if (__atomic_load_n(&c->seq, __ATOMIC_ACQUIRE) !=
		    tx->cts_seen + 1)
			return acked;
		if (c->ended > acked)
			acked = c->ended;
	}
}

int mpib_ack_read(struct engine_conn *f)
{
	uint64_t acked = ack_newest(f);

	/* It may be ahead of us by parts of a message that ended. */
	if (acked > f->tx.cts_next + MPIB_SLOTS) {
		engine_conn_break(f, -EPROTO,
				  "peer %s claims to have what was not sent",
				  f->lane->peer);
		return 1;
	}
	f->tx.acked = acked;
	return mpib_sender_retire(f);
}

int mpib_ack_read_turn(struct mpib_shard *s)
{
	struct engine_conn *f, *next;
	int ended = 0;

	for (f = TAILQ_FIRST(&s->waiting); f; f = next) {
		next = TAILQ_NEXT(f, ack_link);
		ended += mpib_ack_read(f);
		if (mpib_sender_idle(f))
			mpib_ack_leave(f);
	}
	return ended;
}
