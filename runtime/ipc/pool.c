/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the proxy makes and registers and the client maps: staging pools,
 * carved into one window per connection, and what mpib_mem_alloc() returns.
 * Making, pinning and mapping a window takes milliseconds, for which the first
 * message waits: so the first pool is one window, and each further pool has as
 * many windows as all pools before it together. Small windows and whole ones
 * have pools of their own.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ipc/client.h"
#include "ipc/message.h"

#define POOL_BYTES (64ull << 20)
#define FIRST_BYTES (512u << 10) /* of a window that has carried little */
#define SWEEP_MS 30000 /* a window without use goes back after one or two */

static int pool_new(struct mpib_client *c, size_t size, bool keep,
		    struct mpib_pool **pool)
{
	struct mpib_ctl_pool ask = {
		.h = { .type = MPIB_CTL_POOL, .len = sizeof(ask) },
		.size = size,
	};
	struct mpib_pool *p = calloc(1, sizeof(*p));
	struct mpib_message m;
	int rc;

	if (!p)
		return mpib_fail(-ENOMEM, "out of memory");
	p->debt.undo = MPIB_CTL_DEREG;
	rc = mpib_rpc_make(c, &ask.h, NULL, 0, &p->debt, &m,
			   sizeof(struct mpib_ctl_region));
	if (rc < 0)
		return rc;
	rc = m.fds == 1 ? mpib_memseg_attach(&p->seg, m.fd[0], size, true)
			: -EPROTO;
	if (rc == 0 && keep)
		p->memory.kept = mpib_keep(c, m.fd[0]);
	mpib_message_close_fds(&m);
	if (rc < 0) {
		mpib_rpc_undo(c, &p->debt);
		return mpib_fail(rc,
				 "pool of %zu bytes: %s (see the limits, "
				 "ulimit -a)",
				 size, mpib_errtext(rc));
	}
	p->memory.size = p->seg.size;
	p->memory.flags = MPIB_REG_MEMFD;
	p->mr = p->debt.id;
	*pool = p;
	return 0;
}

/* For windows. */
static int pool_stage(struct mpib_client *c, size_t size,
		      struct mpib_pool **pool)
{
	int rc = pool_new(c, size, false, pool);

	if (rc == 0)
		LIST_INSERT_HEAD(&c->at->pools, *pool, link);
	return rc;
}

void mpib_pool_free(struct mpib_pool *pool)
{
	LIST_REMOVE(pool, link);
	mpib_memseg_fini(&pool->seg);
	free(pool);
}

uint32_t mpib_window_first(const struct mpib_attached *at)
{
	return at->welcome.window < FIRST_BYTES ? at->welcome.window
						: FIRST_BYTES;
}

static bool in_use(const struct mpib_client *c, const struct mpib_pool *p)
{
	for (unsigned i = 0; i < MPIB_INDEXES_MAX; i++) {
		const struct mpib_index *x = &c->at->index[i];

		if (x->taken && (x->window.pool == p || x->before.pool == p))
			return true;
	}
	return false;
}

static void place_lost(struct mpib_window_memory *at, const struct mpib_pool *p)
{
	if (at->pool == p)
		*at = (struct mpib_window_memory){ 0 };
}

/*
 * Give back a pool without waiting for the answer. The proxy may still write
 * into windows of closing connections; it fences before it deregisters.
 */
static void pool_drop(struct mpib_client *c, struct mpib_pool *p)
{
	for (unsigned i = 0; i < MPIB_INDEXES_MAX; i++) {
		place_lost(&c->at->index[i].window, p);
		place_lost(&c->at->index[i].before, p);
	}
	LIST_REMOVE(p, link);
	mpib_memseg_fini(&p->seg);
	mpib_rpc_undo_later(c, &p->debt);
}

/* The window is empty and unused. */
static void place_put(struct mpib_client *c, struct mpib_window_memory *at)
{
	if (at->pool && at->pool->carve)
		at->pool->windows_free |= 1ull << at->off / at->pool->carve;
	else if (at->pool)
		pool_drop(c, at->pool);
	*at = (struct mpib_window_memory){ 0 };
}

/* A pool with a window of this size. */
static struct mpib_pool *pool_with_window(struct mpib_client *c, uint32_t bytes)
{
	struct mpib_pool *p;

	LIST_FOREACH(p, &c->at->pools, link)
	{
		if (p->carve == bytes && p->windows_free)
			return p;
	}
	return NULL;
}

/* Windows of the next pool: as many as there are in all pools so far. */
static unsigned grow_by(const struct mpib_client *c, uint32_t bytes)
{
	unsigned most = (unsigned)(POOL_BYTES / bytes), n = 0;
	const struct mpib_pool *p;

	LIST_FOREACH(p, &c->at->pools, link)
	{
		if (p->carve == bytes)
			n += (unsigned)(p->seg.size / bytes);
	}
	most = most > 64 ? 64 : most;
	n = n > most ? most : n;
	return n > 0 ? n : 1;
}

static int pool_carve(struct mpib_client *c, uint32_t bytes,
		      struct mpib_pool **pool)
{
	unsigned n = grow_by(c, bytes);
	struct mpib_pool *p;
	int rc;

	rc = pool_stage(c, (size_t)n * bytes, &p);
	if (rc < 0)
		return rc;
	p->carve = bytes;
	p->windows_free = n == 64 ? UINT64_MAX : (1ull << n) - 1;
	*pool = p;
	return 0;
}

/* A small or a whole window comes out of a shared pool; a larger one is a pool of
 * its own. */
static int window_new(struct mpib_client *c, uint32_t size,
		      struct mpib_window_memory *at)
{
	const uint32_t whole = c->at->welcome.window,
		       first = mpib_window_first(c->at);
	struct mpib_pool *p;
	unsigned i;
	int rc;

	if (size > whole) {
		at->size = size;
		return pool_stage(c, size, &at->pool);
	}
	size = size > first ? whole : first;
	p = pool_with_window(c, size);
	if (!p) {
		rc = pool_carve(c, size, &p);
		if (rc < 0)
			return rc;
	}
	i = (unsigned)__builtin_ctzll(p->windows_free);
	p->windows_free &= ~(1ull << i);
	at->pool = p;
	at->off = (uint64_t)i * size;
	at->size = size;
	return 0;
}

int mpib_window_get(struct mpib_client *c, struct mpib_index *x, uint32_t size,
		    bool busy)
{
	struct mpib_window_memory got = { 0 };
	int rc;

	if (x->window.pool && x->window.size >= size)
		return 0;
	rc = window_new(c, size, &got);
	if (rc < 0)
		return rc;
	place_put(c, &x->before);
	if (busy)
		x->before = x->window;
	else
		place_put(c, &x->window);
	x->window = got;
	/* Take the page faults now, not during the first messages. A kernel
	 * before 5.14 refuses, and the faults come later. */
	madvise((char *)got.pool->seg.addr + got.off, got.size,
		MADV_POPULATE_WRITE);
	return 0;
}

void mpib_window_put(struct mpib_client *c, struct mpib_index *x)
{
	place_put(c, &x->window);
	place_put(c, &x->before);
}

/* Nothing in this process uses the pool any more. */
static void pool_return(struct mpib_client *c, struct mpib_pool *pool)
{
	LIST_REMOVE(pool, link);
	mpib_memseg_fini(&pool->seg);
	mpib_memory_drop(c, &pool->memory);
	mpib_rpc_undo(c, &pool->debt);
}

void mpib_windows_trim(struct mpib_client *c)
{
	struct mpib_pool *p, *next, *spare = NULL;

	for (p = LIST_FIRST(&c->at->pools); p; p = next) {
		next = LIST_NEXT(p, link);
		if (in_use(c, p))
			continue;
		/* Keep the last in the list, the oldest and smallest. */
		if (spare)
			pool_drop(c, spare);
		spare = p;
	}
	if (spare && LIST_EMPTY(&c->conns) && LIST_EMPTY(&c->regions))
		pool_drop(c, spare);
}

static bool rested(struct mpib_window *w, uint32_t before)
{
	unsigned rests = MPIB_WINDOW_RESTS;

	/* Acquire pairs with the release in mpib_window_rest(). Afterwards the
	 * connection's thread has to take the lock to get a window. */
	return atomic_load_explicit(&w->state, memory_order_relaxed) == rests &&
	       atomic_load_explicit(&w->sweep, memory_order_relaxed) !=
		       before &&
	       atomic_compare_exchange_strong_explicit(
		       &w->state, &rests, MPIB_WINDOW_NONE,
		       memory_order_acquire, memory_order_relaxed);
}

void mpib_windows_sweep(struct mpib_client *c, uint64_t now_ms)
{
	struct mpib_conn *conn;
	uint32_t before;

	if (now_ms - c->swept < SWEEP_MS)
		return;
	c->swept = now_ms;
	/* Windows that came to rest since the last sweep stay. */
	before = atomic_fetch_add_explicit(&c->sweeps, 1, memory_order_relaxed);
	LIST_FOREACH(conn, &c->conns, link)
	{
		struct mpib_index *x = conn->place;

		if (conn->at != c->at)
			continue;
		/* Acquire pairs with the release after the last part. */
		if (!atomic_load_explicit(&conn->window.before,
					  memory_order_acquire))
			place_put(c, &x->before);
		if (rested(&conn->window, before))
			place_put(c, &x->window);
	}
	mpib_windows_trim(c);
}

void *mpib_mem_alloc(struct mpib_client *client, size_t size)
{
	struct mpib_pool *p;
	int rc = mpib_client_lock(client);

	if (rc == 0) {
		rc = pool_new(client, size, true, &p);
		if (rc == 0)
			LIST_INSERT_HEAD(&client->pools, p, link);
		mpib_client_unlock(client);
		if (rc == -EPIPE && mpib_client_again(client))
			return mpib_mem_alloc(client, size);
	}
	if (rc < 0) {
		errno = -rc;
		return NULL;
	}
	return p->seg.addr;
}

void mpib_mem_free(struct mpib_client *client, void *addr)
{
	struct mpib_pool *p;

	if (client->forks != mpib_forks)
		return; /* forked child: the memory is the parent's */
	mpib_client_hold(client);
	LIST_FOREACH(p, &client->pools, link)
	{
		if (p->seg.addr == addr)
			break;
	}
	if (p)
		pool_return(client, p);
	mpib_client_unlock(client);
}
