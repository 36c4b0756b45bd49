/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Push the descriptors of queued requests (feed.c) into a connection's ring.
 * Ordinary memory is copied through the staging window part by part (window.h).
 * This code runs on the connection's thread, inside mpib_isend(), mpib_irecv()
 * and mpib_test().
 */
#include <errno.h>
#include <unistd.h>

#include "ipc/client.h"

/* Time, in ms, after which the client requests a window again if the proxy has
 * refused one. */
#define AGAIN_MS 10
/* Time, in ms, after which the client requests a window of full size again, if
 * the connection has a small window and the proxy has refused a larger one. */
#define LARGER_MS 1000
/* Number of posts that find no room in a small window before the client
 * requests a window of full size. */
#define WAITS 16

int mpib_bell_write(struct mpib_conn *conn)
{
	static const uint64_t one = 1;
	ssize_t n = write(conn->at->doorbell, &one, sizeof(one));

	(void)n; /* EAGAIN: the eventfd is already set */
	return 0;
}

/* Push a descriptor for `len` bytes at offset `pos` of the buffer with index
 * `i`. These bytes are at offset `off` of the MR with the id `mr`. The caller
 * has checked that the ring has room. The function writes the fields directly
 * into the ring: to build the descriptor elsewhere and copy it would take more
 * time than the rest of a push. */
static void push(struct mpib_conn *conn, const struct mpib_request *r,
		 unsigned i, uint32_t mr, uint64_t off, uint32_t pos,
		 uint32_t len)
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
		push(conn, r, i, mpib_region_mr(b->region),
		     b->region->off + (uint64_t)(b->addr - b->region->addr), 0,
		     b->size);
	else
		push(conn, r, i, 0, 0, 0, 0);
}

static void push_part(struct mpib_conn *conn, struct mpib_request *r,
		      const struct mpib_staging_chunk *p)
{
	const struct mpib_window *w = &conn->window;

	push(conn, r, p->idx, w->mr, p->at, p->pos, p->len);
}

static bool is_direct(const struct mpib_buffer *b)
{
	return b->size == 0 || !b->region->staged;
}

/*
 * Fail the connection, because the memory of a request was deregistered before
 * the whole request was pushed. The peer expects the message, so the request
 * cannot be withdrawn. The connection does not fail if the request is a staged
 * receive: the message still arrives in the window, see copy_out().
 */
static int stage_lost(struct mpib_conn *conn)
{
	return mpib_conn_fail(conn, -ECANCELED,
			      "memory was deregistered while a request still "
			      "waited to use it");
}

static bool is_lost(const struct mpib_buffer *b)
{
	return b->size > 0 && mpib_region_dead(b->region);
}

/* Push the next part of the request `r`, or all of `r` if `r` is not staged.
 * Returns 1 if something was pushed, 0 if the ring or the window has no room
 * yet, or -errno. */
static int feed_stream(struct mpib_conn *conn, struct mpib_request *r)
{
	const struct mpib_buffer *b = &r->buf[0];
	uint32_t len = b->size - r->pos;
	const struct mpib_staging_chunk *p;
	int room = mpib_conn_room(conn, 1);

	if (room <= 0)
		return room;
	if (is_direct(b)) {
		if (is_lost(b))
			return stage_lost(conn);
		mpib_push_direct(conn, r, 0);
		r->feeding = false;
		return 1;
	}
	if (len > conn->at->welcome.part)
		len = conn->at->welcome.part;
	p = mpib_window_take(conn, r, 0, len);
	if (!p) {
		mpib_count(&conn->at->submit->counts.stalls_pool, 1);
		return 0;
	}
	if (conn->is_sender && !mpib_window_copy_in(conn, r, p))
		return stage_lost(conn);
	if (r->wanted)
		r->plain[0] |= MPIB_OP_AT_ONCE;
	push_part(conn, r, p);
	r->pos += p->len;
	r->feeding = r->pos < b->size;
	return 1;
}

static uint32_t group_bytes(const struct mpib_request *r)
{
	/* mpib_irecv() ensures that the sum is at most MPIB_WINDOW_MAX */
	uint32_t sum = 0;

	for (unsigned i = 0; i < r->n; i++)
		sum += is_direct(&r->buf[i])
			       ? 0
			       : mpib_window_padded(r->buf[i].size);
	return sum;
}

void mpib_stage_take_window(struct mpib_conn *conn)
{
	const struct mpib_pool *memory = conn->place->window;
	struct mpib_window *w = &conn->window;

	w->base_before = w->base;
	w->base = memory->seg.addr;
	w->mr = memory->debt.id;
	w->size = mpib_window_size(memory);
	w->had = w->size > w->had ? w->size : w->had;
	mpib_window_cut(w, conn->is_sender ? conn->at->welcome.part : 0);
	/* Relaxed: only this thread uses the window from now on. */
	atomic_store_explicit(&w->state, MPIB_WINDOW_USED,
			      memory_order_relaxed);
}

/* Get a staging window of at least `size` bytes. Returns 1 after success,
 * -errno after an error, or 0 if another thread holds the lock. That thread may
 * be waiting for the proxy. */
static int have_window(struct mpib_conn *conn, uint32_t size)
{
	struct mpib_client *c = conn->client;
	int rc = -EPIPE;

	if (!mpib_client_try(c))
		return 0;
	if (mpib_conn_lives(conn, c))
		rc = mpib_window_get(c, conn->place, size,
				     !mpib_window_empty(&conn->window));
	if (rc == 0)
		mpib_stage_take_window(conn);
	mpib_client_unlock(c);
	return rc < 0 ? rc : 1;
}

static bool is_busy(const struct mpib_conn *conn)
{
	return !mpib_window_empty(&conn->window) || conn->feed.first;
}

/*
 * The proxy has refused a window with the error `rc`. Return the result of the
 * post that needs the window.
 *
 * The result is 0 if the connection once had a window of at least `size` bytes,
 * which was released while idle. The caller then posts again later. Such a post
 * must not fail only because other connections use the memory, or because the
 * proxy is slow. In all other cases the result is `rc`.
 */
static int window_refused(struct mpib_conn *conn, uint32_t size, int rc)
{
	struct mpib_window *w = &conn->window;

	if (rc == -EPIPE && mpib_client_again(conn->client))
		return 0;
	if (!w->had || size > w->had)
		return rc;
	if (rc != -EDQUOT && rc != -ENOMEM && rc != -EMFILE && rc != -ETIMEDOUT)
		return rc;
	w->again_ms = mpib_now_ms() + AGAIN_MS;
	mpib_count(&conn->at->submit->counts.stalls_pool, 1);
	return 0;
}

/* Return the size of the window to request for the request `r`: full size if
 * `r` is a group or if many posts found no room, otherwise the size of a first
 * window. */
static uint32_t better(const struct mpib_conn *conn,
		       const struct mpib_request *r)
{
	return r->n > 1 || conn->window.no_room >= WAITS
		       ? conn->at->welcome.window
		       : mpib_window_first(conn->at);
}

/* Try to replace a small window by a window of full size. The small window may
 * still contain parts. Do nothing if `need` bytes do not fit into a window of
 * full size. */
static void window_enlarge(struct mpib_conn *conn, uint32_t need)
{
	uint32_t whole = conn->at->welcome.window;
	struct mpib_window *w = &conn->window;
	uint64_t now = mpib_now_ms();

	if (need <= whole && now >= w->again_ms && have_window(conn, whole) < 0)
		w->again_ms = now + LARGER_MS;
}

/* Get a window whose size is the larger of `best` and `need` bytes. If the
 * proxy refuses a window of `best` bytes, get a window of `need` bytes. Returns
 * the result of have_window(). */
static int window_begin(struct mpib_conn *conn, uint32_t need, uint32_t best)
{
	uint32_t first = mpib_window_first(conn->at);
	int rc;

	need = need > first ? need : first;
	rc = have_window(conn, need > best ? need : best);
	return rc < 0 && need < best ? have_window(conn, need) : rc;
}

/*
 * Get a window for the request `r`, which is not queued yet. Only posts call
 * this. All staged buffers of a group must be in the window at the same time,
 * so a group may need a larger window. The group gets the larger window when
 * the current window is empty and no request is queued. Returns 1 if the
 * connection has a window for `r`, 0 if not yet, or -errno.
 */
static int stage_window(struct mpib_conn *conn, const struct mpib_request *r)
{
	struct mpib_window *w = &conn->window;
	uint32_t need = r->n > 1 ? group_bytes(r) : 0;
	bool used = mpib_window_use(w);
	int rc;

	if (w->lost)
		/* the connection has failed, and the reason is not known yet */
		return 0;
	if (!used)
		w->no_room = 0;
	else if (w->size < better(conn, r) &&
		 (need <= w->size || is_busy(conn)))
		window_enlarge(conn, need);
	if (used && need <= w->size)
		return 1;
	if (used && is_busy(conn))
		return 0;
	rc = w->again_ms && mpib_now_ms() < w->again_ms
		     ? 0
		     : window_begin(conn, need, better(conn, r));
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
	int rc = mpib_conn_room(conn, r->n + MPIB_FLUSHES_KEPT);

	if (rc < r->n + MPIB_FLUSHES_KEPT)
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

int mpib_stage_push(struct mpib_conn *conn, struct mpib_request *r)
{
	int rc = 1;

	while (rc > 0 && r->feeding) {
		rc = r->n > 1 ? feed_group(conn, r) : feed_stream(conn, r);
		/* Wake the shard after each part, so that the proxy sends this
		 * part while this thread copies the next part. */
		if (rc > 0)
			mpib_ring_bell(conn);
	}
	return rc;
}

/* Initialize the fields of `r` that the pushes use. */
static void stage_begin(struct mpib_request *r)
{
	r->slow = true;
	r->feeding = true;
	r->pos = 0;
	r->staged = false;
	for (unsigned i = 0; i < r->n; i++)
		r->staged |= !is_direct(&r->buf[i]);
}

static void stage_queue(struct mpib_conn *conn, struct mpib_request *r)
{
	if (r->completion)
		mpib_request_number(conn, r);
	if (!r->held)
		mpib_regions_ref(r);
	mpib_feed_add(conn, r);
}

void mpib_stage_again(struct mpib_conn *conn, struct mpib_request *r)
{
	stage_begin(r);
	r->wanted = false;
	r->plain[0] &= (uint8_t)~MPIB_OP_AT_ONCE;
	stage_queue(conn, r);
}

int mpib_stage_add(struct mpib_conn *conn, struct mpib_request *r)
{
	int rc = 1;

	stage_begin(r);
	if (r->staged)
		rc = stage_window(conn, r);
	if (rc <= 0)
		return rc;
	stage_queue(conn, r);
	mpib_stage(conn);
	if (r->staged && r->feeding)
		conn->window.no_room++;
	return 1;
}

void mpib_stage(struct mpib_conn *conn)
{
	if (conn->error)
		return;
	mpib_window_drain(conn);
	if (conn->feed.first)
		mpib_feed(conn);
	if (!is_busy(conn))
		mpib_window_rest(conn);
}
