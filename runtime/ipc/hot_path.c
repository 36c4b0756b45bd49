/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hot path: mpib_isend(), mpib_irecv() and mpib_test(), which run on the
 * connection's thread in the rank. For memory that needs no copy, these
 * functions take no lock, allocate nothing, and make no system call unless the
 * shard sleeps. Unusual cases take the slow path.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "ipc/client.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

static inline void request_give(struct mpib_conn *conn, struct mpib_request *r)
{
	r->next = conn->free;
	conn->free = r;
}

static void give_slow(struct mpib_conn *conn, struct mpib_request *r)
{
	if (r->flush) {
		mpib_flush_give(r);
		return;
	}
	if (r->held)
		mpib_regions_unref(r);
	r->feeding = r->wanted = r->over = r->cancelled = false;
	r->parts = 0;
	r->plain[0] &= MPIB_OP_MASK;
	mpib_request_give(conn, r);
}

/*
 * Post a request in the usual case: the request has one buffer that needs no
 * copy, client `c` has registered the buffer's memory, no other request is
 * queued on the connection, and the ring has room. In all other cases, return
 * NULL. Then request_post() handles the request.
 */
__attribute__((always_inline)) static inline struct mpib_request *
post_fast(struct mpib_conn *conn, const struct mpib_client *c, uintptr_t addr,
	  size_t size, int tag, struct mpib_region *region)
{
	struct mpib_request *r;
	struct mpib_desc *d;
	uint64_t off;

	/* If `size` is 0, `size` - 1 wraps. So a request without bytes also
	 * takes the slow path. */
	if (unlikely(!region || size - 1 >= region->direct))
		return NULL;
	if (unlikely(region->client != c))
		return NULL;
	off = addr - (uintptr_t)region->addr;
	if (unlikely(off > region->size - size || !mpib_conn_lives(conn, c)))
		return NULL;
	if (unlikely((int)conn->work | mpib_conn_broken(conn)))
		return NULL;
	r = conn->free;
	/* If the completion entry was last used before generations wrapped, its
	 * completion word may already contain the next generation: see
	 * has_next_gen(). */
	if (unlikely(!r || r->gen == conn->gen + 2 ||
		     conn->ring.tail - conn->ring.head_seen == MPIB_RING_SLOTS))
		return NULL;
	d = mpib_ring_next(&conn->ring);
	conn->free = r->next;
	mpib_request_number(conn, r);
	r->n = 1;
	r->slow = false;
	r->buf[0] = (struct mpib_buffer){ tag, (uint32_t)size, (char *)addr,
					  region };
	memcpy(&d->op, r->plain, sizeof(r->plain));
	d->gen = r->gen;
	d->mr = mpib_region_mr(region);
	d->tag = tag;
	d->off = region->off + off;
	d->len = (uint32_t)size;
	d->pos = 0;
	d->total = (uint32_t)size;
	mpib_ring_commit(&conn->ring, d);
	return r;
}

/*
 * Push the request `r` to the shard. Queue `r` instead if other requests are
 * queued, if `r` is staged, or if `r` has no completion entry (feed.h). Returns
 * 1 if `r` was accepted, -errno after an error, or 0 if the ring or the window
 * has no room: then call again.
 */
static int request_submit(struct mpib_conn *conn, struct mpib_request *r,
			  bool direct)
{
	int n = r->n + (r->n > 1 ? MPIB_FLUSHES_KEPT : 0), rc;

	if (direct && r->completion && !conn->feed.first) {
		rc = mpib_conn_room(conn, (uint32_t)n);
		if (rc < 0)
			return mpib_conn_fail(conn, rc, MPIB_BAD_HEAD);
		if (rc < n) {
			mpib_count(&conn->at->submit->counts.stalls_ring, 1);
			return 0;
		}
		mpib_request_number(conn, r);
		for (unsigned i = 0; i < r->n; i++)
			mpib_push_direct(conn, r, i);
		mpib_ring_bell(conn);
		return 1;
	}
	return mpib_stage_add(conn, r);
}

/* Record whether mpib_isend() has just refused a send because it found no
 * unused request. For tools, publish the time of the first refusal since the
 * last accepted send. */
__attribute__((noinline)) static void note_refused(struct mpib_conn *conn,
						   bool refused)
{
	_Atomic uint64_t *since = &conn->at->submit->refused[conn->index];

	if (conn->refused == refused)
		return;
	conn->refused = refused;
	/* While `refused` is set, each post takes the slow path and calls this
	 * function again. */
	conn->work += refused ? 1u : -1u;
	/* Relaxed: no other data is published with this time. */
	atomic_store_explicit(since, refused ? mpib_now_ns() : 0,
			      memory_order_relaxed);
}

/* Return an unused request for a receive of `n` buffers, or for a send with
 * this tag. `direct` is true if the request is not staged. Returns NULL if
 * there is no unused request. */
static struct mpib_request *slow_take(struct mpib_conn *conn, int n, int tag,
				      bool direct)
{
	bool queue = conn->is_sender && (!direct || conn->feed.first);
	struct mpib_request *r =
		queue ? NULL : mpib_place_take(conn, &conn->free);

	if (!r && conn->is_sender)
		r = mpib_feed_take(conn, tag);
	if (conn->is_sender)
		note_refused(conn, !r);
	if (!r) {
		mpib_count(&conn->at->submit->counts.stalls_ring, 1);
		return NULL;
	}
	r->n = (uint8_t)n;
	r->slow = n > 1;
	return r;
}

/* The functions below check the arguments of a request, on the slow path. */

static int bad_buffer(const void *data, size_t size)
{
	if (size > MPIB_SIZE_MAX)
		return mpib_fail(-E2BIG,
				 "a request of %zu bytes is too large (the "
				 "maximum is %u)",
				 size, MPIB_SIZE_MAX);
	return mpib_fail(-EFAULT, "%zu bytes at %p are not inside the region",
			 size, data);
}

/* Check one buffer of a request. The region must belong to client `c`, because
 * MR ids of different clients are unrelated. */
static int check_buffer(const struct mpib_client *c, const void *data,
			size_t size, const struct mpib_region *region)
{
	if (size > MPIB_SIZE_MAX ||
	    (size && !(region && mpib_region_holds(region, data, size))))
		return bad_buffer(data, size);
	if (size && region->client != c)
		return mpib_fail(-EINVAL,
				 "the region belongs to another client");
	return 0;
}

static int check_buffers(const struct mpib_client *c, int n, void *const *data,
			 const size_t *size, struct mpib_region *const *region)
{
	size_t staged = 0;

	if (n < 1 || n > MPIB_GROUP_MAX)
		return mpib_fail(-EINVAL,
				 "a receive of %d buffers (1 to %d are "
				 "possible)",
				 n, MPIB_GROUP_MAX);
	for (int i = 0; i < n; i++) {
		int rc = check_buffer(c, data[i], size[i], region[i]);

		if (rc < 0)
			return rc;
		if (size[i] && region[i]->staged)
			staged += size[i] + MPIB_ALIGN;
	}
	if (n > 1 && staged > MPIB_WINDOW_MAX)
		return mpib_fail(-E2BIG,
				 "a grouped receive of %zu bytes of ordinary "
				 "memory (up to %u are possible)",
				 staged, MPIB_WINDOW_MAX);
	return 0;
}

/* Fail a call that is valid only at the other end of the connection. Returns
 * the connection's error if the connection has failed, and -EINVAL
 * otherwise. */
static int wrong_end(struct mpib_conn *conn, const char *what)
{
	int rc = mpib_conn_usable(conn);

	return rc < 0 ? rc
		      : mpib_fail(-EINVAL,
				  "%s (connect to send, accept to "
				  "receive)",
				  what);
}

__attribute__((noinline)) static int
request_post(struct mpib_conn *conn, int n, void *const *data,
	     const size_t *size, const int *tag,
	     struct mpib_region *const *region, struct mpib_request **req)
{
	struct mpib_request *r;
	bool direct = true;
	int rc = mpib_conn_usable(conn);

	if (rc > 0)
		rc = check_buffers(conn->client, n, data, size, region);
	else if (rc == 0)
		return 0;
	if (rc < 0)
		return rc;
	for (int i = 0; i < n; i++)
		direct &= size[i] == 0 || !region[i]->staged;
	r = slow_take(conn, n, tag ? tag[0] : 0, direct);
	if (!r)
		return 0;
	for (int i = 0; i < n; i++) {
		r->buf[i] = (struct mpib_buffer){
			.tag = tag ? tag[i] : 0,
			.size = (uint32_t)size[i],
			.addr = data[i],
			.region = size[i] ? region[i] : NULL,
		};
	}
	mpib_report_ask(conn, r);
	rc = request_submit(conn, r, direct);
	if (rc <= 0) {
		mpib_report_drop(r);
		give_slow(conn, r);
		return rc;
	}
	*req = r;
	mpib_report_asked(conn, r);
	return 0;
}

/* This function has the same parameters as mpib_isend(), so that the compiler
 * turns the call in mpib_isend() into a jump. */
__attribute__((noinline)) static int
send_slow(struct mpib_conn *conn, const void *data, size_t size, int tag,
	  struct mpib_region *region, struct mpib_request **req)
{
	void *addr;

	*req = NULL;
	if (!conn->sends)
		return wrong_end(conn, "a receiving end does not send");
	memcpy(&addr, &data, sizeof(addr)); /* a send only reads the memory */
	return request_post(conn, 1, &addr, &size, &tag, &region, req);
}

int mpib_isend(struct mpib_conn *conn, const void *data, size_t size, int tag,
	       struct mpib_region *region, struct mpib_request **req)
{
	struct mpib_request *r = post_fast(conn, conn->sends, (uintptr_t)data,
					   size, tag, region);

	if (unlikely(!r))
		return send_slow(conn, data, size, tag, region, req);
	*req = r;
	return mpib_ring_bell(conn);
}

int mpib_irecv(struct mpib_conn *conn, int n, void *const *data,
	       const size_t *size, const int *tag,
	       struct mpib_region *const *region, struct mpib_request **req)
{
	struct mpib_request *r = NULL;

	if (likely(n == 1))
		r = post_fast(conn, conn->receives, (uintptr_t)data[0], size[0],
			      tag ? tag[0] : 0, region[0]);
	*req = r;
	if (likely(r))
		return mpib_ring_bell(conn);
	if (!conn->receives)
		return wrong_end(conn, "a sending end does not receive");
	return request_post(conn, n, data, size, tag, region, req);
}

/* Finish a request that completed with the error `rc`: set the error text,
 * release the request and return the error. Returns 0 if the reason for the
 * error is not known yet. In this case the request stays in use. */
static int request_failed(struct mpib_conn *conn, struct mpib_request *r,
			  int rc)
{
	const struct mpib_completion *cpl = r->completion;

	if (mpib_conn_refused(conn, rc))
		mpib_fail(rc,
			  "send of %u bytes is larger than the posted receive "
			  "of %u bytes",
			  r->over ? r->buf[0].size : cpl->size[0],
			  r->over ? r->pos : cpl->size[1]);
	else if (rc == -ECANCELED && r->cancelled)
		mpib_fail(rc, "its memory was deregistered");
	else
		rc = mpib_conn_fail(conn, rc, NULL);
	if (rc < 0)
		give_slow(conn, r);
	return rc;
}

/* Finish a request that completed with the result `res`: set `*done` to 1,
 * store the sizes of the buffers in `sizes`, and release the request. If the
 * request failed and the reason is not known yet, set `*done` to 0 and keep the
 * request. */
static int finish_slow(struct mpib_conn *conn, struct mpib_request *r,
		       int32_t res, int *done, int *sizes)
{
	int rc;

	if (r->feeding) {
		/* The request completed before it was completely pushed.
		 * mpib_stage() removes the request from the feed queue before
		 * the request can be reused. */
		r->feeding = false;
		mpib_stage(conn);
	}
	if (r->cancelled)
		res = -ECANCELED;
	if (res < 0) {
		rc = request_failed(conn, r, res);
		*done = rc < 0;
		return rc;
	}
	*done = 1;
	for (unsigned i = 0; sizes && i < r->n; i++)
		sizes[i] = r->n == 1 ? res
			   : r->over ? (int)r->buf[i].size
				     : (int)r->completion->size[i];
	give_slow(conn, r);
	return 0;
}

/* Handle a test of a request that has not completed: check that the connection
 * and the proxy still work. */
static int request_pending(struct mpib_conn *conn, struct mpib_request *r,
			   int *done, int *sizes)
{
	int rc = 0;

	if (conn->error) {
		*done = 1;
		if (r->watched)
			mpib_report_look(conn, r, true);
		give_slow(conn, r);
		return mpib_fail(conn->error, "%s", conn->why);
	}
	rc = mpib_conn_broken(conn);
	if (unlikely(rc && rc != MPIB_BROKEN_LOST)) {
		if (!mpib_conn_fail(conn, rc, NULL))
			return 0;
		/* Test the request again, because it may have completed before
		 * the connection broke. The second test does not get here,
		 * because conn->error is now set. */
		return mpib_test_int(r, done, sizes);
	}
	rc = mpib_conn_goes_on(conn);
	if (rc > 0)
		rc = ++conn->idle % MPIB_LOOK_EVERY
			     ? 0
			     : mpib_client_look(conn->client);
	if (rc < 0 && r->watched)
		mpib_report_look(conn, r, true);
	return rc;
}

/* This function has the same parameters as mpib_test_int(), so that the
 * compiler turns the call in mpib_test_int() into a jump. */
__attribute__((noinline)) static int test_slow(struct mpib_request *req,
					       int *done, int *sizes)
{
	struct mpib_conn *conn = req->conn;
	int32_t res;
	bool over;

	*done = 0;
	if (conn->client->forks != mpib_forks)
		return mpib_client_check(conn->client);
	if (conn->work)
		mpib_stage(conn);
	if (req->flush) {
		if (!mpib_flush_over(req))
			return request_pending(conn, req, done, sizes);
		mpib_flush_give(req);
		*done = 1;
		return 0;
	}
	over = mpib_request_over(conn, req, &res);
	if (req->watched || conn->report == MPIB_REPORT_LATER)
		mpib_report_look(conn, req, over);
	if (!over)
		return request_pending(conn, req, done, sizes);
	return finish_slow(conn, req, res, done, sizes);
}

int mpib_test_int(struct mpib_request *req, int *done, int *sizes)
{
	struct mpib_conn *conn = req->conn;
	int32_t res;

	if (unlikely(conn->client->forks != mpib_forks) ||
	    unlikely(conn->work | req->slow) ||
	    !mpib_completion_poll(req->completion, req->gen, &res) ||
	    unlikely(res < 0))
		return test_slow(req, done, sizes);
	request_give(conn, req);
	*done = 1;
	if (sizes)
		*sizes = res;
	return 0;
}

int mpib_test(struct mpib_request *req, int *done, size_t *sizes)
{
	int got[MPIB_GROUP_MAX], n = req->flush ? 0 : req->n;
	int rc = mpib_test_int(req, done, got);

	for (int i = 0; rc == 0 && *done && sizes && i < n; i++)
		sizes[i] = (size_t)got[i];
	return rc;
}

int mpib_request_buffers(const struct mpib_request *req)
{
	return req->n;
}
