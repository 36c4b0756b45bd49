/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots for readers. The ticket of a waiting reader is the number of the
 * oldest snapshot that is new enough for the reader. gather_serve() holds a
 * reference to the snapshot until it has called the callbacks of all such
 * readers.
 */
#include "metrics/gather.h"

#include "base/log.h"

static void gather_take(void *arg);

void mpib_gather_init(struct mpib_gather *g, struct mpib_loop *loop,
		      struct mpib_engine *engine, const struct mpib_view *view)
{
	*g = (struct mpib_gather){
		.loop = loop,
		.engine = engine,
		.view = *view,
		.start = mpib_loop_now(loop),
	};
	TAILQ_INIT(&g->waits);
}

/* After the last reference was dropped: free the snapshot, and take the next
 * one if a reader waits for it. */
static void gather_end(struct mpib_gather *g)
{
	if (g->snap)
		mpib_snapshot_free(g->snap);
	g->view.snap = g->snap = NULL;
	if (!TAILQ_EMPTY(&g->waits))
		mpib_timer_arm(g->loop, &g->again, 0, gather_take, g);
}

/* Call the callback of each reader for which the new snapshot is new enough.
 * Readers with later tickets follow in the list and get another snapshot. */
static void gather_serve(struct mpib_gather *g, const struct mpib_view *v)
{
	uint64_t now = g->begun;
	struct mpib_gather_wait *w;

	g->kept = 1;
	while ((w = TAILQ_FIRST(&g->waits)) && w->ticket <= now) {
		mpib_gather_forget(g, w);
		w->fn(w->arg, v);
	}
	mpib_gather_release(g);
}

static void gather_on_snapshot(void *arg, struct mpib_snapshot *snap)
{
	struct mpib_gather *g = arg;

	g->taking = false;
	g->view.snap = g->snap = snap;
	g->view.uptime_s = (double)(mpib_loop_now(g->loop) - g->start) / 1e9;
	gather_serve(g, snap ? &g->view : NULL);
}

/* Return the smallest `older_ns` of all waiting readers; UINT64_MAX: no reader
 * asks for requests. */
static uint64_t gather_youngest(const struct mpib_gather *g)
{
	uint64_t least = UINT64_MAX;
	const struct mpib_gather_wait *w;

	TAILQ_FOREACH(w, &g->waits, link)
	{
		if (w->older_ns < least)
			least = w->older_ns;
	}
	return least;
}

static void gather_take(void *arg)
{
	struct mpib_gather *g = arg;
	uint64_t older = gather_youngest(g);
	int rc;

	if (g->taking || g->kept || TAILQ_EMPTY(&g->waits))
		return;
	g->begun++;
	g->taking = true;
	if (older < UINT64_MAX)
		rc = mpib_engine_snapshot_requests(g->engine, older,
						   gather_on_snapshot, g);
	else
		rc = mpib_engine_snapshot(g->engine, gather_on_snapshot, g);
	if (rc == 0)
		return;
	g->taking = false;
	mpib_warn("statistics: out of memory");
	gather_serve(g, NULL);
}

void mpib_gather_ask_requests(struct mpib_gather *g,
			      struct mpib_gather_wait *wait, uint64_t older_ns,
			      mpib_gather_fn *fn, void *arg)
{
	wait->fn = fn;
	wait->arg = arg;
	wait->waiting = true;
	wait->older_ns = older_ns;
	/* Wait for the next snapshot. A snapshot in progress is too old for
	 * this call, because it may have read a shard already. */
	wait->ticket = g->begun + 1;
	wait->put_off = false;
	TAILQ_INSERT_TAIL(&g->waits, wait, link);
	if (!g->taking && !g->kept)
		mpib_timer_arm(g->loop, &g->again, 0, gather_take, g);
}

void mpib_gather_ask(struct mpib_gather *g, struct mpib_gather_wait *wait,
		     mpib_gather_fn *fn, void *arg)
{
	mpib_gather_ask_requests(g, wait, UINT64_MAX, fn, arg);
}

void mpib_gather_put_off(struct mpib_gather *g, struct mpib_gather_wait *wait)
{
	struct mpib_gather_wait *next = TAILQ_FIRST(&g->waits);

	/* Insert `wait` behind the readers that wait for the current snapshot,
	 * and behind the readers that were put off earlier. */
	while (next && (next->ticket <= g->begun || next->put_off))
		next = TAILQ_NEXT(next, link);
	wait->waiting = wait->put_off = true;
	wait->ticket = g->begun + 1;
	if (next)
		TAILQ_INSERT_BEFORE(next, wait, link);
	else
		TAILQ_INSERT_TAIL(&g->waits, wait, link);
}

void mpib_gather_keep(struct mpib_gather *g)
{
	g->kept++;
}

void mpib_gather_release(struct mpib_gather *g)
{
	if (--g->kept == 0)
		gather_end(g);
}

void mpib_gather_forget(struct mpib_gather *g, struct mpib_gather_wait *wait)
{
	if (!wait->waiting)
		return;
	wait->waiting = false;
	TAILQ_REMOVE(&g->waits, wait, link);
}
