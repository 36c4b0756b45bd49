/* SPDX-License-Identifier: Apache-2.0 */
/* What the sending end reads of its table of CTS. Shard thread. */
#ifndef MPIB_ENGINE_CONN_CLEAR_H
#define MPIB_ENGINE_CONN_CLEAR_H

#include <mpib/wire.h>
#include <stdatomic.h>

#include "engine/conn/conn.h"

/* Whether the fields of a CTS fit together: a peer's proxy is checked like any
 * other source of input. */
static inline bool mpib_cts_sane(const struct mpib_cts *c)
{
	return c->total <= MPIB_SIZE_MAX &&
	       (uint64_t)c->pos + c->len <= c->total &&
	       ((c->n | (uint32_t)c->idx << 16) == 1 ||
		(c->n >= 1 && c->n <= MPIB_GROUP_MAX && c->idx < c->n &&
		 c->len == c->total));
}

/* Copy the CTS of the slot. False: it is not there. */
static inline bool mpib_sender_cts(struct engine_conn *f, uint64_t slot,
				   struct mpib_cts *cts)
{
	const struct mpib_cts *entry = f->tables.in;

	entry += mpib_entry_of(f, slot);
	/* Acquire: the device places seq last, after the rest of the entry. */
	if (__atomic_load_n(&entry->seq, __ATOMIC_ACQUIRE) != slot + 1)
		return false;
	*cts = *entry;
	/* What is checked is what is used: the compiler is not to read the
	 * entry, which the peer can write, a second time instead. */
	atomic_signal_fence(memory_order_seq_cst);
	if (cts->ended > f->tx.acked)
		f->tx.acked = cts->ended;
	return true;
}

#endif
