/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which send a receive takes, decided by the sender. Receives are answered in
 * the order posted, and each buffer takes the oldest send left with its tag: so
 * the n-th send of a tag goes to the n-th buffer of that tag, in whatever order
 * tags come. Sends with other tags stay queued, and later ones overtake them.
 * Shard thread.
 */
#include "engine/conn/conn.h"

/* Move range i to the front; the ranges before it keep their order. */
static void to_front(struct mpib_sender *tx, uint32_t i)
{
	struct send_range e = tx->range[i % SEND_RANGES];

	for (; i != tx->range_tail; i--)
		tx->range[i % SEND_RANGES] = tx->range[(i - 1) % SEND_RANGES];
	tx->range[i % SEND_RANGES] = e;
}

/* The first range not yet compared with the receive being answered. A buffer
 * that got its send never becomes free again, so a range that did not fit this
 * receive once never will. */
static uint32_t first_unseen(struct mpib_sender *tx)
{
	if (tx->looked_for != tx->cts_next ||
	    (int32_t)(tx->looked - tx->range_tail) < 0) {
		tx->looked_for = tx->cts_next;
		tx->looked = tx->range_tail;
	}
	return tx->looked;
}

bool mpib_match(struct engine_conn *f, mpib_fits_fn *fits, int32_t tag)
{
	struct mpib_sender *tx = &f->tx;
	uint32_t i = first_unseen(tx);

	/* A range that fits but found no room to be posted is in front. */
	if (mpib_sender_has_work(f) && fits(f, mpib_sender_oldest(f), tag))
		return true;
	while (i != tx->range_head &&
	       !fits(f, &tx->range[i % SEND_RANGES], tag))
		i++;
	tx->looked = i;
	if (i == tx->range_head)
		return false;
	to_front(tx, i);
	return true;
}

bool mpib_match_none(const struct engine_conn *f)
{
	const struct mpib_sender *tx = &f->tx;

	return tx->range_head == tx->range_tail ||
	       (tx->looked_for == tx->cts_next && tx->looked == tx->range_head);
}

/* mpib_fits_fn: the range is one of request req. */
static bool is_of(const struct engine_conn *f, const struct send_range *e,
		  int32_t req)
{
	(void)f;
	return e->req == req;
}

void mpib_match_forget(struct engine_conn *f, uint8_t req)
{
	f->tx.looked = f->tx.range_tail;
	while (mpib_match(f, is_of, req))
		mpib_sender_pop(f);
}

void mpib_sender_drop(struct engine_conn *f)
{
	mpib_replay_drop(f);
	mpib_group_drop(f);
	while (mpib_sender_has_work(f))
		mpib_sender_pop(f);
	/* Send ops that wait only for an end-to-end ack are over now. */
	mpib_sender_retire(f);
}

bool mpib_sender_uses(const struct engine_conn *f, const struct mpib_mr *mr)
{
	const struct mpib_sender *tx = &f->tx;

	for (uint32_t i = tx->range_tail; i != tx->range_head; i++) {
		if (tx->range[i % SEND_RANGES].mr == mr)
			return true;
	}
	for (unsigned i = 0; i < tx->group.n; i++) {
		if (tx->group.held & 1u << i && tx->group.range[i].mr == mr)
			return true;
	}
	return false;
}
