/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hot path: isend, irecv, test. No lock, no system call, no allocation.
 */
#include <errno.h>
#include <string.h>

#include "ipc/client.h"

#define unlikely(x) __builtin_expect(!!(x), 0)

/* Relaxed: the death of the proxy orders nothing. */
static inline bool unusable(const struct mpib_conn *conn)
{
	const struct mpib_client *c = conn->client;

	return unlikely(c->forks != mpib_forks) ||
	       unlikely(conn->error | mpib_conn_broken(conn) |
			atomic_load_explicit(&c->dead, memory_order_relaxed));
}

static int why_unusable(struct mpib_conn *conn)
{
	int rc = mpib_client_check(conn->client);

	if (rc < 0)
		return rc;
	if (conn->error == -ENOTCONN)
		return mpib_fail(-ENOTCONN,
				 "connection %u is not ready (poll "
				 "mpib_ready() first)",
				 conn->index);
	return mpib_conn_fail(conn, mpib_conn_broken(conn), NULL);
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

/* conn->free is not 0. */
static struct mpib_request *take(struct mpib_conn *conn, int n)
{
	struct mpib_request *r = &conn->req[__builtin_ctz(conn->free)];

	conn->free &= conn->free - 1;
	if (unlikely(++conn->gen == 0))
		conn->gen = 1;
	r->gen = conn->gen;
	r->n = (uint8_t)n;
	r->slow = false;
	return r;
}

static void give(struct mpib_conn *conn, struct mpib_request *r)
{
	conn->free |= 1u << r->index;
	if (unlikely(r->held))
		mpib_regions_unref(r);
}

static int submit_slow(struct mpib_conn *conn, struct mpib_request *r,
		       struct mpib_request **req)
{
	int rc = mpib_stage_add(conn, r);

	if (rc < 0) {
		give(conn, r);
		return rc;
	}
	*req = r;
	return 0;
}

/* Requests are pushed in order: not past one that still waits. Room for all
 * descriptors of n buffers, 0, or -errno. */
static int room(struct mpib_conn *conn, int n)
{
	int rc = mpib_ring_room(&conn->ring, (uint32_t)n);

	if (rc < 0)
		return mpib_conn_fail(conn, rc,
				      "the head of the proxy's ring is "
				      "impossible");
	return rc >= n;
}

/*
 * One buffer of registered memory with nothing before it that waits: nearly
 * every message, so it is written straight into the slot. 0, *req NULL when
 * there is no room.
 */
static inline int post(struct mpib_conn *conn, enum mpib_op op,
		       const void *data, size_t size, int tag,
		       const struct mpib_region *region,
		       struct mpib_request **req)
{
	struct mpib_request *r;
	struct mpib_desc *d;
	int rc;

	/* The ring's own copy of the head says yes nearly always. */
	if (unlikely(conn->ring.tail - conn->ring.head_seen ==
		     conn->ring.size) &&
	    (rc = room(conn, 1)) <= 0)
		return rc;
	r = take(conn, 1);
	d = mpib_ring_next(&conn->ring);
	d->op = (uint8_t)op;
	d->req = r->index;
	d->idx = 0;
	d->n = 1;
	d->gen = r->gen;
	d->tag = tag;
	d->len = d->total = (uint32_t)size;
	d->pos = 0;
	d->mr = 0;
	d->off = 0;
	if (size > 0) {
		d->mr = region->mr;
		d->off = region->off +
			 (uint64_t)((const char *)data - region->addr);
	}
	mpib_ring_commit(&conn->ring);
	mpib_ring_bell(conn);
	*req = r;
	return 0;
}

int mpib_isend(struct mpib_conn *conn, const void *data, size_t size, int tag,
	       struct mpib_region *region, struct mpib_request **req)
{
	struct mpib_request *r;
	char *addr;

	*req = NULL;
	if (unusable(conn))
		return why_unusable(conn);
	memcpy(&addr, &data, sizeof(addr)); /* only ever read from */
	if (unlikely(size > MPIB_SIZE_MAX ||
		     (size && !inside(region, addr, size))))
		return bad_buffer(data, size);
	if (unlikely(conn->free == 0))
		return 0;
	if ((size == 0 || !region->staged) &&
	    conn->feed_tail == conn->feed_head)
		return post(conn, MPIB_OP_SEND, data, size, tag, region, req);
	r = take(conn, 1);
	r->buf[0] = (struct mpib_buffer){ addr, size ? region : NULL,
					  (uint32_t)size, tag };
	return submit_slow(conn, r, req);
}

/* 1: all of it is registered memory; 0: not; -errno. */
static int check_buffers(int n, void *const *data, const size_t *size,
			 struct mpib_region *const *region)
{
	size_t staged = 0;

	if (n < 1 || n > MPIB_GROUP_MAX)
		return mpib_fail(-EINVAL,
				 "a receive of %d buffers (1 to %d are "
				 "possible)",
				 n, MPIB_GROUP_MAX);
	for (int i = 0; i < n; i++) {
		if (size[i] > MPIB_SIZE_MAX ||
		    (size[i] && !inside(region[i], data[i], size[i])))
			return bad_buffer(data[i], size[i]);
		if (size[i] && region[i]->staged)
			staged += size[i] + MPIB_ALIGN;
	}
	if (n > 1 && staged > MPIB_WINDOW_MAX)
		return mpib_fail(-E2BIG,
				 "a grouped receive of %zu bytes of ordinary "
				 "memory (up to %u are possible)",
				 staged, MPIB_WINDOW_MAX);
	return staged == 0;
}

int mpib_irecv(struct mpib_conn *conn, int n, void *const *data,
	       const size_t *size, const int *tag,
	       struct mpib_region *const *region, struct mpib_request **req)
{
	struct mpib_request *r;
	int rc, direct;

	*req = NULL;
	if (unusable(conn))
		return why_unusable(conn);
	direct = check_buffers(n, data, size, region);
	if (unlikely(direct < 0))
		return direct;
	if (unlikely(conn->free == 0))
		return 0;
	direct = direct && conn->feed_tail == conn->feed_head;
	if (direct && n == 1)
		return post(conn, MPIB_OP_RECV, data[0], size[0],
			    tag ? tag[0] : 0, region[0], req);
	if (direct && unlikely((rc = room(conn, n)) <= 0))
		return rc;
	r = take(conn, n);
	for (int i = 0; i < n; i++)
		r->buf[i] = (struct mpib_buffer){ data[i],
						  size[i] ? region[i] : NULL,
						  (uint32_t)size[i],
						  tag ? tag[i] : 0 };
	if (!direct)
		return submit_slow(conn, r, req);
	for (int i = 0; i < n; i++)
		mpib_push_direct(conn, r, (unsigned)i);
	mpib_ring_bell(conn);
	*req = r;
	return 0;
}

/* The request is over and failed. */
static int failed(struct mpib_conn *conn, struct mpib_request *r, int rc)
{
	const struct mpib_completion *cpl = &conn->completion[r->index];

	if (rc == -EMSGSIZE)
		mpib_fail(rc,
			  "send of %u bytes is larger than the posted receive "
			  "of %u bytes",
			  cpl->size[0], cpl->size[1]);
	else if (rc == -ECANCELED && r->slow && r->cancelled)
		mpib_fail(rc, "its memory was deregistered");
	else
		rc = mpib_conn_fail(conn, rc, NULL);
	give(conn, r);
	return rc;
}

/* Of a request that is over. */
static int finish_slow(struct mpib_conn *conn, struct mpib_request *r,
		       int32_t res, size_t *sizes)
{
	const struct mpib_completion *cpl = &conn->completion[r->index];

	if (r->slow && !r->fed) {
		/* Ended early: off the feed queue before its index can be used
		 * again. */
		r->fed = true;
		mpib_stage(conn);
	}
	if (r->slow && r->cancelled)
		res = -ECANCELED;
	if (res < 0)
		return failed(conn, r, res);
	for (unsigned i = 0; sizes && i < r->n; i++)
		sizes[i] = r->n == 1 ? (size_t)res : cpl->size[i];
	give(conn, r);
	return 0;
}

/* Nothing yet. Make sure that there still can be. */
static int pending(struct mpib_conn *conn, struct mpib_request *r, int *done,
		   size_t *sizes)
{
	if (conn->error) {
		*done = 1;
		give(conn, r);
		return mpib_fail(conn->error, "%s", conn->why);
	}
	if (unlikely(mpib_conn_broken(conn))) {
		mpib_conn_fail(conn, mpib_conn_broken(conn), NULL);
		/* What ended before it broke counts: look a last time. */
		return mpib_test(r, done, sizes);
	}
	if (atomic_load_explicit(&conn->client->dead, memory_order_relaxed))
		return mpib_client_check(conn->client);
	if (++conn->idle % MPIB_LOOK_EVERY)
		return 0;
	return mpib_client_look(conn->client);
}

int mpib_test(struct mpib_request *req, int *done, size_t *sizes)
{
	struct mpib_conn *conn = req->conn;
	int32_t res;

	*done = 0;
	if (unlikely(conn->client->forks != mpib_forks))
		return mpib_client_check(conn->client);
	if (conn->work)
		mpib_stage(conn);
	if ((req->slow && req->parts) ||
	    !mpib_completion_poll(&conn->completion[req->index], req->gen,
				  &res))
		return pending(conn, req, done, sizes);
	*done = 1;
	if (unlikely(res < 0 || req->slow || req->n > 1))
		return finish_slow(conn, req, res, sizes);
	if (sizes)
		sizes[0] = (size_t)res;
	conn->free |= 1u << req->index;
	return 0;
}

int mpib_request_buffers(const struct mpib_request *req)
{
	return req->n;
}
