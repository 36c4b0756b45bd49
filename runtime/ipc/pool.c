/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the proxy allocates and registers, and that the client maps: the
 * staging windows of connections, and the memory from mpib_mem_alloc(). Each
 * window has its own MR. So a peer that has the remote key of one window cannot
 * access the window of another connection.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ipc/client.h"
#include "ipc/message.h"

/* Maximum size of a connection's first window, in bytes. */
#define FIRST_BYTES (512u << 10)
/* Minimum time, in ms, between two sweeps. A sweep releases the windows that
 * have been empty since the previous sweep. */
#define SWEEP_MS 30000

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
	*pool = p;
	return 0;
}

void mpib_pool_free(struct mpib_pool *pool)
{
	if (!pool)
		return;
	mpib_memseg_fini(&pool->seg);
	free(pool);
}

uint32_t mpib_window_first(const struct mpib_attached *at)
{
	return at->welcome.window < FIRST_BYTES ? at->welcome.window
						: FIRST_BYTES;
}

/*
 * Release a window that this process does not use any more, without waiting for
 * the proxy's answer. If the connection is closing, the peer may still write to
 * the window. The proxy fences these writes before it deregisters the window.
 */
static void window_drop(struct mpib_client *c, struct mpib_pool **window)
{
	struct mpib_pool *p = *window;

	if (!p)
		return;
	*window = NULL;
	mpib_memseg_fini(&p->seg);
	mpib_rpc_undo_later(c, &p->debt);
}

int mpib_window_get(struct mpib_client *c, struct mpib_index *x, uint32_t size,
		    bool busy)
{
	const uint32_t whole = c->at->welcome.window,
		       first = mpib_window_first(c->at);
	struct mpib_pool *got;
	int rc;

	if (mpib_window_size(x->window) >= size)
		return 0;
	if (size < whole)
		size = size > first ? whole : first;
	rc = pool_new(c, size, false, &got);
	if (rc < 0)
		return rc;
	window_drop(c, &x->before);
	if (busy)
		x->before = x->window;
	else
		window_drop(c, &x->window);
	x->window = got;
	/* Allocate the pages now, so that the first messages cause no page
	 * faults. Linux before 5.14 does not support this call. On such a
	 * kernel, the first messages cause the page faults. */
	madvise(got->seg.addr, size, MADV_POPULATE_WRITE);
	return 0;
}

void mpib_window_put(struct mpib_client *c, struct mpib_index *x)
{
	window_drop(c, &x->window);
	window_drop(c, &x->before);
}

void mpib_windows_trim(struct mpib_client *c)
{
	for (uint32_t i = 0; i < c->at->used; i++) {
		if (!c->at->index[i].taken)
			mpib_window_put(c, &c->at->index[i]);
	}
}

static bool rested(struct mpib_window *w, uint32_t before)
{
	unsigned rests = MPIB_WINDOW_RESTS;

	/* Acquire pairs with the release in mpib_window_rest(). After the state
	 * is NONE, the connection's thread must take the client's lock to get
	 * another window. */
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
	/* Keep the windows that became empty after the previous sweep. */
	before = atomic_fetch_add_explicit(&c->sweeps, 1, memory_order_relaxed);
	LIST_FOREACH(conn, &c->conns, link)
	{
		struct mpib_index *x = conn->place;

		if (conn->at != c->at || conn->closing)
			continue;
		/* Acquire pairs with the release in run_drain(). */
		if (!atomic_load_explicit(&conn->window.before,
					  memory_order_acquire))
			window_drop(c, &x->before);
		if (rested(&conn->window, before))
			window_drop(c, &x->window);
	}
	mpib_windows_trim(c);
}

void *mpib_mem_alloc(struct mpib_client *client, size_t size)
{
	struct mpib_pool *p;
	int rc = mpib_client_lock(client);

	if (rc == 0) {
		rc = pool_new(client, size, true, &p);
		if (rc == 0) {
			LIST_INSERT_HEAD(&client->pools, p, link);
			TAILQ_INSERT_HEAD(&client->memories, &p->memory, link);
		}
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
		/* this is a forked child: the memory belongs to the parent */
		return;
	mpib_client_hold(client);
	LIST_FOREACH(p, &client->pools, link)
	{
		if (p->seg.addr == addr)
			break;
	}
	if (p) {
		LIST_REMOVE(p, link);
		mpib_memseg_fini(&p->seg);
		mpib_memory_drop(client, &p->memory);
		mpib_rpc_undo(client, &p->debt);
	}
	mpib_client_unlock(client);
}
