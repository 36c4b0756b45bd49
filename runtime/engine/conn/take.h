/* SPDX-License-Identifier: Apache-2.0 */
/* Turns a client's descriptor into a send range. Shard thread. */
#ifndef MPIB_ENGINE_CONN_TAKE_H
#define MPIB_ENGINE_CONN_TAKE_H

#include <string.h>

#include "engine/conn/request.h"

static inline bool take_well_formed(const struct mpib_desc *d)
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

/* request.c: take a descriptor that is not a send. Returns like
 * mpib_sender_take(). */
int mpib_sender_take_nop(struct engine_conn *f, const struct mpib_desc *d);
/* request.c: the request has failed or was refused, and the client does not
 * know that yet. Returns like mpib_sender_take(). */
int mpib_sender_take_none(struct engine_conn *f, const struct mpib_desc *d);

/* 1: accepted; -errno: a bad descriptor. Needs mpib_sender_room(). */
static inline int mpib_sender_take(struct engine_conn *f,
				   const struct mpib_desc *d)
{
	struct mpib_sender *tx = &f->tx;
	struct send_range *e =
		mpib_kept(&tx->range[tx->range_head % SEND_RANGES]);
	struct engine_request *r;
	int rc;

	if (!take_well_formed(d))
		return mpib_sender_take_nop(f, d);
	r = &f->req[d->req];
	if (r->gen == d->gen && (!r->active || r->refused) && d->pos > 0)
		return mpib_sender_take_none(f, d);

	rc = engine_conn_hold(f, d, &e->mr, &e->addr);
	if (rc < 0)
		return rc;
	rc = engine_conn_feed(f, d, NULL);
	if (rc < 0) {
		if (e->mr)
			mpib_mr_unref(e->mr);
		return rc;
	}
	e->req = d->req;
	e->tag = d->tag;
	e->len = d->len;
	e->pos = d->pos;
	if (d->tag >= 0)
		f->local_rank = d->tag;
	tx->range_head++;
	return 1;
}

_Static_assert((MPIB_REQUESTS & (MPIB_REQUESTS - 1)) == 0,
	       "for the mask above");

#endif
