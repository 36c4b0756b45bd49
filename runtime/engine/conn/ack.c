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

#include "base/kept.h"
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

static inline void ack_off(struct engine_conn_list *list, struct engine_conn *f)
{
	f->on_ack = false;
	TAILQ_REMOVE(list, f, ack_link);
}

void mpib_ack_leave(struct engine_conn *f)
{
	if (f->on_ack)
		ack_off(list_of(f), f);
}

/* Write the end-to-end ack on q, the QP of CTS. False: no room, or its rail is not
 * open. */
static inline bool ack_write(struct engine_conn *f, struct mpib_lane_qp *q,
			     unsigned home)
{
	struct mpib_e2e_ack *d =
		(void *)((char *)f->tables.out + mpib_ack_at(f));

	if (!(f->lane->open & mpib_rail_bit(home)) || !mpib_qp_fits(q, home, 1))
		return false;
	f->rx.acked = d->ended[home] = f->rx.tail;
	/* Each rail has a place of its own in the peer's table: acks on two
	 * rails may overtake each other. */
	mpib_unsignaled_write(f, q, mpib_ack_at(f) + home * sizeof(d->ended[0]),
			      sizeof(d->ended[0]));
	return true;
}

bool mpib_ack_write(struct engine_conn *f)
{
	return !f->lane->delivered || f->rx.acked == f->rx.tail ||
	       ack_write(f, engine_conn_cts_qp(f), engine_conn_home(f));
}

/* About to sleep, or a doorbell on the QP is due anyway, or waited enough. */
static inline bool is_due(const struct engine_conn *f,
			  const struct mpib_lane_qp *q)
{
	const struct mpib_shard *s = f->shard;

	return s->now - f->rx.ack_since >= TELL_NS || q->chain.n || s->settling;
}

/* The receiver, which is on the list, owes an ack, and cannot write it yet. */
static inline bool ack_waits(struct engine_conn *f)
{
	struct mpib_lane_qp *q = mpib_kept(engine_conn_cts_qp(f));

	return !is_due(f, q) || !ack_write(f, q, engine_conn_home(f));
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
			if (ack_waits(f))
				continue;
			acked++;
		}
		ack_off(&s->ack_pending, f);
	}
	return acked;
}
