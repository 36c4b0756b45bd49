/* SPDX-License-Identifier: Apache-2.0 */
#include "stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "suggest.h"

#define LINE_MAX_BYTES 4096
#define PATIENCE (5 * MPIB_SEC)

struct reader {
	struct mpib_stats *stats;
	TAILQ_ENTRY(reader) link;
	int fd;
	struct mpib_watch watch;
	struct mpib_timer timer; /* of an answer not taken */
	char in[LINE_MAX_BYTES];
	size_t in_len;
	char *out; /* the answer, NULL: none */
	size_t out_len, out_at;
	const struct mpib_view_command *waits; /* for a snapshot, or NULL */
	uint64_t ticket; /* of the first snapshot young enough */
};

struct mpib_stats {
	struct mpib_loop *loop;
	struct mpib_engine *engine;
	struct mpib_view view;
	int fd;
	struct mpib_watch watch;
	TAILQ_HEAD(, reader) readers;
	unsigned count;
	uint64_t asked; /* snapshots begun */
	bool taking; /* one is on its way */
	struct timespec start;
};

static void drop(struct reader *r)
{
	struct mpib_stats *st = r->stats;

	mpib_timer_disarm(st->loop, &r->timer);
	mpib_loop_del(st->loop, &r->watch);
	close(r->fd);
	TAILQ_REMOVE(&st->readers, r, link);
	st->count--;
	free(r->out);
	free(r);
}

static void on_slow(void *arg)
{
	struct reader *r = arg;

	mpib_debug("a reader of the stats socket was dropped: it does not "
		   "take its answer");
	drop(r);
}

/* False when r is gone. */
static bool flush(struct reader *r)
{
	struct mpib_loop *loop = r->stats->loop;

	while (r->out && r->out_at < r->out_len) {
		ssize_t n =
			send(r->fd, r->out + r->out_at, r->out_len - r->out_at,
			     MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EAGAIN) {
			if (!r->timer.armed)
				mpib_timer_arm(loop, &r->timer, PATIENCE,
					       on_slow, r);
			mpib_loop_mod(loop, &r->watch, EPOLLOUT);
			return true;
		}
		if (n < 0) {
			drop(r);
			return false;
		}
		r->out_at += (size_t)n;
	}
	mpib_timer_disarm(loop, &r->timer);
	free(r->out);
	r->out = NULL;
	/* Nothing more is read while an answer is due. */
	mpib_loop_mod(loop, &r->watch, r->waits ? 0 : EPOLLIN);
	return true;
}

/* Takes text, NULL for one there was no memory for. False when r is gone. */
static bool answer_text(struct reader *r, char *text, size_t len)
{
	if (!text) {
		mpib_warn("stats: out of memory");
		drop(r);
		return false;
	}
	r->out_len = len;
	r->out_at = 0;
	r->out = text;
	return flush(r);
}

/* Takes the reference to value. False when r is gone. */
static bool answer(struct reader *r, json_t *value)
{
	char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
	size_t len = text ? strlen(text) : 0;

	json_decref(value);
	if (text)
		text[len++] = '\n'; /* in the place of the final NUL */
	return answer_text(r, text, len);
}

static json_t *complaint(const char *typed)
{
	struct mpib_suggest s = { .typed = typed };
	json_t *error, *o;

	for (unsigned i = 0; i < mpib_view_command_count; i++)
		mpib_suggest_try(&s, mpib_view_commands[i].name);
	error = json_sprintf("unknown command \"%.64s\"", typed);
	if (!error) /* not UTF-8 */
		error = json_string("unknown command");
	o = json_pack("{sb so}", "ok", 0, "error", error);
	if (mpib_suggest_best(&s))
		json_object_set_new(o, "hint",
				    json_sprintf("did you mean %s?",
						 mpib_suggest_best(&s)));
	else
		json_object_set_new(o, "hint",
				    json_string("help lists the commands"));
	return o;
}

static double uptime(const struct mpib_stats *st)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - st->start.tv_sec) +
	       (double)(now.tv_nsec - st->start.tv_nsec) / 1e9;
}

static bool answer_view(struct reader *r, const struct mpib_view_command *c,
			const struct mpib_snapshot *snap)
{
	struct mpib_view *v = &r->stats->view;

	v->snap = snap;
	v->uptime_s = uptime(r->stats);
	if (c->text) {
		char *text = c->text(v);

		return answer_text(r, text, text ? strlen(text) : 0);
	}
	return answer(r, json_pack("{sb so}", "ok", 1, "data", c->fn(v)));
}

static bool take_lines(struct reader *r);
static void take_snapshot(struct mpib_stats *st);

static void on_snapshot(void *arg, struct mpib_snapshot *snap)
{
	struct mpib_stats *st = arg;
	uint64_t ticket = st->asked;
	struct reader *r, *next;
	bool more = false;

	st->taking = false;
	for (r = TAILQ_FIRST(&st->readers); r; r = next) {
		const struct mpib_view_command *c = r->waits;

		next = TAILQ_NEXT(r, link);
		if (!c || r->ticket > ticket) {
			more |= c != NULL;
			continue;
		}
		r->waits = NULL;
		if (!snap)
			drop(r);
		else if (answer_view(r, c, snap) && !r->out)
			take_lines(r);
	}
	/* Lines taken just now may wait for another. */
	TAILQ_FOREACH(r, &st->readers, link)
	more |= r->waits != NULL;
	if (snap)
		mpib_snapshot_free(snap);
	st->view.snap = NULL;
	if (more && !st->taking)
		take_snapshot(st);
}

static void take_snapshot(struct mpib_stats *st)
{
	struct reader *r;

	st->asked++;
	st->taking = true;
	if (mpib_engine_snapshot(st->engine, on_snapshot, st) == 0)
		return;
	mpib_warn("stats: out of memory");
	st->taking = false;
	/* Later: our callers go through the readers. */
	TAILQ_FOREACH(r, &st->readers, link)
	{
		if (r->waits)
			mpib_timer_arm(st->loop, &r->timer, 0, on_slow, r);
	}
}

/* False when r is gone. */
static bool command(struct reader *r, char *line)
{
	struct mpib_stats *st = r->stats;
	const struct mpib_view_command *c;
	char *end = line + strlen(line);

	while (end > line && strchr(" \t\r", end[-1]))
		*--end = '\0';
	line += strspn(line, " \t");
	if (!*line)
		return true;
	c = mpib_view_command(line);
	if (!c)
		return answer(r, complaint(line));
	if (!c->snapshot)
		return answer_view(r, c, NULL);
	/* One under way may have passed a shard before this question. */
	r->waits = c;
	r->ticket = st->asked + 1;
	mpib_loop_mod(st->loop, &r->watch, 0);
	if (!st->taking)
		take_snapshot(st);
	return true;
}

/* Commands, until one has to wait. False when r is gone. */
static bool take_lines(struct reader *r)
{
	while (!r->out && !r->waits) {
		char line[LINE_MAX_BYTES];
		char *nl = memchr(r->in, '\n', r->in_len);
		size_t len;

		if (!nl)
			break;
		len = (size_t)(nl - r->in);
		memcpy(line, r->in, len);
		line[len] = '\0';
		r->in_len -= len + 1;
		memmove(r->in, nl + 1, r->in_len);
		if (!command(r, line))
			return false;
	}
	if (r->in_len == sizeof(r->in) && !memchr(r->in, '\n', r->in_len)) {
		drop(r); /* no command is that long */
		return false;
	}
	return true;
}

static void on_reader(void *arg, uint32_t events)
{
	struct reader *r = arg;
	ssize_t n;

	if (r->out) {
		if (events & (EPOLLHUP | EPOLLERR))
			drop(r);
		else if (flush(r) && !r->out)
			take_lines(r);
		return;
	}
	if (r->waits) {
		drop(r); /* only a hang-up is told now */
		return;
	}
	n = recv(r->fd, r->in + r->in_len, sizeof(r->in) - r->in_len,
		 MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		drop(r);
		return;
	}
	r->in_len += (size_t)n;
	take_lines(r);
}

static void greet(struct reader *r)
{
	const struct mpib_view *v = &r->stats->view;

	answer(r, json_pack("{ss sI sI sf}", "mpib", MPIB_VERSION, "proto",
			    (json_int_t)MPIB_STATS_PROTO, "pid",
			    (json_int_t)v->pid, "uptime_s", uptime(r->stats)));
}

static void on_accept(void *arg, uint32_t events)
{
	static const char full[] =
		"{\"ok\":false,\"error\":\"too many readers\",\"hint\":"
		"\"raise limit.readers\"}\n";
	struct mpib_stats *st = arg;
	int fd = accept4(st->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct reader *r;

	(void)events;
	if (fd < 0)
		return;
	if (st->count >= st->view.cfg->max_readers) {
		if (send(fd, full, sizeof(full) - 1, MSG_NOSIGNAL) < 0)
			mpib_debug("stats: a refused reader was gone: %m");
		close(fd);
		return;
	}
	r = calloc(1, sizeof(*r));
	if (!r ||
	    mpib_loop_add(st->loop, &r->watch, fd, EPOLLIN, on_reader, r) < 0) {
		free(r);
		close(fd);
		return;
	}
	r->stats = st;
	r->fd = fd;
	TAILQ_INSERT_TAIL(&st->readers, r, link);
	st->count++;
	greet(r);
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
	clock_gettime(CLOCK_MONOTONIC, &st->start);
	rc = mpib_loop_add(loop, &st->watch, fd, EPOLLIN, on_accept, st);
	if (rc < 0) {
		free(st);
		return rc;
	}
	*stats = st;
	return 0;
}

void mpib_stats_stop(struct mpib_stats *stats)
{
	mpib_loop_del(stats->loop, &stats->watch);
	while (!TAILQ_EMPTY(&stats->readers))
		drop(TAILQ_FIRST(&stats->readers));
}

void mpib_stats_free(struct mpib_stats *stats)
{
	free(stats);
}
