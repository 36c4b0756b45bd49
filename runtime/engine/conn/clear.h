/* SPDX-License-Identifier: Apache-2.0 */
/* How the sending end reads its table of CTS. Shard thread. */
#ifndef MPIB_ENGINE_CONN_CLEAR_H
#define MPIB_ENGINE_CONN_CLEAR_H

#include <mpib/wire.h>
#include <stdatomic.h>

#include "engine/conn/conn.h"

/* Return whether the fields of a CTS fit together: a peer's proxy is checked
 * like any other source of input. */
static inline bool mpib_cts_sane(const struct mpib_cts *c)
{
	return c->total <= MPIB_SIZE_MAX &&
	       (uint64_t)c->pos + c->len <= c->total &&
	       ((c->n | (uint32_t)c->idx << 16) == 1 ||
		(c->n >= 1 && c->n <= MPIB_GROUP_MAX && c->idx < c->n &&
		 c->len == c->total));
}

/* Copy the CTS of the slot. False: it has not arrived. */
static inline bool mpib_cts_copy(const struct engine_conn *f, uint64_t slot,
				 struct mpib_cts *cts)
{
	const struct mpib_cts *entry = f->tables.in;

	entry += mpib_entry_of(f, slot);
	/* Acquire: the device writes seq last, after the rest of the entry. */
	if (__atomic_load_n(&entry->seq, __ATOMIC_ACQUIRE) != slot + 1)
		return false;
	*cts = *entry;
	/* Use exactly what was checked: the peer can write the entry, so the
	 * compiler must not read it a second time. */
	atomic_signal_fence(memory_order_seq_cst);
	return true;
}

/* send_op.c: break the connection. */
void mpib_ack_bad(struct engine_conn *f);

/* Take an ack: all slots below ended have ended at the receiver. False: a
 * correct receiver does not send it, and the connection is broken. */
static inline bool mpib_ack_take(struct engine_conn *f, uint64_t ended)
{
	if (ended <= f->tx.acked)
		return true;
	/* The ack may be ahead of cts_next, by slots that the receiver
	 * cancelled because their message ended earlier. */
	if (__builtin_expect(ended > f->tx.cts_next + f->slots, 0)) {
		mpib_ack_bad(f);
		return false;
	}
	f->tx.acked = ended;
	return true;
}

/* Copy the CTS of the slot and take the ack that it carries. False: it has not
 * arrived, or the ack is invalid. */
static inline bool mpib_sender_cts(struct engine_conn *f, uint64_t slot,
				   struct mpib_cts *cts)
{
	return mpib_cts_copy(f, slot, cts) && mpib_ack_take(f, cts->ended);
}

/* sender.c: break the connection. */
void mpib_sender_bad_cts(struct engine_conn *f);

/* Get the CTS for the current message; skips CTS of messages that ended before
 * their last part. */
static inline bool mpib_sender_next_cts(struct engine_conn *f,
					struct mpib_cts *cts)
{
	struct mpib_sender *tx = &f->tx;

	while (mpib_sender_cts(f, tx->cts_next, cts)) {
		int32_t ahead = (int32_t)(cts->msg - tx->msg);

		if (!mpib_cts_sane(cts) || ahead > 0) {
			mpib_sender_bad_cts(f);
			return false;
		}
		if (ahead == 0)
			return true;
		*mpib_ended_at(f, tx->cts_next++) = 0;
	}
	return false;
}

#endif
