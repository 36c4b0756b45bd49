/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stats socket: accepting readers, and the snapshots that they share. At
 * most one snapshot is being taken or answered from at a time.
 */
#include "stats/stats.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "stats/reader.h"

#define PAUSE (MPIB_SEC / 10)
#define BUDGET (MPIB_MSEC / 2) /* of a slice, before the loop goes on */

double mpib_stats_uptime(const struct mpib_stats *st)
{
	return (double)(mpib_now_ns() - st->start_ns) / 1e9;
}

static void take_snapshot(struct mpib_stats *st);

/* Whether r waits for an answer from the snapshot that st has. */
static bool stats_served(const struct mpib_stats *st,
			 const struct stats_reader *r)
{
	return st->snap && r->waits && r->ticket <= st->asked;
}

/* Free the snapshot when no reader waits for it any more, and take the next one
 * for readers that asked meanwhile. */
static void end_snapshot(struct mpib_stats *st)
{
	struct stats_reader *r;
	bool more = false;

	TAILQ_FOREACH(r, &st->readers, link)
	{
		if (stats_served(st, r))
			return;
		more |= r->waits != NULL;
	}
	if (st->snap)
		mpib_snapshot_free(st->snap);
	st->snap = NULL;
	if (more && !st->taking)
		take_snapshot(st);
}

static void on_work(void *arg)
{
	struct mpib_stats *st = arg;
	uint64_t until = mpib_loop_now(st->loop) + BUDGET;
	struct stats_reader *r;

	do {
		r = TAILQ_FIRST(&st->queue);
		if (!r)
			break;
		TAILQ_REMOVE(&st->queue, r, queue_link);
		r->queued = false;
		st->view.snap = r->waits ? st->snap : NULL;
		st->view.uptime_s = mpib_stats_uptime(st);
		stats_reader_step(r);
	} while (mpib_loop_now(st->loop) < until);
	st->view.snap = NULL;
	if (!TAILQ_EMPTY(&st->queue))
		mpib_timer_arm(st->loop, &st->work, 0, on_work, st);
	end_snapshot(st);
}

void mpib_stats_queue(struct stats_reader *r)
{
	struct mpib_stats *st = r->stats;

	r->queued = true;
	TAILQ_INSERT_TAIL(&st->queue, r, queue_link);
	if (!st->work.armed)
		mpib_timer_arm(st->loop, &st->work, 0, on_work, st);
}

static void stats_on_snapshot(void *arg, struct mpib_snapshot *snap)
{
	struct mpib_stats *st = arg;
	struct stats_reader *r, *next;

	st->taking = false;
	st->snap = snap;
	for (r = TAILQ_FIRST(&st->readers); r; r = next) {
		next = TAILQ_NEXT(r, link);
		if (!r->waits || r->ticket > st->asked)
			continue;
		if (snap)
			mpib_stats_queue(r);
		else
			stats_reader_drop(r);
	}
	end_snapshot(st);
}

/* The smallest age in ns from which a waiting reader wants to see requests;
 * UINT64_MAX: no reader wants any. */
static uint64_t youngest_asked_for(const struct mpib_stats *st)
{
	uint64_t least = UINT64_MAX, ns;
	struct stats_reader *r;

	TAILQ_FOREACH(r, &st->readers, link)
	{
		if (r->waits && r->waits->needs == MPIB_NEEDS_REQUESTS &&
		    mpib_ask_age(&r->ask, &ns) && ns < least)
			least = ns;
	}
	return least;
}

static void take_snapshot(struct mpib_stats *st)
{
	uint64_t older = youngest_asked_for(st);
	struct stats_reader *r;
	int rc;

	st->asked++;
	st->taking = true;
	if (older < UINT64_MAX)
		rc = mpib_engine_snapshot_requests(st->engine, older,
						   stats_on_snapshot, st);
	else
		rc = mpib_engine_snapshot(st->engine, stats_on_snapshot, st);
	if (rc == 0)
		return;
	mpib_warn("stats: out of memory");
	st->taking = false;
	/* Drop them in the next turn: the callers walk the list of readers. */
	TAILQ_FOREACH(r, &st->readers, link)
	{
		if (r->waits)
			mpib_timer_arm(st->loop, &r->timer, 0,
				       stats_reader_expire, r);
	}
}

/* A snapshot that is being taken may already have passed a shard, so it is too
 * old for this command: the next one answers it. */
void mpib_stats_wait(struct stats_reader *r, const struct mpib_command *c)
{
	struct mpib_stats *st = r->stats;

	r->waits = c;
	r->ticket = st->asked + 1;
	mpib_loop_mod(st->loop, &r->watch, 0);
	if (!st->taking && !st->snap)
		take_snapshot(st);
}

static void stats_refuse(int fd)
{
	static const char full[] =
		"{\"ok\":false,\"error\":\"too many readers\",\"hint\":"
		"\"raise limit.readers\"}\n";

	if (send(fd, full, sizeof(full) - 1, MSG_NOSIGNAL) < 0)
		mpib_debug("stats: a refused reader was gone: %m");
	close(fd);
}

static void stats_welcome(struct mpib_stats *st, int fd)
{
	json_t *greeting = json_pack("{ss sI sI sf}", "mpib", MPIB_VERSION,
				     "proto", (json_int_t)MPIB_STATS_PROTO,
				     "pid", (json_int_t)st->view.pid,
				     "uptime_s", mpib_stats_uptime(st));

	stats_reader_new(st, fd, greeting);
	json_decref(greeting);
}

static void stats_on_accept(void *arg, uint32_t events);

static void stats_on_resume(void *arg)
{
	struct mpib_stats *st = arg;

	mpib_loop_add(st->loop, &st->watch, st->fd, EPOLLIN, stats_on_accept,
		      st);
}

static void stats_on_accept(void *arg, uint32_t events)
{
	struct mpib_stats *st = arg;
	int fd = accept4(st->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	if (fd >= 0) {
		if (st->count >= st->view.cfg->max_readers)
			stats_refuse(fd);
		else
			stats_welcome(st, fd);
	} else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
		/* The socket stays readable: retrying at once would spin. */
		mpib_warn("a reader of the stats socket waits: accept: %m "
			  "(raise LimitNOFILE)");
		mpib_loop_del(st->loop, &st->watch);
		mpib_timer_arm(st->loop, &st->pause, PAUSE, stats_on_resume,
			       st);
	}
}

int mpib_stats_open(struct mpib_loop *loop, struct mpib_engine *engine, int fd,
		    const struct mpib_view *view, struct mpib_stats **stats)
{
	struct mpib_stats *st = calloc(1, sizeof(*st));
	int rc;

	if (!st)
		return -ENOMEM;
	st->loop = loop;
	st->engine = engine;
	st->fd = fd;
	st->view = *view;
	TAILQ_INIT(&st->readers);
	TAILQ_INIT(&st->queue);
	st->start_ns = mpib_now_ns();
	rc = mpib_loop_add(loop, &st->watch, fd, EPOLLIN, stats_on_accept, st);
	if (rc < 0) {
		free(st);
		return rc;
	}
	*stats = st;
	return 0;
}

void mpib_stats_admin(struct mpib_stats *stats, const struct mpib_admin *admin)
{
	stats->admin = admin;
}

void mpib_stats_stop(struct mpib_stats *stats)
{
	mpib_timer_disarm(stats->loop, &stats->pause);
	mpib_loop_del(stats->loop, &stats->watch);
	while (!TAILQ_EMPTY(&stats->readers))
		stats_reader_drop(TAILQ_FIRST(&stats->readers));
	mpib_timer_disarm(stats->loop, &stats->work);
	end_snapshot(stats);
}

void mpib_stats_free(struct mpib_stats *stats)
{
	free(stats);
}
