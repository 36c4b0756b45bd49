/* SPDX-License-Identifier: Apache-2.0 */
#include "ipc/window.h"

#include <string.h>

#include "base/copy.h"
#include "ipc/client.h"

/* Set which bytes of a new window the FIFO uses. Existing parts of the FIFO
 * stay in the old window. Returns the number of these parts. */
static uint32_t run_cut(struct mpib_run *run, uint32_t off, uint32_t size)
{
	run->off = off;
	run->size = size;
	run->head = run->tail = 0;
	for (uint32_t i = run->part_tail; i != run->part_head; i++)
		run->part[i % MPIB_PARTS].end = 0;
	return run->part_head - run->part_tail;
}

void mpib_window_cut(struct mpib_window *w, uint32_t keep)
{
	uint32_t half = w->size / 2 & ~(MPIB_ALIGN - 1), n;

	keep = keep < half ? keep : half;
	n = run_cut(&w->big, 0, w->size - keep);
	n += run_cut(&w->small, w->size - keep, keep);
	/* Relaxed: this thread and all readers hold the client's lock. */
	atomic_store_explicit(&w->before, n, memory_order_relaxed);
}

void mpib_window_rest(struct mpib_conn *conn)
{
	struct mpib_window *w = &conn->window;

	if (atomic_load_explicit(&w->state, memory_order_relaxed) !=
	    MPIB_WINDOW_USED)
		return;
	/* Relaxed: if this thread reads an old value of `sweeps`,
	 * mpib_windows_sweep() may release the window too early, which does no
	 * harm. */
	atomic_store_explicit(&w->sweep,
			      atomic_load_explicit(&conn->client->sweeps,
						   memory_order_relaxed),
			      memory_order_relaxed);
	/* Release pairs with the acquire in mpib_window_use() and rested(). */
	atomic_store_explicit(&w->state, MPIB_WINDOW_RESTS,
			      memory_order_release);
}

/* Reserve `len` contiguous bytes of the FIFO, or the whole FIFO if `len` is
 * larger than the FIFO. Returns NULL if the FIFO has no room. */
static struct mpib_staging_chunk *run_take(struct mpib_run *run, uint32_t len)
{
	struct mpib_staging_chunk *p;
	uint64_t head = run->head;
	uint32_t in;

	if (!run->size || run->part_head - run->part_tail == MPIB_PARTS)
		return NULL;
	len = len < run->size ? len : run->size;
	in = (uint32_t)(head % run->size);
	if (in + mpib_window_padded(len) > run->size)
		head += run->size - in;
	if (head + mpib_window_padded(len) - run->tail > run->size)
		return NULL;
	p = &run->part[run->part_head++ % MPIB_PARTS];
	p->at = run->off + (uint32_t)(head % run->size);
	p->len = len;
	p->end = run->head = head + mpib_window_padded(len);
	return p;
}

/* Return whether the shard knows the receive that the send `r` answers. If so,
 * the shard posts each part of the send at once. */
static bool is_told(const struct mpib_request *r)
{
	return r->wanted || mpib_completion_progress(r->completion, r->gen) > 0;
}

struct mpib_staging_chunk *mpib_window_take(struct mpib_conn *conn,
					    struct mpib_request *r, unsigned i,
					    uint32_t len)
{
	struct mpib_window *w = &conn->window;
	bool waits = conn->is_sender && !is_told(r);
	struct mpib_staging_chunk *p;

	if (w->lost || (waits && w->waiting == MPIB_PARTS_WAITING))
		return NULL;
	p = run_take(&w->big, len);
	if (!p && conn->is_sender && !waits)
		p = run_take(&w->small, len);
	if (!p)
		return NULL;
	p->req = r->number;
	p->idx = (uint8_t)i;
	p->waits = waits;
	p->gone = false;
	p->pos = r->pos;
	w->waiting += waits;
	r->parts++;
	conn->work++;
	return p;
}

void mpib_window_untake(struct mpib_conn *conn, struct mpib_request *r,
			unsigned n)
{
	struct mpib_run *run = &conn->window.big;

	run->part_head -= n;
	run->head = run->part_head == run->part_tail
			    ? run->tail
			    : run->part[(run->part_head - 1) % MPIB_PARTS].end;
	r->parts = (uint16_t)(r->parts - n);
	conn->work -= n;
}

static void count_copy(struct mpib_conn *conn, uint32_t len)
{
	struct mpib_client_counts *n = &conn->at->submit->counts;

	mpib_count(&n->copies, 1);
	mpib_count(&n->copied_bytes, len);
}

bool mpib_window_copy_in(struct mpib_conn *conn, const struct mpib_request *r,
			 const struct mpib_staging_chunk *p)
{
	const struct mpib_buffer *b = &r->buf[p->idx];

	if (!mpib_region_copy_begin(b->region))
		return false;
	memcpy(mpib_window_addr(&conn->window, p), b->addr + p->pos, p->len);
	mpib_region_copy_end(b->region);
	count_copy(conn, p->len);
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
	mpib_copy_up(b->addr + p->pos, mpib_window_addr(&conn->window, p), len);
	mpib_region_copy_end(b->region);
	count_copy(conn, len);
}

static void run_forget(struct mpib_conn *conn, struct mpib_run *run,
		       struct mpib_request *r)
{
	for (uint32_t i = run->part_tail; i != run->part_head; i++) {
		struct mpib_staging_chunk *p = &run->part[i % MPIB_PARTS];

		if (p->gone || p->req != r->number)
			continue;
		p->gone = true;
		conn->window.waiting -= p->waits;
		conn->work--;
		r->parts--;
	}
}

void mpib_window_forget(struct mpib_conn *conn, struct mpib_request *r)
{
	run_forget(conn, &conn->window.big, r);
	run_forget(conn, &conn->window.small, r);
}

static void run_drop(struct mpib_conn *conn, struct mpib_run *run)
{
	for (uint32_t i = run->part_tail; i != run->part_head; i++) {
		const struct mpib_staging_chunk *p = &run->part[i % MPIB_PARTS];

		if (!p->gone)
			mpib_window_forget(conn, mpib_request_of(conn, p->req));
	}
	run_cut(run, 0, 0);
	run->part_tail = run->part_head;
}

void mpib_window_drop(struct mpib_conn *conn)
{
	struct mpib_window *w = &conn->window;

	run_drop(conn, &w->big);
	run_drop(conn, &w->small);
	w->size = 0;
	w->again_ms = 0;
	w->no_room = 0;
	/* Relaxed: this thread and all readers hold the client's lock. */
	atomic_store_explicit(&w->before, 0, memory_order_relaxed);
	atomic_store_explicit(&w->state, MPIB_WINDOW_NONE,
			      memory_order_relaxed);
}

/* Return whether the part is complete. If so, `*arrived` becomes the number of
 * bytes of the part that were transferred. */
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

/* Return whether the request failed together with its connection. */
static bool is_failed(const struct mpib_conn *conn,
		      const struct mpib_request *r)
{
	int32_t res;

	return mpib_completion_poll(r->completion, r->gen, &res) && res < 0 &&
	       !mpib_conn_refused(conn, res);
}

/* If the part is complete, copy its bytes out (receiver only), detach the part
 * from its request, and return true. */
static bool part_leaves(struct mpib_conn *conn,
			const struct mpib_staging_chunk *p)
{
	struct mpib_request *r = mpib_request_of(conn, p->req);
	uint32_t arrived;
	int32_t res;

	if (!part_over(r, p, &arrived))
		return false;
	if (!conn->is_sender && arrived)
		copy_out(conn, r, p, arrived);
	conn->window.lost |= is_failed(conn, r);
	conn->window.waiting -= p->waits;
	conn->work--;
	r->parts--;
	/* If the request has completed, do not push its remaining parts. */
	if (mpib_completion_poll(r->completion, r->gen, &res))
		r->feeding = false;
	return true;
}

static void run_drain(struct mpib_conn *conn, struct mpib_run *run)
{
	while (run->part_tail != run->part_head) {
		const struct mpib_staging_chunk *p =
			&run->part[run->part_tail % MPIB_PARTS];

		if (!p->gone && !part_leaves(conn, p))
			return;
		/* Release pairs with the acquire in mpib_windows_sweep(). */
		if (!p->end && !conn->window.lost)
			atomic_fetch_sub_explicit(&conn->window.before, 1,
						  memory_order_release);
		run->tail = p->end;
		run->part_tail++;
	}
	/* The FIFO is empty. Start again at offset 0, so that the largest
	 * possible part fits. */
	run->head = run->tail = 0;
}

void mpib_window_drain(struct mpib_conn *conn)
{
	run_drain(conn, &conn->window.big);
	run_drain(conn, &conn->window.small);
}
