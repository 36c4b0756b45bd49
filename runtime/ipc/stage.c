/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The feed queue: requests that cannot be pushed to the shard at once, and the
 * copies between ordinary memory and the connection's staging window. Runs on
 * the connection's thread, inside post and test.
 */
#include <errno.h>
#include <string.h>

#include "base/copy.h"
#include "ipc/client.h"

static uint32_t stage_padded(uint32_t len)
{
	return (len + MPIB_ALIGN - 1) & ~(MPIB_ALIGN - 1);
}

/* Take len contiguous bytes of the window, *at is their place; false: full. */
static bool window_take(struct mpib_window *w, uint32_t len, uint64_t *at)
{
	uint64_t head = w->head;
	uint32_t in = (uint32_t)(head % w->size);

	if (in + stage_padded(len) > w->size)
		head += w->size - in;
	if (head + stage_padded(len) - w->tail > w->size)
		return false;
	*at = head;
	w->head = head + stage_padded(len);
	return true;
}

static struct mpib_staging_chunk *add_part(struct mpib_conn *conn,
					   struct mpib_request *r, unsigned i,
					   uint32_t len, uint64_t at)
{
	struct mpib_window *w = &conn->window;
	struct mpib_staging_chunk *p = &w->part[w->part_head++ % MPIB_PARTS];

	*p = (struct mpib_staging_chunk){ mpib_request_index(r), (uint8_t)i,
					  r->pos, len, at };
	r->parts++;
	conn->work++;
	return p;
}

static bool parts_left(const struct mpib_window *w, unsigned n)
{
	return w->part_head - w->part_tail + n <= MPIB_PARTS;
}

static char *part_addr(const struct mpib_window *w,
		       const struct mpib_staging_chunk *p)
{
	return w->base + p->at % w->size;
}

static void count_copy(struct mpib_conn *conn, uint32_t len)
{
	struct mpib_client_counts *n = &conn->client->submit->counts;

	mpib_count(&n->copies, 1);
	mpib_count(&n->copied_bytes, len);
}

/* Sender: copy the part into the window. False: its region is deregistered. */
static bool copy_in(struct mpib_conn *conn, struct mpib_request *r,
		    const struct mpib_staging_chunk *p)
{
	const struct mpib_buffer *b = &r->buf[p->idx];

	if (!mpib_region_copy_begin(b->region))
		return false;
	memcpy(part_addr(&conn->window, p), b->addr + p->pos, p->len);
	mpib_region_copy_end(b->region);
	count_copy(conn, p->len);
	return true;
}

static void push_part(struct mpib_conn *conn, struct mpib_request *r,
		      const struct mpib_staging_chunk *p)
{
	const struct mpib_window *w = &conn->window;

	mpib_push(conn, r, p->idx, w->mr, w->off + p->at % w->size, p->pos,
		  p->len);
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

/* 1: pushed something; 0: no room now; -errno. */
static int feed_stream(struct mpib_conn *conn, struct mpib_request *r)
{
	const struct mpib_buffer *b = &r->buf[0];
	uint32_t len = b->size - r->pos;
	struct mpib_staging_chunk *p;
	uint64_t at;
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
	if (!parts_left(&conn->window, 1) ||
	    !window_take(&conn->window, len, &at)) {
		mpib_count(&conn->client->submit->counts.stalls_pool, 1);
		return 0;
	}
	p = add_part(conn, r, 0, len, at);
	if (conn->is_sender && !copy_in(conn, r, p))
		return stage_lost(conn);
	push_part(conn, r, p);
	r->pos += len;
	r->feeding = r->pos < b->size;
	return 1;
}

/*
 * On a connection with several tags, a send without a receive could fill the
 * window for ever and keep out a send of another tag whose receive is posted.
 * So a staged send first asks the proxy, with a descriptor without bytes, and
 * takes window space only once the shard has marked its completion: its receive
 * is there, so it will leave the window again. Returns like feed_stream(), and
 * -EAGAIN: no receive yet, the next request may be fed first.
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
		sum += is_direct(&r->buf[i]) ? 0 : stage_padded(r->buf[i].size);
	return sum;
}

/* Get a window of at least size bytes. The present one, if any, is empty. */
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
	}
	mpib_client_unlock(c);
	return rc;
}

/* All staged buffers of a group must be in the window at once: get a larger
 * window if need be, as soon as the present one is empty. 1; 0: not empty yet;
 * -errno. */
static int group_window(struct mpib_conn *conn, uint32_t need)
{
	struct mpib_window *w = &conn->window;
	int rc;

	if (need <= w->size)
		return 1;
	if (w->part_head != w->part_tail)
		return 0;
	rc = have_window(conn, need);
	return rc < 0 ? mpib_conn_fail(conn, rc, mpib_strerror()) : 1;
}

static void push_group(struct mpib_conn *conn, struct mpib_request *r,
		       const uint64_t *at)
{
	for (unsigned i = 0; i < r->n; i++) {
		uint32_t len = r->buf[i].size;

		if (is_direct(&r->buf[i]))
			mpib_push_direct(conn, r, i);
		else
			push_part(conn, r, add_part(conn, r, i, len, at[i]));
	}
	r->feeding = false;
}

static int feed_group(struct mpib_conn *conn, struct mpib_request *r)
{
	struct mpib_window *w = &conn->window;
	uint64_t head, at[MPIB_GROUP_MAX];
	int rc = mpib_ring_room(&conn->ring, r->n);

	if (rc < r->n)
		return rc < 0 ? rc : 0;
	rc = group_window(conn, group_bytes(r));
	if (rc <= 0)
		return rc;
	if (!parts_left(w, r->n))
		return 0;
	head = w->head;
	for (unsigned i = 0; i < r->n; i++) {
		if (is_direct(&r->buf[i])) {
			if (is_lost(&r->buf[i]))
				return stage_lost(conn);
		} else if (!window_take(w, r->buf[i].size, &at[i])) {
			w->head = head;
			return 0;
		}
	}
	push_group(conn, r, at);
	return 1;
}

/* Like feed_stream(), but 1 only when all of r is pushed. */
static int feed_one(struct mpib_conn *conn, struct mpib_request *r)
{
	int rc = r->asks ? stage_ask(conn, r) : 1;

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

/* True when the part is over; *arrived of its bytes were transferred. */
static bool part_over(const struct mpib_request *r,
		      const struct mpib_staging_chunk *p, uint32_t *arrived)
{
	const struct mpib_completion *cpl = r->completion;
	uint32_t end = 0;
	int32_t res;

	if (mpib_completion_poll(cpl, r->gen, &res)) {
		if (res >= 0)
			end = r->n > 1 ? cpl->size[p->idx] : (uint32_t)res;
	} else {
		if (r->n > 1)
			return false;
		end = mpib_completion_progress(cpl, r->gen);
		if (end < p->pos + p->len)
			return false;
	}
	end = end > p->pos ? end - p->pos : 0;
	*arrived = end < p->len ? end : p->len;
	return true;
}

static void copy_out(struct mpib_conn *conn, struct mpib_request *r,
		     const struct mpib_staging_chunk *p, uint32_t len)
{
	const struct mpib_buffer *b = &r->buf[p->idx];

	if (!mpib_region_copy_begin(b->region)) {
		r->cancelled = true;
		return;
	}
	mpib_copy_up(b->addr + p->pos, part_addr(&conn->window, p), len);
	mpib_region_copy_end(b->region);
	count_copy(conn, len);
}

/* Parts leave the window in the order pushed. That blocks nothing for long: a
 * pushed send has its receive, or all sends of the connection have one tag. */
void mpib_stage_drain(struct mpib_conn *conn)
{
	struct mpib_window *w = &conn->window;
	uint32_t arrived;
	int32_t res;

	while (w->part_tail != w->part_head) {
		const struct mpib_staging_chunk *p =
			&w->part[w->part_tail % MPIB_PARTS];
		struct mpib_request *r = &conn->req[p->req];

		if (!part_over(r, p, &arrived))
			return;
		if (!conn->is_sender && arrived)
			copy_out(conn, r, p, arrived);
		w->tail = p->at + stage_padded(p->len);
		w->part_tail++;
		conn->work--;
		r->parts--;
		/* The request has completed: do not push the rest of it. */
		if (mpib_completion_poll(r->completion, r->gen, &res))
			r->feeding = false;
	}
	/* Empty: start at offset 0, so that the largest part fits. */
	w->head = w->tail = 0;
}

int mpib_stage_add(struct mpib_conn *conn, struct mpib_request *r)
{
	bool staged = false;
	int rc = 0;

	r->slow = true;
	r->feeding = true;
	r->pos = 0;
	for (unsigned i = 0; i < r->n; i++)
		staged |= !is_direct(&r->buf[i]);
	r->asks = staged && conn->is_sender && conn->has_tags &&
		  conn->client->reply->features & MPIB_FEATURE_ASK;
	r->asked = false;
	if (staged && !conn->window.base)
		rc = have_window(conn, 0);
	if (rc < 0)
		return rc;
	mpib_regions_ref(r);
	conn->feed[conn->feed_head++ % MPIB_REQUESTS] = mpib_request_index(r);
	conn->work++;
	mpib_stage(conn);
	return 0;
}

void mpib_stage(struct mpib_conn *conn)
{
	if (conn->error)
		return;
	if (conn->window.part_tail != conn->window.part_head)
		mpib_stage_drain(conn);
	if (conn->feed_tail != conn->feed_head)
		stage_feed(conn);
}
