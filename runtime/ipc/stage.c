/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The feed queue: requests that cannot be pushed to the shard at once, among
 * them those of ordinary memory, which go through the staging window part by
 * part (window.h). Runs on the connection's thread, inside post and test.
 */
#include <errno.h>

#include "ipc/client.h"

#define AGAIN_MS 10 /* between two questions for a window that is refused */

static void push_part(struct mpib_conn *conn, struct mpib_request *r,
		      const struct mpib_staging_chunk *p)
{
	const struct mpib_window *w = &conn->window;

	mpib_push(conn, r, p->idx, w->mr, w->off + p->at, p->pos, p->len);
}

static bool is_direct(const struct mpib_buffer *b)
{
	return b->size == 0 || !b->region->staged;
}

/*
 * A posted message cannot be taken back, since the peer counts on it: if memory
 * is deregistered before its request is pushed the connection must fail. A
 * staged receive goes on in the window instead, see copy_out().
 */
static int stage_lost(struct mpib_conn *conn)
{
	return mpib_conn_fail(conn, -ECANCELED,
			      "memory was deregistered under a request that "
			      "still waited to use it");
}

static bool is_lost(const struct mpib_buffer *b)
{
	return b->size > 0 && mpib_region_dead(b->region);
}

/* 1: pushed something; 0: no room now; -EAGAIN: nor is there for r, but for the
 * next request there may be; -errno. */
static int feed_stream(struct mpib_conn *conn, struct mpib_request *r)
{
	const struct mpib_buffer *b = &r->buf[0];
	uint32_t len = b->size - r->pos;
	const struct mpib_staging_chunk *p;
	int room = mpib_ring_room(&conn->ring, 1);

	if (room <= 0)
		return room;
	if (is_direct(b)) {
		if (is_lost(b))
			return stage_lost(conn);
		mpib_push_direct(conn, r, 0);
		r->feeding = false;
		return 1;
	}
	if (len > conn->client->welcome.part)
		len = conn->client->welcome.part;
	p = mpib_window_take(conn, r, 0, len);
	if (!p) {
		mpib_count(&conn->client->submit->counts.stalls_pool, 1);
		return mpib_conn_asks(conn) ? -EAGAIN : 0;
	}
	if (conn->is_sender && !mpib_window_copy_in(conn, r, p))
		return stage_lost(conn);
	push_part(conn, r, p);
	r->pos += p->len;
	r->feeding = r->pos < b->size;
	return 1;
}

/*
 * On a connection with several tags, or groups, a send without a receive could
 * fill the window for ever and keep out one whose receive is posted. So a staged
 * send of which nothing is pushed first asks the proxy, with a descriptor
 * without bytes, and takes window space only once the shard has marked its
 * completion: its receive is there, so it will leave the window again. Returns
 * like feed_stream().
 */
static int stage_ask(struct mpib_conn *conn, struct mpib_request *r)
{
	int room;

	if (r->asked)
		return mpib_completion_marked(r->completion, r->gen) ? 1
								     : -EAGAIN;
	room = mpib_ring_room(&conn->ring, 1);
	if (room <= 0)
		return room;
	mpib_push(conn, r, 0, 0, 0, 0, 0);
	mpib_ring_bell(conn);
	r->asked = true;
	return -EAGAIN;
}

static uint32_t group_bytes(const struct mpib_request *r)
{
	uint32_t sum = 0; /* mpib_irecv() keeps it below MPIB_WINDOW_MAX */

	for (unsigned i = 0; i < r->n; i++)
		sum += is_direct(&r->buf[i])
			       ? 0
			       : mpib_window_padded(r->buf[i].size);
	return sum;
}

/* Get a window of at least size bytes: 1, -errno. The present one, if any, is
 * empty. */
static int have_window(struct mpib_conn *conn, uint32_t size)
{
	struct mpib_client *c = conn->client;
	struct mpib_index *x = &c->index[conn->index];
	struct mpib_window *w = &conn->window;
	int rc;

	mpib_client_hold(c);
	rc = mpib_window_get(c, x, size);
	if (rc == 0) {
		w->base = (char *)x->pool->seg.addr + x->off;
		w->off = x->off;
		w->mr = x->pool->mr;
		w->size = x->size;
		w->had = w->size > w->had ? w->size : w->had;
		mpib_window_cut(w, conn->is_sender ? c->welcome.part : 0);
		/* Relaxed: this thread alone uses it from now on. */
		atomic_store_explicit(&w->state, MPIB_WINDOW_USED,
				      memory_order_relaxed);
	}
	mpib_client_unlock(c);
	return rc < 0 ? rc : 1;
}

static bool is_busy(const struct mpib_conn *conn)
{
	return !mpib_window_empty(&conn->window) ||
	       conn->feed_tail != conn->feed_head;
}

/*
 * Whoever had a window and gave it back in a rest waits for another: what would
 * have gone well without the rest does not fail for what others took meanwhile,
 * nor for a proxy that stands still. 0: ask later; else rc.
 */
static int window_refused(struct mpib_conn *conn, uint32_t size, int rc)
{
	struct mpib_window *w = &conn->window;

	if (!w->had || size > w->had)
		return rc;
	if (rc != -EDQUOT && rc != -ENOMEM && rc != -EMFILE && rc != -ETIMEDOUT)
		return rc;
	w->again_ms = mpib_now_ms() + AGAIN_MS;
	mpib_count(&conn->client->submit->counts.stalls_pool, 1);
	return 0;
}

/*
 * A window for r, which is not queued yet: it is got here and never in test. All
 * staged buffers of a group must be in the window at once, so that it may have to
 * be a larger one than before, as soon as nobody uses the present one. 1; 0: not
 * yet; -errno.
 */
static int stage_window(struct mpib_conn *conn, const struct mpib_request *r)
{
	struct mpib_window *w = &conn->window;
	uint32_t need = r->n > 1 ? group_bytes(r) : 0;
	bool used = mpib_window_use(w);
	int rc;

	if (used && need <= w->size)
		return 1;
	if (used && is_busy(conn))
		return 0;
	rc = w->again_ms && mpib_now_ms() < w->again_ms
		     ? 0
		     : have_window(conn, need);
	if (rc <= 0 && used)
		mpib_window_rest(conn);
	return rc < 0 ? window_refused(conn, need, rc) : rc;
}

static void push_group(struct mpib_conn *conn, struct mpib_request *r,
		       const struct mpib_staging_chunk *const *part)
{
	for (unsigned i = 0; i < r->n; i++) {
		if (part[i])
			push_part(conn, r, part[i]);
		else
			mpib_push_direct(conn, r, i);
	}
	r->feeding = false;
}

static int feed_group(struct mpib_conn *conn, struct mpib_request *r)
{
	const struct mpib_staging_chunk *part[MPIB_GROUP_MAX] = { NULL };
	int rc = mpib_ring_room(&conn->ring, r->n);

	if (rc < r->n)
		return rc < 0 ? rc : 0;
	for (unsigned i = 0; i < r->n; i++) {
		const struct mpib_buffer *b = &r->buf[i];

		if (is_direct(b)) {
			if (is_lost(b))
				return stage_lost(conn);
			continue;
		}
		part[i] = mpib_window_take(conn, r, i, b->size);
		if (!part[i]) {
			mpib_window_untake(conn, r, r->parts);
			return 0;
		}
	}
	push_group(conn, r, part);
	return 1;
}

/* Like feed_stream(), but 1 only when all of r is pushed. */
static int feed_one(struct mpib_conn *conn, struct mpib_request *r)
{
	int rc;

	if (r->staged && r->pos == 0)
		r->asks |= mpib_conn_asks(conn);
	rc = r->asks ? stage_ask(conn, r) : 1;
	while (rc > 0 && r->feeding) {
		rc = r->n > 1 ? feed_group(conn, r) : feed_stream(conn, r);
		/* Ring for each part: the proxy sends this part while the
		 * sender copies the next. */
		if (rc > 0)
			mpib_ring_bell(conn);
	}
	return rc;
}

static void stage_feed(struct mpib_conn *conn)
{
	uint32_t kept = conn->feed_tail;
	int rc = 1;

	for (uint32_t i = kept; i != conn->feed_head; i++) {
		uint8_t index = conn->feed[i % MPIB_REQUESTS];

		if (rc > 0 || rc == -EAGAIN)
			rc = feed_one(conn, &conn->req[index]);
		if (conn->req[index].feeding)
			conn->feed[kept++ % MPIB_REQUESTS] = index;
		else
			conn->work--;
	}
	conn->feed_head = kept;
	if (rc == -EPROTO)
		mpib_conn_fail(conn, rc, MPIB_BAD_HEAD);
}

int mpib_stage_add(struct mpib_conn *conn, struct mpib_request *r)
{
	int rc = 1;

	r->slow = true;
	r->feeding = true;
	r->pos = 0;
	r->staged = r->asks = r->asked = false;
	for (unsigned i = 0; i < r->n; i++)
		r->staged |= !is_direct(&r->buf[i]);
	if (r->staged)
		rc = stage_window(conn, r);
	if (rc <= 0)
		return rc;
	mpib_regions_ref(r);
	conn->feed[conn->feed_head++ % MPIB_REQUESTS] = mpib_request_index(r);
	conn->work++;
	mpib_stage(conn);
	return 1;
}

void mpib_stage(struct mpib_conn *conn)
{
	if (conn->error)
		return;
	mpib_window_drain(conn);
	if (conn->feed_tail != conn->feed_head)
		stage_feed(conn);
	if (!is_busy(conn))
		mpib_window_rest(conn);
}
