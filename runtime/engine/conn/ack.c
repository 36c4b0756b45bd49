/* SPDX-License-Identifier: Apache-2.0 */
/*
 * End-to-end acks: a receiver tells its sender up to which slot all has ended.
 * A CTS carries the ack at no cost. When no CTS is posted in time, the ack is
 * written alone, by preference in a turn whose doorbell on that QP is due
 * anyway. Shard thread, both ends.
 *
 * A completion of the sender's WR says only that the peer's device has taken
 * the bytes. The end-to-end ack says that the receiver's shard has seen them,
 * so that no fence can lose them any more.
 */
#include <errno.h>
#include <mpib/wire.h>

#include "engine/conn/conn.h"

/* How long an ack waits for a CTS to go with: long enough for a client that
 * answers a message to post its next receive. With 3 us instead of 20 us, a
 * ping-pong of 8 bytes took a quarter more time. */
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

/* Where the end-to-end acks lie in either table. */
static size_t ack_at(const struct engine_conn *f)
{
	return f->slots * sizeof(struct mpib_cts);
}

bool mpib_ack_write(struct engine_conn *f)
{
	struct mpib_e2e_ack *d = (void *)((char *)f->tables.out + ack_at(f));
	unsigned home = engine_conn_home(f);

	if (!f->lane->delivered || f->rx.acked == f->rx.tail)
		return true;
	if (!(f->lane->open & mpib_rail_bit(home)) ||
	    mpib_qp_room(engine_conn_cts_qp(f)) == 0)
		return false;
	f->rx.acked = d->ended[home] = f->rx.tail;
	/* Each rail has a place of its own in the peer's table: acks on two
	 * rails may overtake each other. */
	mpib_unsignaled_write(f, ack_at(f) + home * sizeof(d->ended[0]),
			      sizeof(d->ended[0]));
	return true;
}

/* About to sleep, or a doorbell on the QP is due anyway, or waited enough. */
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
		/* A stopping connection writes its ack in post_fences(). */
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

/* The largest ack that the peer wrote: alone, or in a CTS that came since the
 * last look. */
static uint64_t ack_newest(struct engine_conn *f)
{
	const struct mpib_e2e_ack *d =
		(const void *)((const char *)f->tables.in + ack_at(f));
	const struct mpib_cts *cts = f->tables.in;
	struct mpib_sender *tx = &f->tx;
	uint64_t acked = tx->acked;

	/* Either rail's place is there, that of a rail which the lane lacks stays
	 * 0. */
#pragma GCC unroll 2
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		/* Acquire: the peer's RDMA wrote it; no other read needs it. */
		uint64_t word = __atomic_load_n(&d->ended[r], __ATOMIC_ACQUIRE);

		if (word > acked)
			acked = word;
	}
	if (tx->cts_seen < tx->cts_next)
		tx->cts_seen = tx->cts_next; /* mpib_sender_cts() took theirs */
	for (;; tx->cts_seen++) {
		const struct mpib_cts *c = &cts[mpib_entry_of(f, tx->cts_seen)];

		/* Acquire: seq is placed last, see mpib_sender_cts(). */
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

	/* The ack may be ahead of cts_next: by slots that the receiver
	 * cancelled because their message ended earlier. */
	if (acked > f->tx.cts_next + f->slots) {
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
