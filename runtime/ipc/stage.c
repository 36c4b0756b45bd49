/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Feeding requests to the shard, and the staging window between.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "ipc/client.h"

void mpib_ring_bell(struct mpib_conn *conn)
{
	struct mpib_client *c = conn->client;
	struct mpib_summary *sum = &c->submit->summary;
	uint32_t word = conn->index / 64;
	uint64_t one = 1;

	/* All three sequentially consistent (segment.h): the shard sees the
	 * bits in its last look, or we see that it sleeps. */
	atomic_fetch_or(&sum->word[word], 1ull << conn->index % 64);
	atomic_fetch_or(&sum->top, 1ull << word);
	if (atomic_load(&c->status->shard[c->welcome.shard].sleeping) &&
	    write(c->doorbell, &one, sizeof(one)) < 0)
		return; /* EAGAIN: it rings already */
}

static struct mpib_desc describe(const struct mpib_conn *conn,
				 const struct mpib_request *r, unsigned i)
{
	return (struct mpib_desc){
		.op = conn->is_sender ? MPIB_OP_SEND : MPIB_OP_RECV,
		.req = r->index,
		.idx = (uint8_t)i,
		.n = r->n,
		.gen = r->gen,
		.tag = r->buf[i].tag,
		.len = r->buf[i].size,
		.total = r->buf[i].size,
	};
}

static void push_direct(struct mpib_conn *conn, struct mpib_request *r,
			unsigned i)
{
	struct mpib_desc d = describe(conn, r, i);
	const struct mpib_buffer *b = &r->buf[i];

	if (b->size > 0) {
		d.mr = b->region->mr;
		d.off = b->region->off + (uint64_t)(b->addr - b->region->addr);
	}
	mpib_ring_push(&conn->ring, &d);
}

void mpib_push_whole(struct mpib_conn *conn, struct mpib_request *r)
{
	for (unsigned i = 0; i < r->n; i++)
		push_direct(conn, r, i);
	r->fed = true;
	mpib_ring_bell(conn);
}

static uint32_t padded(uint32_t len)
{
	return (len + MPIB_ALIGN - 1) & ~(MPIB_ALIGN - 1);
}

/* Where a part of len bytes may lie without wrapping; false: not now. */
static bool window_take(struct mpib_window *w, uint32_t len, uint64_t *at)
{
	uint32_t in = (uint32_t)(w->head % w->size);
	uint64_t head = w->head;

	if (w->part_head - w->part_tail == MPIB_PARTS)
		return false;
	if (in + padded(len) > w->size)
		head += w->size - in;
	if (head + padded(len) - w->tail > w->size)
		return false;
	*at = head;
	w->head = head + padded(len);
	return true;
}

static struct mpib_part *add_part(struct mpib_conn *conn,
				  struct mpib_request *r, unsigned i,
				  uint32_t pos, uint32_t len, uint64_t at)
{
	struct mpib_window *w = &conn->window;
	struct mpib_part *p = &w->part[w->part_head++ % MPIB_PARTS];

	*p = (struct mpib_part){ r->index, (uint8_t)i, pos, len, at };
	r->parts++;
	return p;
}

static char *part_addr(const struct mpib_window *w, const struct mpib_part *p)
{
	return w->base + p->at % w->size;
}

/* Send: the bytes go into the window now, or none of whatever lay there if
 * they are no longer ours. */
static void copy_in(struct mpib_conn *conn, struct mpib_request *r,
		    const struct mpib_part *p)
{
	const struct mpib_buffer *b = &r->buf[p->idx];
	char *to = part_addr(&conn->window, p);

	if (!mpib_region_copy_begin(b->region)) {
		r->cancelled = true;
		memset(to, 0, p->len);
		return;
	}
	memcpy(to, b->addr + p->pos, p->len);
	mpib_region_copy_end(b->region);
}

static void push_part(struct mpib_conn *conn, struct mpib_request *r,
		      const struct mpib_part *p)
{
	const struct mpib_window *w = &conn->window;
	struct mpib_desc d = describe(conn, r, p->idx);

	d.mr = w->pool->mr;
	d.off = w->off + p->at % w->size;
	d.pos = p->pos;
	d.len = p->len;
	mpib_ring_push(&conn->ring, &d);
}

static bool is_direct(const struct mpib_buffer *b)
{
	return b->size == 0 || !b->region->staged;
}

/* 1: pushed something; 0: no room now; -errno. */
static int feed_stream(struct mpib_conn *conn, struct mpib_request *r)
{
	uint32_t total = r->buf[0].size, len = total - r->pos;
	struct mpib_part *p;
	uint64_t at;
	int room = mpib_ring_room(&conn->ring, 1);

	if (room <= 0)
		return room;
	if (is_direct(&r->buf[0])) {
		push_direct(conn, r, 0);
		r->fed = true;
		return 1;
	}
	if (len > conn->client->welcome.part)
		len = conn->client->welcome.part;
	if (!window_take(&conn->window, len, &at))
		return 0;
	p = add_part(conn, r, 0, r->pos, len, at);
	if (conn->is_sender)
		copy_in(conn, r, p);
	push_part(conn, r, p);
	r->pos += len;
	r->fed = r->pos == total;
	return 1;
}

uint64_t mpib_staged_bytes(const struct mpib_request *r)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < r->n; i++)
		sum += is_direct(&r->buf[i]) ? 0 : padded(r->buf[i].size);
	return sum;
}

/* A group must lie in the window whole: get a larger one when it is empty. */
static int group_room(struct mpib_conn *conn, const struct mpib_request *r)
{
	struct mpib_window *w = &conn->window;
	uint64_t need = mpib_staged_bytes(r);
	struct mpib_window old = { 0 };
	int rc;

	if (need <= w->size)
		return 1;
	if (w->part_head != w->part_tail)
		return 0;
	old.pool = w->pool;
	old.off = w->off;
	pthread_mutex_lock(&conn->client->lock);
	rc = mpib_window_get(conn, (uint32_t)need);
	if (rc == 0 && old.pool)
		mpib_window_put(conn->client, old.pool, old.off);
	pthread_mutex_unlock(&conn->client->lock);
	return rc < 0 ? rc : 1;
}

static int feed_group(struct mpib_conn *conn, struct mpib_request *r)
{
	struct mpib_window *w = &conn->window;
	uint64_t head, at[MPIB_GROUP_MAX];
	int room = mpib_ring_room(&conn->ring, r->n);

	if (room < r->n)
		return room < 0 ? room : 0;
	room = group_room(conn, r);
	if (room <= 0)
		return room;
	if (w->part_head - w->part_tail > MPIB_PARTS - MPIB_GROUP_MAX)
		return 0;
	head = w->head;
	for (unsigned i = 0; i < r->n; i++) {
		if (is_direct(&r->buf[i]))
			continue;
		if (!window_take(w, r->buf[i].size, &at[i])) {
			w->head = head;
			return 0;
		}
	}
	for (unsigned i = 0; i < r->n; i++) {
		if (is_direct(&r->buf[i]))
			push_direct(conn, r, i);
		else
			push_part(
				conn, r,
				add_part(conn, r, i, 0, r->buf[i].size, at[i]));
	}
	r->fed = true;
	return 1;
}

/* An error of our own is as final as one of the shard's. */
static void fail_conn(struct mpib_conn *conn, int error)
{
	conn->error = error;
	conn->ready = false;
}

static void feed(struct mpib_conn *conn)
{
	bool pushed = false;
	int rc;

	/* Acquire pairs with the release when the shard breaks the flow. */
	if (conn->error ||
	    atomic_load_explicit(&conn->reply->broken, memory_order_acquire))
		return;
	while (conn->feed_tail != conn->feed_head) {
		struct mpib_request *r =
			&conn->req[conn->feed[conn->feed_tail % MPIB_REQUESTS]];

		if (r->fed) {
			conn->feed_tail++;
			continue;
		}
		rc = r->n > 1 ? feed_group(conn, r) : feed_stream(conn, r);
		if (rc < 0)
			fail_conn(conn, rc);
		if (rc <= 0)
			break;
		pushed = true;
	}
	if (pushed)
		mpib_ring_bell(conn);
}

/* Bytes of the part that are there to take, and whether it is over. */
static bool part_over(const struct mpib_conn *conn,
		      const struct mpib_request *r, const struct mpib_part *p,
		      uint32_t *arrived)
{
	const struct mpib_completion *cpl = &conn->completion[r->index];
	uint32_t end;
	int32_t res;

	*arrived = 0;
	if (!r->busy)
		return true; /* it failed with the connection */
	if (mpib_completion_poll(cpl, r->gen, &res)) {
		if (res < 0)
			return true;
		end = r->n > 1 ? cpl->size[p->idx] : (uint32_t)res;
		if (end > p->pos)
			*arrived =
				end - p->pos < p->len ? end - p->pos : p->len;
		return true;
	}
	if (r->n > 1 || mpib_completion_progress(cpl, r->gen) < p->pos + p->len)
		return false;
	*arrived = p->len;
	return true;
}

static void copy_out(struct mpib_conn *conn, struct mpib_request *r,
		     const struct mpib_part *p, uint32_t len)
{
	const struct mpib_buffer *b = &r->buf[p->idx];

	if (!mpib_region_copy_begin(b->region)) {
		r->cancelled = true;
		return;
	}
	mpib_copy_up(b->addr + p->pos, part_addr(&conn->window, p), len);
	mpib_region_copy_end(b->region);
}

/* Requests end in the order posted, so do their parts. */
static void drain(struct mpib_conn *conn)
{
	struct mpib_window *w = &conn->window;

	while (w->part_tail != w->part_head) {
		const struct mpib_part *p = &w->part[w->part_tail % MPIB_PARTS];
		struct mpib_request *r = &conn->req[p->req];
		uint32_t arrived;
		int32_t res;

		if (!part_over(conn, r, p, &arrived))
			return;
		if (!conn->is_sender && arrived)
			copy_out(conn, r, p, arrived);
		w->tail = p->at + padded(p->len);
		w->part_tail++;
		r->parts--;
		/* Ended early: what was not pushed never will be. */
		if (mpib_completion_poll(&conn->completion[r->index], r->gen,
					 &res))
			r->fed = true;
	}
	/* From its start again, so that no gap at the end is in the way. */
	w->head = w->tail = 0;
}

void mpib_stage(struct mpib_conn *conn)
{
	if (conn->window.part_tail != conn->window.part_head)
		drain(conn);
	if (conn->feed_tail != conn->feed_head)
		feed(conn);
}
