/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The feed queue of a connection, which contains the requests that are not
 * completely pushed to the shard. This file also assigns completion entries
 * ("places", see feed.h) to sends. All functions run on the connection's
 * thread, inside posts and tests.
 */
#include <errno.h>

#include "ipc/client.h"

_Static_assert(MPIB_SENDS_MAX == 2 * MPIB_SENDS_QUEUED + MPIB_REQUESTS,
	       "as feed.h says");

static bool is_reserved(const struct mpib_request *r)
{
	return mpib_request_index(r) >= MPIB_REQUESTS - MPIB_RESERVE;
}

/* Return whether a word in the unused completion entry of `r` already contains
 * the next generation. Such a word was written before generations wrapped. Also
 * check the progress word: the shard writes this word for few requests only, so
 * it may be older than the completion word. */
static bool has_next_gen(const struct mpib_conn *conn,
			 const struct mpib_request *r)
{
	uint32_t gen = conn->gen + 2;

	return r->gen == gen || mpib_completion_reported(r->completion, gen);
}

/* Move the last request of the list to its front. */
static void use_last(struct mpib_request **list)
{
	struct mpib_request *last, **link = list;

	if (!*list)
		return;
	while ((*link)->next)
		link = &(*link)->next;
	last = *link;
	*link = NULL;
	last->next = *list;
	*list = last;
}

void mpib_conn_lap(struct mpib_conn *conn)
{
	/* Relaxed: only this thread writes `posts`, and readers accept a value
	 * that is too small by up to MPIB_RING_SLOTS. */
	uint64_t posts =
		atomic_load_explicit(&conn->posts, memory_order_relaxed);
	uint32_t now = (conn->gen - conn->first_gen) / 2 + 1;
	uint32_t turn = conn->gen / MPIB_TURN;

	posts += (now - (uint32_t)posts) & INT32_MAX;
	atomic_store_explicit(&conn->posts, posts, memory_order_relaxed);
	if (turn == conn->turn)
		return;
	conn->turn = turn;
	use_last(&conn->free);
	use_last(&conn->reserve);
}

struct mpib_request *mpib_place_take(struct mpib_conn *conn,
				     struct mpib_request **list)
{
	struct mpib_request *r = *list;

	for (; r && has_next_gen(conn, r); r = *list)
		list = &r->next;
	if (r)
		*list = r->next;
	return r;
}

/* Move the completion entry of the request `from` to the request `r`, which has
 * none. */
static void move_place(struct mpib_conn *conn, struct mpib_request *r,
		       struct mpib_request *from)
{
	r->completion = from->completion;
	r->plain[1] = from->plain[1];
	from->completion = NULL;
	conn->placed[mpib_request_index(r)] = r;
	mpib_request_number(conn, r);
}

static void make_bare(struct mpib_conn *conn, struct mpib_request *r)
{
	r->next = conn->bare;
	conn->bare = r;
}

/* Give `r` the completion entry of an unused request on the list. Returns false
 * if no request on the list has a usable entry. */
static bool take_idle(struct mpib_conn *conn, struct mpib_request *r,
		      struct mpib_request **list)
{
	struct mpib_request *idle = mpib_place_take(conn, list);

	if (!idle)
		return false;
	move_place(conn, r, idle);
	make_bare(conn, idle);
	return true;
}

bool mpib_request_over(struct mpib_conn *conn, struct mpib_request *r,
		       int32_t *res)
{
	if (r->over)
		*res = r->result;
	else if (!r->completion ||
		 !mpib_completion_poll(r->completion, r->gen, res))
		return false;
	if (r->parts && conn->is_sender &&
	    (*res >= 0 || mpib_conn_refused(conn, *res)))
		mpib_window_forget(conn, r);
	return !r->parts;
}

void mpib_request_end(struct mpib_conn *conn, struct mpib_request *r,
		      int32_t result)
{
	const struct mpib_completion *cpl = r->completion;

	if (r->watched)
		mpib_report_look(conn, r, true);
	/* Keep the sizes of the send and of the receive for the error text. */
	if (result < 0) {
		r->buf[0].size = cpl->size[0];
		r->pos = cpl->size[1];
	} else if (r->n > 1) {
		for (unsigned i = 0; i < r->n; i++)
			r->buf[i].size = cpl->size[i];
	}
	r->result = result;
	r->feeding = false;
	r->over = r->slow = true;
}

/* If the request `r` has completed, call mpib_request_end() with the result
 * from the completion word. Returns false if `r` has not completed, or is not
 * completely pushed. */
static bool request_note(struct mpib_conn *conn, struct mpib_request *r)
{
	int32_t result;

	if (r->over)
		return true;
	if (r->feeding || !mpib_request_over(conn, r, &result))
		return false;
	mpib_request_end(conn, r, result);
	return true;
}

void mpib_place_rest(struct mpib_request *r)
{
	/* Relaxed: the shard does not write to an unused completion entry. */
	uint64_t word = atomic_load_explicit(&r->completion->word,
					     memory_order_relaxed);

	r->gen = (uint32_t)(word >> 32);
}

/* The completion entries from `first` to `end` - 1 are all in use. If one of
 * their sends is complete but not tested yet, give its completion entry to
 * `r`. */
static bool take_over(struct mpib_conn *conn, struct mpib_request *r,
		      unsigned first, unsigned end)
{
	for (unsigned i = first; i < end; i++) {
		struct mpib_request *other = conn->placed[i];

		if (!has_next_gen(conn, other) && request_note(conn, other)) {
			move_place(conn, r, other);
			return true;
		}
	}
	return false;
}

/* Give the request `r` a completion entry. Only a wanted send may get a
 * reserved entry. */
static bool find_place(struct mpib_conn *conn, struct mpib_request *r)
{
	const unsigned usual = MPIB_REQUESTS - MPIB_RESERVE;

	if (take_idle(conn, r, &conn->free) || take_over(conn, r, 0, usual))
		return true;
	return r->wanted && (take_idle(conn, r, &conn->reserve) ||
			     take_over(conn, r, usual, MPIB_REQUESTS));
}

/* Return whether some bytes of the request `r` were pushed. */
static bool feed_begun(const struct mpib_request *r)
{
	return r->pos > 0;
}

/* Remove `tag` from the list of `*n` tags. Returns false if the list does not
 * contain `tag`. */
static bool strike(int32_t *tags, unsigned *n, int32_t tag)
{
	for (unsigned i = 0; i < *n; i++) {
		if (tags[i] == tag) {
			tags[i] = tags[--*n];
			return true;
		}
	}
	return false;
}

/* Mark the queued sends that the oldest unanswered receive needs. The receive
 * may have other tags, for which no send is queued. Store these tags in `tags`,
 * and return their number. */
static unsigned mark_wanted(struct mpib_conn *conn, int32_t *tags)
{
	unsigned n = mpib_want_read(&conn->reply->want, conn->ring.tail, tags);

	for (struct mpib_request *r = conn->feed.first; r && n; r = r->next) {
		if (!feed_begun(r) && strike(tags, &n, r->buf[0].tag))
			r->wanted = true;
	}
	return n;
}

static bool is_wanted(struct mpib_conn *conn, int32_t tag)
{
	int32_t tags[MPIB_GROUP_MAX];
	unsigned n = mark_wanted(conn, tags);

	return strike(tags, &n, tag);
}

static struct mpib_request *bare_take(struct mpib_conn *conn)
{
	struct mpib_feed *q = &conn->feed;
	struct mpib_request *r = conn->bare;

	if (r) {
		conn->bare = r->next;
		return r;
	}
	if (q->used == MPIB_SENDS_MAX - MPIB_REQUESTS)
		return NULL;
	r = &q->room[q->used];
	*r = (struct mpib_request){
		.conn = conn,
		.plain = { [0] = MPIB_OP_SEND, [3] = 1 },
		.n = 1,
		.number = (uint16_t)(MPIB_REQUESTS + q->used++),
	};
	return r;
}

struct mpib_request *mpib_feed_take(struct mpib_conn *conn, int32_t tag)
{
	if (conn->feed.n >= MPIB_SENDS_QUEUED)
		mpib_stage(conn);
	if (conn->feed.n >= MPIB_SENDS_QUEUED && !is_wanted(conn, tag))
		return NULL;
	return bare_take(conn);
}

void mpib_request_give(struct mpib_conn *conn, struct mpib_request *r)
{
	struct mpib_request **list = &conn->free;

	if (!r->completion)
		list = &conn->bare;
	else if (conn->is_sender && is_reserved(r))
		list = &conn->reserve;
	r->next = *list;
	*list = r;
}

void mpib_feed_add(struct mpib_conn *conn, struct mpib_request *r)
{
	struct mpib_feed *q = &conn->feed;

	r->next = NULL;
	if (q->first)
		q->last->next = r;
	else
		q->first = r;
	q->last = r;
	q->n++;
	conn->work++;
}

/* Like mpib_stage_push(), but first give the request a completion entry if it
 * has none. */
static int feed_one(struct mpib_conn *conn, struct mpib_request *r)
{
	int rc;

	if (!r->feeding)
		return 1;
	if (!r->completion && !find_place(conn, r))
		return 0;
	rc = mpib_stage_push(conn, r);
	r->slow |= is_reserved(r);
	return rc;
}

void mpib_feed(struct mpib_conn *conn)
{
	struct mpib_feed *q = &conn->feed;
	struct mpib_request *r, *next, **link = &q->first, *last = NULL;
	int32_t tags[MPIB_GROUP_MAX];
	/* If a request must wait, all later requests must wait, too, except
	 * wanted sends. If a wanted send must wait, all later wanted sends must
	 * wait, too. So the order of sends with the same tag does not
	 * change. */
	bool waits = false, wanted_waits = false;
	int rc = 0;

	if (conn->is_sender)
		mark_wanted(conn, tags);
	for (r = q->first; r; r = next) {
		next = r->next;
		if (rc >= 0 &&
		    (feed_begun(r) || !(r->wanted ? wanted_waits : waits)))
			rc = feed_one(conn, r);
		waits |= rc <= 0;
		wanted_waits |= r->wanted && r->feeding && !feed_begun(r);
		if (r->feeding) {
			last = r;
			link = &r->next;
			continue;
		}
		*link = next;
		q->n--;
		conn->work--;
	}
	q->last = last;
	if (rc == -EPROTO)
		mpib_conn_fail(conn, rc, MPIB_BAD_HEAD);
}
