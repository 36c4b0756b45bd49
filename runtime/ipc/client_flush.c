/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flushes of device memory. The proxy completes the flushes of a connection in
 * the order in which they were pushed, and counts them in the reply segment. If
 * the ring is full, a new flush is queued. The next post or test of a flush
 * pushes the queued flushes. All functions run on the connection's thread.
 */
#include <errno.h>
#include <stdlib.h>

#include "ipc/client.h"

static struct mpib_request *flush_take(struct mpib_conn *conn)
{
	struct mpib_flush_queue *q = &conn->flush;
	struct mpib_request *r = q->free;

	if (r)
		q->free = r->next;
	else if (q->room && q->used < MPIB_FLUSHES_MAX)
		r = &q->room[q->used++];
	if (r)
		*r = (struct mpib_request){
			.conn = conn,
			.plain = { MPIB_OP_FLUSH },
			.n = 1,
			.slow = true,
			.flush = true,
		};
	return r;
}

void mpib_flush_give(struct mpib_request *r)
{
	struct mpib_flush_queue *q = &r->conn->flush;

	if (r->held)
		mpib_regions_unref(r);
	r->next = q->free;
	q->free = r;
}

/* Push the queued flushes while the ring has room. After an error, mark the
 * connection as failed. */
static void push_queued(struct mpib_conn *conn)
{
	struct mpib_flush_queue *q = &conn->flush;
	bool pushed = false;
	int rc;

	while (q->first && !conn->error) {
		struct mpib_request *r = q->first;

		rc = mpib_conn_room(conn, 1);
		if (rc < 0)
			mpib_conn_fail(conn, rc, MPIB_BAD_HEAD);
		if (rc <= 0)
			break;
		if (mpib_region_dead(r->buf[0].region)) {
			mpib_conn_fail(conn, -ECANCELED,
				       "its memory was deregistered");
			break;
		}
		q->first = r->next;
		mpib_push_direct(conn, r, 0);
		mpib_regions_unref(r);
		pushed = true;
	}
	if (pushed)
		mpib_ring_bell(conn);
}

static int flush_allowed(struct mpib_conn *conn, const char *data,
			 const struct mpib_region *region)
{
	if (conn->is_sender)
		return mpib_fail(-EINVAL, "a sending end has nothing to flush");
	if (region->client != conn->client)
		return mpib_fail(-EINVAL,
				 "the region belongs to another client");
	if (data < region->addr || data - region->addr >= (long)region->size)
		return mpib_fail(-EFAULT, "%p is not inside the region", data);
	return 0;
}

static void flush_queue(struct mpib_flush_queue *q, struct mpib_request *r)
{
	if (q->first)
		q->last->next = r;
	else
		q->first = r;
	q->last = r;
}

int mpib_iflush(struct mpib_conn *conn, const void *data,
		struct mpib_region *region, struct mpib_request **req)
{
	struct mpib_flush_queue *q = &conn->flush;
	struct mpib_request *r;
	int rc = mpib_conn_usable(conn);

	*req = NULL;
	/* If mpib_iflush() returns no request, the caller assumes that no flush
	 * is needed. So queue the flush even if `rc` is 0. `rc` is 0 while the
	 * connection is resuming, and while the reason for its failure is not
	 * known yet. */
	if (rc < 0 || !region || !(region->memory.flags & MPIB_REG_DMABUF))
		return rc < 0 ? rc : 0;
	rc = flush_allowed(conn, data, region);
	if (rc < 0)
		return rc;
	r = flush_take(conn);
	if (!r)
		return mpib_fail(-EBUSY,
				 "%u flushes of this connection are "
				 "outstanding (the maximum)",
				 MPIB_FLUSHES_MAX);
	r->gen = ++q->asked;
	r->buf[0].region = region;
	r->buf[0].addr = region->addr + ((const char *)data - region->addr);
	r->buf[0].size = 1;
	mpib_regions_ref(r);
	flush_queue(q, r);
	push_queued(conn);
	*req = r;
	return 0;
}

static bool is_flushed(const struct mpib_request *r)
{
	/* Acquire pairs with the release in flush_tell(). If this thread sees
	 * the new count, the bytes are in device memory. */
	return !r->held &&
	       (r->over ||
		(int32_t)(atomic_load_explicit(&r->conn->reply->flushed,
					       memory_order_acquire) -
			  r->gen) >= 0);
}

bool mpib_flush_over(struct mpib_request *r)
{
	push_queued(r->conn);
	return is_flushed(r);
}

unsigned mpib_flush_left(struct mpib_conn *conn, struct mpib_request **left)
{
	const struct mpib_flush_queue *q = &conn->flush;
	bool idle[MPIB_FLUSHES_MAX] = { false };
	unsigned n = 0;

	for (const struct mpib_request *r = q->free; r; r = r->next)
		idle[r - q->room] = true;
	for (uint32_t i = 0; i < q->used; i++) {
		struct mpib_request *r = &q->room[i];

		if (idle[i])
			continue;
		r->over = is_flushed(r);
		if (!r->over)
			left[n++] = r;
	}
	mpib_requests_sort(left, n, q->asked);
	return n;
}

void mpib_flush_repost(struct mpib_conn *conn, struct mpib_request *const *left,
		       unsigned n)
{
	struct mpib_flush_queue *q = &conn->flush;

	q->first = NULL;
	q->asked = 0;
	for (unsigned i = 0; i < n; i++) {
		struct mpib_request *r = left[i];

		r->gen = ++q->asked;
		r->next = NULL;
		if (!r->held)
			mpib_regions_ref(r);
		flush_queue(q, r);
	}
}

void mpib_flush_close(struct mpib_conn *conn)
{
	struct mpib_flush_queue *q = &conn->flush;

	/* Search all elements of q->room instead of the list of queued flushes
	 * (q->first). That list may still contain a failed flush that was
	 * released. */
	for (uint32_t i = 0; i < q->used; i++) {
		if (q->room[i].held)
			mpib_regions_unref(&q->room[i]);
	}
	free(q->room);
}
