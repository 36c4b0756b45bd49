/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Continue a connection in another instance (client.h, docs/recovery.md). The
 * connection's requests contain all data that is needed to post them again.
 *
 * The old instance has stopped: no process writes its completion words any
 * more, so these words are final. In a sending end, the proxy also publishes a
 * record for each send (mpib_answer()). This record contains the number of the
 * receive that the send has matched. If the receiving rank has completed that
 * receive, the send is complete, too.
 */
#include <errno.h>

#include "ipc/client.h"

#define WAKE_MS 2

void mpib_requests_sort(struct mpib_request **r, unsigned n, uint32_t newest)
{
	for (unsigned i = 1; i < n; i++) {
		struct mpib_request *one = r[i];
		unsigned at = i;

		for (; at && newest - r[at - 1]->gen < newest - one->gen; at--)
			r[at] = r[at - 1];
		r[at] = one;
	}
}

/* Return the number of the receive whose completion word is `word`. The first
 * receive of this instance has number 1. Returns 0 if `word` is not from a
 * recent request of this instance. `posts` is the number of posted receives, or
 * up to MPIB_RING_SLOTS less. */
static uint64_t word_counts(const struct mpib_conn *conn, uint64_t posts,
			    uint64_t word)
{
	uint32_t since = (uint32_t)(word >> 32) - conn->first_gen;
	/* Accept a word only if the number of its receive is close to `posts`:
	 * at most MPIB_RING_SLOTS + MPIB_REQUESTS smaller, and at most
	 * MPIB_RING_SLOTS larger. */
	uint32_t ahead = (since / 2 + 1 + MPIB_RING_SLOTS + MPIB_REQUESTS -
			  (uint32_t)posts) &
			 INT32_MAX;
	uint64_t over = posts + ahead;

	if (since % 2 || ahead > 2 * MPIB_RING_SLOTS + MPIB_REQUESTS ||
	    over <= MPIB_RING_SLOTS + MPIB_REQUESTS)
		return 0;
	return over - MPIB_RING_SLOTS - MPIB_REQUESTS;
}

uint64_t mpib_conn_over(const struct mpib_conn *conn)
{
	/* Relaxed: `posts` can lack up to MPIB_RING_SLOTS of the newest
	 * requests. word_counts() accepts the completion words of these
	 * requests, too. */
	uint64_t posts =
		atomic_load_explicit(&conn->posts, memory_order_relaxed);
	uint64_t most = 0;

	for (unsigned i = 0; i < MPIB_REQUESTS; i++) {
		/* Relaxed: no process writes this word any more. */
		uint64_t word = atomic_load_explicit(&conn->completion[i].word,
						     memory_order_relaxed);
		uint64_t over = word_counts(conn, posts, word);

		most = over > most ? over : most;
	}
	return conn->base + most;
}

/* If the peer's rank has completed the receive that the send `r` answers, mark
 * `r` as complete and return true. `answer` is the record of `r`
 * (mpib_answer()). `base` is the number of receives that both ends had
 * completed before the next instance. */
static bool ends_by_record(struct mpib_conn *conn, struct mpib_request *r,
			   uint64_t answer, uint64_t base)
{
	/* The receive's number in `answer` is relative to conn->base. */
	uint32_t receive = (uint32_t)conn->base + (uint32_t)answer;
	uint32_t behind = ((uint32_t)base - receive) & INT32_MAX;

	if (answer >> 32 != r->gen || behind == 0 || behind > INT32_MAX / 2)
		return false;
	mpib_request_end(conn, r,
			 answer & MPIB_ANSWER_REFUSED
				 ? -EMSGSIZE
				 : (int32_t)r->buf[0].size);
	return true;
}

/* Call mpib_request_end() for each completed request that has a completion
 * entry (feed.h). Store the other requests with completion entries in `left`,
 * oldest first, and return their number. */
static unsigned requests_left(struct mpib_conn *conn, uint64_t base,
			      const _Atomic uint64_t *answers,
			      struct mpib_request **left)
{
	bool idle[MPIB_REQUESTS] = { false };
	struct mpib_request *list[2] = { conn->free, conn->reserve };
	unsigned n = 0;

	for (unsigned i = 0; i < 2; i++) {
		for (struct mpib_request *r = list[i]; r; r = r->next)
			idle[mpib_request_index(r)] = true;
	}
	for (unsigned i = 0; i < MPIB_REQUESTS; i++) {
		struct mpib_request *r = conn->placed[i];
		uint64_t answer = 0; /* matches no request */
		int32_t result;

		if (idle[i] || r->over)
			continue;
		/* Relaxed: no process writes this word any more. */
		if (answers)
			answer = atomic_load_explicit(&answers[i],
						      memory_order_relaxed);
		if (mpib_completion_poll(r->completion, r->gen, &result))
			mpib_request_end(conn, r, result);
		else if (!ends_by_record(conn, r, answer, base))
			left[n++] = r;
	}
	mpib_requests_sort(left, n, conn->gen);
	return n;
}

/* Fill `left` with the queued requests that have no completion entry (feed.h),
 * oldest first. Return their number. */
static unsigned queued_left(const struct mpib_conn *conn,
			    struct mpib_request **left)
{
	unsigned n = 0;

	for (struct mpib_request *r = conn->feed.first; r; r = r->next) {
		if (!r->completion)
			left[n++] = r;
	}
	return n;
}

/* Under the lock. Return whether the buffer's region still exists and contains
 * the buffer. The region may already be freed, because requests of the fast
 * path do not hold references on their regions. */
static bool buffer_is_there(const struct mpib_client *c,
			    const struct mpib_buffer *b)
{
	const struct mpib_region *region;

	if (!b->size)
		return true;
	LIST_FOREACH(region, &c->regions, link)
	{
		if (region == b->region)
			return mpib_region_holds(region, b->addr, b->size);
	}
	return false;
}

static bool buffers_are_there(const struct mpib_client *c,
			      struct mpib_request *const *r, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		for (unsigned b = 0; b < r[i]->n; b++) {
			if (!buffer_is_there(c, &r[i]->buf[b]))
				return false;
		}
	}
	return true;
}

/* Under the lock. Prevent other threads from freeing the regions of the
 * requests before the requests are posted again. */
static void regions_ref(struct mpib_request *const *r, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (!r[i]->held)
			mpib_regions_ref(r[i]);
	}
}

/* Under the lock. Move the connection to its next instance. `left` contains the
 * `n` requests that will be posted again. */
static void change_index(struct mpib_conn *conn,
			 struct mpib_request *const *left, unsigned n)
{
	const struct mpib_instance *to = &conn->next;
	struct mpib_client *c = conn->client;
	struct mpib_attached *old = conn->at;
	struct mpib_debt *debt = mpib_conn_leave(conn);
	bool again[MPIB_REQUESTS] = { false };

	for (unsigned i = 0; i < n; i++) {
		if (left[i]->completion)
			again[mpib_request_index(left[i])] = true;
	}
	mpib_window_drop(conn);
	if (old == c->at && mpib_client_ok(c))
		mpib_rpc_undo_later(c, debt);
	mpib_conn_enter(conn, to->at, to->index);
	conn->base = to->base;
	if (conn->place->window)
		mpib_stage_take_window(conn);
	/* Relaxed: next_state is set only under the lock. */
	atomic_store_explicit(&conn->next_state, MPIB_NEXT_NONE,
			      memory_order_relaxed);
	for (unsigned i = 0; i < MPIB_REQUESTS; i++) {
		struct mpib_request *r = conn->placed[i];

		r->completion = &conn->completion[i];
		if (!again[i])
			mpib_place_rest(r);
	}
	conn->work -= conn->feed.n;
	conn->feed.first = conn->feed.last = NULL;
	conn->feed.n = 0;
	/* Drop the old session last, because it contains the completion
	 * words of the old instance. */
	mpib_attached_put(old);
}

bool mpib_conn_lacks_window(const struct mpib_conn *conn)
{
	const struct mpib_index *to = &conn->next.at->index[conn->next.index];

	return mpib_window_size(to->window) <
	       mpib_window_size(conn->place->window);
}

static bool is_ready(const struct mpib_conn *conn)
{
	/* Acquire pairs with the release in next_set(). */
	return atomic_load_explicit(&conn->next_state, memory_order_acquire) ==
	       MPIB_NEXT_READY;
}

/* Wake the helper, but at most once in WAKE_MS for all connections of the
 * client. If many ranks polled many connections and woke their helpers each
 * time, the proxies would lack CPU time. */
static void wake_helper(struct mpib_conn *conn)
{
	struct mpib_helper *helper = &conn->client->helper;
	uint64_t now, then;

	if (++conn->idle % MPIB_LOOK_EVERY)
		return;
	now = mpib_now_ms();
	/* Relaxed: two threads may wake the helper at the same time, which does
	 * no harm. */
	then = atomic_load_explicit(&helper->woken, memory_order_relaxed);
	if (now - then < WAKE_MS)
		return;
	atomic_store_explicit(&helper->woken, now, memory_order_relaxed);
	mpib_helper_wake(conn->client);
}

int mpib_conn_resume(struct mpib_conn *conn)
{
	const _Atomic uint64_t *answers = NULL;
	struct mpib_request *left[MPIB_SENDS_MAX], *flush[MPIB_FLUSHES_MAX];
	struct mpib_client *c = conn->client;
	unsigned n, flushes;
	bool there;

	if (conn->error && conn->error != -ENOTCONN)
		return mpib_conn_fail(conn, conn->error, NULL);
	if (!mpib_client_try(c))
		return 0;
	if (!is_ready(conn) || mpib_conn_lacks_window(conn)) {
		/* The helper gets a window for the next instance. */
		wake_helper(conn);
		mpib_client_unlock(c);
		return 0;
	}
	/* First copy the arrived bytes out of the staging window. */
	mpib_window_drain(conn);
	if (conn->is_sender)
		answers = conn->at->reply->answers[conn->index];
	n = requests_left(conn, conn->next.base, answers, left);
	n += queued_left(conn, left + n);
	flushes = mpib_flush_left(conn, flush);
	there = buffers_are_there(c, left, n) &&
		buffers_are_there(c, flush, flushes);
	if (there) {
		regions_ref(left, n);
		regions_ref(flush, flushes);
		change_index(conn, left, n);
	}
	mpib_client_unlock(c);
	if (!there)
		return mpib_conn_fail(conn, -ECANCELED,
				      "memory was deregistered while a "
				      "request had to be posted again");
	for (unsigned i = 0; i < n; i++)
		mpib_stage_again(conn, left[i]);
	mpib_flush_repost(conn, flush, flushes);
	mpib_stage(conn);
	return 1;
}

int mpib_conn_goes_on(struct mpib_conn *conn)
{
	struct mpib_client *c = conn->client;
	int rc = mpib_client_check(c);

	if (rc < 0)
		return rc;
	if (mpib_conn_lives(conn, c) &&
	    mpib_conn_broken(conn) != MPIB_BROKEN_LOST)
		return 1;
	if (is_ready(conn))
		return mpib_conn_resume(conn);
	rc = mpib_conn_lost(conn);
	if (rc < 0)
		return mpib_conn_fail(conn, rc, NULL);
	if (!mpib_client_again(c)) {
		/* The helper may have given up since the check above. */
		rc = mpib_client_check(c);
		if (rc < 0)
			return rc;
		return mpib_conn_fail(conn, -ECONNRESET,
				      "the connection was lost, and this "
				      "process cannot ask for it again (see "
				      "the log of mpib-proxy)");
	}
	wake_helper(conn);
	return 0;
}
