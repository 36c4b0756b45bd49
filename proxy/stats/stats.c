/* SPDX-License-Identifier: Apache-2.0 */
/* The stats socket: accept readers and schedule their answers. */
#include "stats/stats.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/closer.h"
#include "base/log.h"
#include "metrics/gather.h"
#include "stats/reader.h"

/* Time of a slice, after which the loop continues. */
#define BUDGET (MPIB_MSEC / 2)
/* After a slice, the queue rests for REST times the time of the slice, so that
 * endless commands use at most half of the control thread. Slices of AHEAD in
 * total may run without a rest. */
#define REST 1
#define AHEAD (4 * MPIB_MSEC)
/* The maximum number of a user's readers that are answered from the same
 * snapshot. The user's other readers get the next snapshot, which is taken
 * after the first readers have their answers. */
#define AT_ONCE 4u
/* The maximum number of readers of the admin socket, which only root and the
 * proxy's user may use. */
#define ADMINS_MAX 64u

static double stats_uptime(const struct mpib_stats *st)
{
	return (double)(mpib_now_ns() - st->start_ns) / 1e9;
}

static void on_work(void *arg);
static void stats_on_view(void *arg, const struct mpib_view *v);

/* Return whether a reader of the admin socket waits for the next snapshot. */
static bool admin_waits(const struct mpib_stats *st)
{
	const struct mpib_gather_wait *w;

	TAILQ_FOREACH(w, &st->gather->waits, link)
	{
		const struct stats_reader *r = w->arg;

		if (w->fn == stats_on_view && r->door->admin)
			return true;
	}
	return false;
}

/* Schedule the next slice. The slice runs immediately in two cases: a reader of
 * the admin socket is queued, or such a reader waits for a snapshot and the
 * queue delays that snapshot. */
static void stats_work(struct mpib_stats *st, bool admin)
{
	uint64_t now = mpib_loop_now(st->loop), rest = 0;

	if (st->work.armed && !admin)
		return;
	if (!admin && !admin_waits(st))
		rest = mpib_rate_wait(st->paid, now, AHEAD);
	mpib_timer_arm(st->loop, &st->work, rest, on_work, st);
}

static void on_work(void *arg)
{
	struct mpib_stats *st = arg;
	uint64_t since = mpib_loop_now(st->loop), took = 0;
	struct stats_reader *r;

	while (took < BUDGET && (r = TAILQ_FIRST(&st->queue))) {
		TAILQ_REMOVE(&st->queue, r, queue_link);
		r->queued = false;
		st->view.snap = r->kept ? st->gather->snap : NULL;
		st->view.uptime_s = stats_uptime(st);
		stats_reader_step(r);
		took = mpib_loop_now(st->loop) - since;
	}
	st->view.snap = NULL;
	mpib_rate_pay(&st->paid, since, took + REST * took);
	if (!TAILQ_EMPTY(&st->queue))
		stats_work(st, TAILQ_FIRST(&st->queue)->door->admin);
}

void mpib_stats_next(struct stats_reader *r)
{
	TAILQ_INSERT_HEAD(&r->stats->queue, r, queue_link);
	r->queued = true;
	stats_work(r->stats, r->door->admin);
}

/* Queue a reader. Readers of the admin socket go to the head of the queue. */
void mpib_stats_queue(struct stats_reader *r)
{
	if (r->door->admin) {
		mpib_stats_next(r);
		return;
	}
	TAILQ_INSERT_TAIL(&r->stats->queue, r, queue_link);
	r->queued = true;
	stats_work(r->stats, false);
}

static bool has_turn(const struct stats_reader *r)
{
	const struct stats_reader *o;
	unsigned n = 0;

	TAILQ_FOREACH(o, &r->stats->queue, queue_link)
	n += o->kept && o->uid == r->uid;
	return n < AT_ONCE || r->door->admin;
}

static void stats_on_view(void *arg, const struct mpib_view *v)
{
	struct stats_reader *r = arg;

	if (!v) {
		stats_reader_drop(r);
		return;
	}
	if (!has_turn(r)) {
		mpib_gather_put_off(r->stats->gather, &r->wait);
		return;
	}
	r->kept = true;
	mpib_gather_keep(r->stats->gather);
	mpib_stats_queue(r);
}

void mpib_stats_release(struct stats_reader *r)
{
	mpib_gather_forget(r->stats->gather, &r->wait);
	if (r->kept)
		mpib_gather_release(r->stats->gather);
	r->kept = false;
}

static void stats_on_cluster(void *arg, const char *text)
{
	struct mpib_stats *st = arg;
	struct stats_reader *r;

	(void)text; /* the command fetches the answer itself */
	TAILQ_FOREACH(r, &st->readers, link)
	{
		if (r->waits && r->waits->needs == MPIB_NEEDS_CLUSTER &&
		    !r->queued)
			mpib_stats_queue(r);
	}
}

/* Ask the peers once for all readers that wait. */
static void wait_for_cluster(struct stats_reader *r)
{
	struct mpib_stats *st = r->stats;

	if (!st->cluster.waiting)
		mpib_cluster_ask(st->view.cluster, &st->cluster,
				 stats_on_cluster, st);
}

void mpib_stats_wait(struct stats_reader *r, const struct mpib_command *c)
{
	uint64_t older = UINT64_MAX;

	r->waits = c;
	mpib_loop_mod(r->stats->loop, &r->watch, 0);
	if (c->needs == MPIB_NEEDS_CLUSTER) {
		wait_for_cluster(r);
		return;
	}
	/* Ignore an invalid age: the command refuses it later. */
	if (c->needs == MPIB_NEEDS_REQUESTS && !mpib_ask_age(&r->ask, &older))
		older = UINT64_MAX;
	mpib_gather_ask_requests(r->stats->gather, &r->wait, older,
				 stats_on_view, r);
}

static void stats_refuse(int fd, uid_t uid, const char *error, const char *hint)
{
	char line[256];
	int n = snprintf(line, sizeof(line),
			 "{\"ok\":false,\"error\":\"%s\",\"hint\":\"%s\"}\n",
			 error, hint);

	if (send(fd, line, (size_t)n, MSG_NOSIGNAL) < 0)
		mpib_debug("stats: cannot send a refusal to a reader: %m");
	mpib_close_of(uid, fd);
}

static void stats_welcome(struct stats_door *door, int fd, uid_t uid)
{
	struct mpib_stats *st = door->stats;
	json_t *greeting = json_pack("{ss sI sI sf}", "mpib", MPIB_VERSION,
				     "proto", (json_int_t)MPIB_STATS_PROTO,
				     "pid", (json_int_t)st->view.pid,
				     "uptime_s", stats_uptime(st));

	stats_reader_new(door, fd, uid, greeting);
}

/* Count the user's readers at this socket. */
static unsigned readers_of(const struct stats_door *door, uid_t uid)
{
	const struct stats_reader *r;
	unsigned n = 0;

	TAILQ_FOREACH(r, &door->stats->readers, link)
	n += r->door == door && r->uid == uid;
	return n;
}

static void stats_take(void *arg, int fd)
{
	struct stats_door *door = arg;
	uint32_t max = door->stats->view.cfg->max_readers;
	uid_t uid = mpib_accepted_uid(fd);

	if (door->admin && uid != 0 && uid != geteuid())
		stats_refuse(fd, uid, "this user may not change anything",
			     "ask as root or as the user who runs the proxy");
	else if (door->admin && door->count >= ADMINS_MAX)
		stats_refuse(fd, uid, "too many administrators", "close some");
	else if (!door->admin && door->count >= max)
		stats_refuse(fd, uid, "too many readers",
			     "raise limit.readers");
	else if (!door->admin &&
		 !mpib_reader_fits(uid, readers_of(door, uid), door->count, max,
				   0)) /* root can use the admin socket */
		stats_refuse(fd, uid, "this user has too many readers",
			     "close some, or raise limit.readers");
	else
		stats_welcome(door, fd, uid);
}

static int open_door(struct mpib_stats *st, enum mpib_stats_door which, int fd)
{
	struct stats_door *door = &st->door[which];
	bool admin = which == MPIB_DOOR_ADMIN;

	*door = (struct stats_door){
		.stats = st,
		.admin = admin,
		.acceptor = { .loop = st->loop,
			      .fd = fd,
			      .a_second = admin ? 0 : MPIB_ACCEPTS_A_SECOND,
			      .of_users = !admin,
			      .who = "a reader of the stats socket",
			      .fn = stats_take,
			      .arg = door },
	};
	return mpib_acceptor_open(&door->acceptor);
}

/* Hang up on all readers and free stats. */
static void stats_close(struct mpib_stats *stats)
{
	for (unsigned i = 0; i < MPIB_STATS_DOORS; i++)
		mpib_acceptor_close(&stats->door[i].acceptor);
	while (!TAILQ_EMPTY(&stats->readers))
		stats_reader_drop(TAILQ_FIRST(&stats->readers));
	if (stats->cluster.waiting)
		mpib_cluster_forget(stats->view.cluster, &stats->cluster);
	mpib_timer_disarm(stats->loop, &stats->work);
	free(stats);
}

int mpib_stats_open(const struct mpib_stats_sockets *sockets,
		    const struct mpib_view *view,
		    const struct mpib_admin *admin, struct mpib_stats **stats)
{
	struct mpib_stats *st = calloc(1, sizeof(*st));
	int rc = 0;

	if (!st)
		return -ENOMEM;
	st->loop = sockets->gather->loop;
	st->gather = sockets->gather;
	st->view = *view;
	st->admin = admin;
	TAILQ_INIT(&st->readers);
	TAILQ_INIT(&st->queue);
	st->start_ns = mpib_now_ns();
	for (unsigned i = 0; rc == 0 && i < MPIB_STATS_DOORS; i++) {
		if (sockets->fd[i] >= 0)
			rc = open_door(st, i, sockets->fd[i]);
	}
	if (rc == 0)
		*stats = st;
	else
		stats_close(st);
	return rc;
}

struct mpib_acceptor *mpib_stats_acceptor(struct mpib_stats *stats,
					  enum mpib_stats_door which)
{
	return stats && stats->door[which].stats ? &stats->door[which].acceptor
						 : NULL;
}
