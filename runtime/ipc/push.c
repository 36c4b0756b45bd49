/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Push one descriptor into a connection's ring, and wake a sleeping shard.
 */
#include <unistd.h>

#include "ipc/client.h"

int mpib_bell_write(struct mpib_conn *conn)
{
	static const uint64_t one = 1;
	ssize_t n = write(conn->at->doorbell, &one, sizeof(one));

	(void)n; /* EAGAIN: the eventfd is set already */
	return 0;
}

/* Written in place in the ring slot: building a struct and copying it costs
 * more than all the rest of a push. */
void mpib_push(struct mpib_conn *conn, const struct mpib_request *r, unsigned i,
	       uint32_t mr, uint64_t off, uint32_t pos, uint32_t len)
{
	struct mpib_desc *d = mpib_ring_next(&conn->ring);

	d->op = r->plain[0];
	d->req = mpib_request_index(r);
	d->idx = (uint8_t)i;
	d->n = r->n;
	d->gen = r->gen;
	d->mr = mr;
	d->tag = r->buf[i].tag;
	d->off = off;
	d->len = len;
	d->pos = pos;
	d->total = r->buf[i].size;
	mpib_ring_commit(&conn->ring, d);
}

void mpib_push_direct(struct mpib_conn *conn, const struct mpib_request *r,
		      unsigned i)
{
	const struct mpib_buffer *b = &r->buf[i];

	if (b->size > 0)
		mpib_push(conn, r, i, mpib_region_mr(b->region),
			  b->region->off +
				  (uint64_t)(b->addr - b->region->addr),
			  0, b->size);
	else
		mpib_push(conn, r, i, 0, 0, 0, 0);
}
