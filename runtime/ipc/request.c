/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hot path: isend, irecv, test. No lock, no system call, no allocation.
 */
#include <errno.h>
#include <string.h>

#include "ipc/client.h"

#define LOOK_EVERY 1024 /* tests in vain before the clock is read */

static int broken(struct mpib_conn *conn, int rc)
{
	return mpib_fail(rc,
			 "connection %u is broken: %s (see the proxy's "
			 "log for the cause)",
			 conn->index, strerror(-rc));
}

/* Why nothing can be posted, or 0. */
static int check(struct mpib_conn *conn)
{
	int rc;

	if (__builtin_expect(conn->client->forks != mpib_forks, 0) ||
	    atomic_load_explicit(&conn->client->dead, memory_order_relaxed))
		return mpib_client_check(conn->client);
	/* Acquire pairs with the release when the shard breaks the flow. */
	rc = atomic_load_explicit(&conn->reply->broken, memory_order_acquire);
	if (__builtin_expect(rc == 0 && conn->ready, 1))
		return 0;
	if (rc != 0 || conn->error != 0)
		return broken(conn, rc ? rc : conn->error);
	return mpib_fail(-ENOTCONN, "connection %u is not ready", conn->index);
}

static bool inside(const struct mpib_region *r, const char *addr, size_t size)
{
	return r && addr >= r->addr && size <= r->size &&
	       (size_t)(addr - r->addr) <= r->size - size;
}

static int bad_buffer(const void *data, size_t size)
{
	if (size > MPIB_SIZE_MAX)
		return mpib_fail(-E2BIG,
				 "%zu bytes are more than one request may "
				 "have (%u)",
				 size, MPIB_SIZE_MAX);
	return mpib_fail(-EFAULT, "%zu bytes at %p are not inside the region",
			 size, data);
}

static struct mpib_request *take(struct mpib_conn *conn, int n)
{
	struct mpib_request *r;
	unsigned i;

	if (conn->free == 0)
		return NULL;
	i = (unsigned)__builtin_ctz(conn->free);
	conn->free &= conn->free - 1;
	r = &conn->req[i];
	r->gen = ++conn->gen ? conn->gen : ++conn->gen;
	r->n = (uint8_t)n;
	r->busy = true;
	r->staged = r->fed = r->cancelled = false;
	r->parts = 0;
	r->pos = 0;
	return r;
}

static void give(struct mpib_conn *conn, struct mpib_request *r)
{
	for (unsigned i = 0; r->staged && i < r->n; i++) {
		if (r->buf[i].region)
			mpib_region_unref(r->buf[i].region);
	}
	r->busy = false;
	conn->free |= 1u << r->index;
}

/* The staged, queued or grouped way: remember it in the order posted and push
 * what can be pushed. */
static int enqueue(struct mpib_conn *conn, struct mpib_request *r)
{
	bool staged = false;
	int rc = 0;

	for (unsigned i = 0; i < r->n; i++)
		staged |= r->buf[i].region && r->buf[i].region->staged;
	if (r->n > 1 && mpib_staged_bytes(r) > MPIB_SIZE_MAX)
		return mpib_fail(-E2BIG,
				 "a grouped receive of more than %u bytes of "
				 "ordinary memory",
				 MPIB_SIZE_MAX);
	if (staged && !conn->window.pool) {
		pthread_mutex_lock(&conn->client->lock);
		rc = mpib_window_get(conn, 0);
		pthread_mutex_unlock(&conn->client->lock);
		if (rc < 0)
			return rc;
	}
	for (unsigned i = 0; i < r->n; i++) {
		if (r->buf[i].region)
			mpib_region_ref(r->buf[i].region);
	}
	r->staged = true;
	conn->feed[conn->feed_head++ % MPIB_REQUESTS] = r->index;
	mpib_stage(conn);
	return 0;
}

static int submit(struct mpib_conn *conn, struct mpib_request *r, bool direct,
		  struct mpib_request **req)
{
	int rc;

	/* Requests are pushed in order: not past one that still waits. */
	if (direct && conn->feed_tail == conn->feed_head) {
		rc = mpib_ring_room(&conn->ring, r->n);
		if (rc < r->n) {
			give(conn, r);
			return rc < 0 ? mpib_fail(rc, "the proxy's ring head "
						      "is impossible")
				      : 0;
		}
		mpib_push_whole(conn, r);
		*req = r;
		return 0;
	}
	rc = enqueue(conn, r);
	if (rc < 0) {
		give(conn, r);
		return rc;
	}
	*req = r;
	return 0;
}

int mpib_isend(struct mpib_conn *conn, const void *data, size_t size, int tag,
	       struct mpib_region *region, struct mpib_request **req)
{
	struct mpib_request *r;
	char *addr;
	int rc = check(conn);

	*req = NULL;
	if (rc < 0)
		return rc;
	memcpy(&addr, &data, sizeof(addr)); /* only ever read from */
	if (size > MPIB_SIZE_MAX || (size && !inside(region, addr, size)))
		return bad_buffer(data, size);
	r = take(conn, 1);
	if (!r)
		return 0;
	r->buf[0] = (struct mpib_buffer){ addr, size ? region : NULL,
					  (uint32_t)size, tag };
	return submit(conn, r, size == 0 || !region->staged, req);
}

int mpib_irecv(struct mpib_conn *conn, int n, void *const *data,
	       const size_t *size, const int *tag,
	       struct mpib_region *const *region, struct mpib_request **req)
{
	struct mpib_request *r;
	bool direct = true;
	int rc = check(conn);

	*req = NULL;
	if (rc < 0)
		return rc;
	if (n < 1 || n > MPIB_GROUP_MAX)
		return mpib_fail(-EINVAL,
				 "a receive of %d buffers (1 to %d are "
				 "possible)",
				 n, MPIB_GROUP_MAX);
	for (int i = 0; i < n; i++) {
		if (size[i] > MPIB_SIZE_MAX ||
		    (size[i] && !inside(region[i], data[i], size[i])))
			return bad_buffer(data[i], size[i]);
		direct &= size[i] == 0 || !region[i]->staged;
	}
	r = take(conn, n);
	if (!r)
		return 0;
	for (int i = 0; i < n; i++)
		r->buf[i] = (struct mpib_buffer){ data[i],
						  size[i] ? region[i] : NULL,
						  (uint32_t)size[i],
						  tag ? tag[i] : 0 };
	return submit(conn, r, direct, req);
}

static int failed(struct mpib_conn *conn, struct mpib_request *r, int rc)
{
	const struct mpib_completion *cpl = &conn->completion[r->index];

	if (rc == -EMSGSIZE)
		mpib_fail(rc,
			  "send of %u bytes is larger than the posted receive "
			  "of %u bytes",
			  cpl->size[0], cpl->size[1]);
	else if (rc == -ECANCELED)
		mpib_fail(rc, "its memory was deregistered");
	else
		broken(conn, rc);
	give(conn, r);
	return rc;
}

static int finish(struct mpib_conn *conn, struct mpib_request *r, int32_t res,
		  size_t *sizes)
{
	const struct mpib_completion *cpl = &conn->completion[r->index];

	if (r->cancelled)
		res = -ECANCELED;
	if (res < 0)
		return failed(conn, r, res);
	if (sizes && r->n == 1)
		sizes[0] = (size_t)res;
	for (unsigned i = 0; sizes && r->n > 1 && i < r->n; i++)
		sizes[i] = cpl->size[i];
	give(conn, r);
	return 0;
}

/* All its bytes are where they belong and its word has turned. */
static bool over(struct mpib_request *r, int32_t *res)
{
	struct mpib_conn *conn = r->conn;

	if (r->parts > 0 ||
	    !mpib_completion_poll(&conn->completion[r->index], r->gen, res))
		return false;
	if (!r->fed) {
		/* Ended early: off the feed queue before its index can be used
		 * again. */
		r->fed = true;
		mpib_stage(conn);
	}
	return true;
}

/*
 * A broken connection's shard finishes what it has taken and takes no more, so
 * what is pending now stays so. 0: nothing is wrong.
 */
static int lost(struct mpib_request *r, int *done, size_t *sizes)
{
	struct mpib_conn *conn = r->conn;
	/* Acquire pairs with the shard's release: words it turned before it
	 * broke the connection are seen below. */
	int rc = atomic_load_explicit(&conn->reply->broken,
				      memory_order_acquire);
	int32_t res;

	if (rc == 0)
		rc = conn->error;
	if (rc == 0)
		return 0;
	mpib_stage(conn);
	if (mpib_completion_poll(&conn->completion[r->index], r->gen, &res)) {
		if (res >= 0 && r->parts > 0)
			return 0; /* whole, but those before it still end */
		rc = res;
	}
	r->fed = true;
	*done = 1;
	return finish(conn, r, rc, sizes);
}

/* Nothing yet. Now and then make sure that there still can be. */
static int pending(struct mpib_request *r, int *done, size_t *sizes)
{
	struct mpib_conn *conn = r->conn;
	int rc;

	if (++conn->idle % LOOK_EVERY)
		return 0;
	rc = lost(r, done, sizes);
	return rc < 0 || *done ? rc : mpib_client_look(conn->client);
}

int mpib_test(struct mpib_request *req, int *done, size_t *sizes)
{
	struct mpib_conn *conn = req->conn;
	int32_t res;

	*done = 0;
	if (__builtin_expect(conn->client->forks != mpib_forks, 0))
		return mpib_client_check(conn->client);
	if (conn->window.part_tail != conn->window.part_head ||
	    conn->feed_tail != conn->feed_head)
		mpib_stage(conn);
	if (over(req, &res)) {
		*done = 1;
		return finish(conn, req, res, sizes);
	}
	if (atomic_load_explicit(&conn->client->dead, memory_order_relaxed))
		return mpib_client_check(conn->client);
	return pending(req, done, sizes);
}

int mpib_request_buffers(const struct mpib_request *req)
{
	return req->n;
}
