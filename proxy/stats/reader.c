/* SPDX-License-Identifier: Apache-2.0 */
/* One reader of the stats socket: read its lines, send the answers. */
#include "stats/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/log.h"
#include "base/text.h"
#include "base/users.h"
#include "stats/state.h"

#define LINE_MAX_BYTES 4096
#define PATIENCE (5 * MPIB_SEC)
/* SEND_BUFFER: bytes that the kernel may buffer for one reader. HELD_MAX: bytes
 * of answers that the proxy may hold for all readers of the stats socket
 * together. A single answer may be larger. The proxy may hold at most a quarter
 * of HELD_MAX for the readers of one user. Readers of the admin socket are not
 * counted. */
#define SEND_BUFFER 32768
#define HELD_MAX (16u << 20)
#define HELD_SHARE (HELD_MAX / 4)
#define IDLE (300 * MPIB_SEC)

static void forget_answer(struct stats_reader *r)
{
	if (r->held)
		r->stats->held -= r->out_len;
	r->held = false;
	free(r->out);
	r->out = NULL;
}

static void forget_question(struct stats_reader *r)
{
	mpib_stats_release(r);
	r->waits = r->making = NULL;
	free(mpib_view_part_end(&r->ask.part));
	free(r->line);
	r->line = NULL;
}

void stats_reader_drop(struct stats_reader *r)
{
	struct mpib_stats *st = r->stats;

	mpib_timer_disarm(st->loop, &r->timer);
	mpib_timer_disarm(st->loop, &r->idle);
	mpib_loop_del(st->loop, &r->watch);
	mpib_close_of(r->uid, r->fd);
	TAILQ_REMOVE(&st->readers, r, link);
	if (r->queued)
		TAILQ_REMOVE(&st->queue, r, queue_link);
	r->door->count--;
	forget_answer(r);
	forget_question(r);
	free(r->in);
	free(r);
}

static void reader_expire(void *arg)
{
	mpib_debug("a reader of the stats socket was dropped: it does not "
		   "read its answer");
	stats_reader_drop(arg);
}

static void reader_on_idle(void *arg)
{
	struct stats_reader *r = arg;

	if (r->waits || r->queued) {
		mpib_timer_arm(r->stats->loop, &r->idle, IDLE, reader_on_idle,
			       r);
		return;
	}
	mpib_debug("a reader of the stats socket was dropped: it is idle");
	stats_reader_drop(r);
}

/* Return whether HELD_MAX leaves room for the rest of r's answer. */
static bool may_hold(const struct stats_reader *r)
{
	const struct stats_reader *other;
	size_t mine = 0;

	if (r->held || r->door->admin || r->stats->held == 0)
		return true;
	TAILQ_FOREACH(other, &r->stats->readers, link)
	{
		if (other->held && other->uid == r->uid)
			mine += other->out_len;
	}
	return r->stats->held + r->out_len <= HELD_MAX &&
	       (mine == 0 || mine + r->out_len <= HELD_SHARE);
}

/* The kernel's buffer is full: hold the rest of the answer until r has read
 * some bytes. Return false if r was dropped. */
static bool reader_hold(struct stats_reader *r)
{
	struct mpib_stats *st = r->stats;

	if (!may_hold(r)) {
		mpib_debug("a reader of the stats socket was dropped: too many "
			   "bytes wait for slow readers");
		stats_reader_drop(r);
		return false;
	}
	if (!r->held && !r->door->admin) {
		st->held += r->out_len;
		r->held = true;
	}
	if (!r->timer.armed)
		mpib_timer_arm(st->loop, &r->timer, PATIENCE, reader_expire, r);
	mpib_loop_mod(st->loop, &r->watch, EPOLLOUT);
	return true;
}

static bool has_line(const struct stats_reader *r)
{
	return r->in && memchr(r->in, '\n', r->in_len);
}

/* After the last byte of an answer, queue r's next line or wait for one. Return
 * false if r was dropped. */
static bool reader_go_on(struct stats_reader *r)
{
	if (has_line(r)) {
		/* Stop reading until this line is answered. */
		mpib_loop_mod(r->stats->loop, &r->watch, 0);
		mpib_stats_queue(r);
		return true;
	}
	if (r->in_len == LINE_MAX_BYTES) {
		stats_reader_drop(r); /* the line is longer than any command */
		return false;
	}
	if (r->in_len == 0) {
		free(r->in);
		r->in = NULL;
	}
	mpib_loop_mod(r->stats->loop, &r->watch, EPOLLIN);
	return true;
}

/* Send the rest of the answer. Return false if r was dropped. */
static bool reader_flush(struct stats_reader *r)
{
	while (r->out && r->out_at < r->out_len) {
		uint64_t began = mpib_waking_begin();
		ssize_t n =
			send(r->fd, r->out + r->out_at, r->out_len - r->out_at,
			     MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EAGAIN)
			return reader_hold(r);
		if (n < 0 || !mpib_waking_end(&r->waking, began)) {
			stats_reader_drop(r);
			return false;
		}
		r->out_at += (size_t)n;
	}
	mpib_timer_disarm(r->stats->loop, &r->timer);
	forget_answer(r);
	return reader_go_on(r);
}

/* Send `text` and free it. If `text` is NULL, memory was short: drop r. Return
 * false if r was dropped. */
static bool reader_answer_text(struct stats_reader *r, char *text, size_t len)
{
	if (!text) {
		mpib_warn("stats: out of memory");
		stats_reader_drop(r);
		return false;
	}
	r->out_len = len;
	r->out_at = 0;
	r->out = text;
	return reader_flush(r);
}

/* Send `value` as a line, and drop the reference. Return false if r was
 * dropped. */
static bool reader_answer(struct stats_reader *r, json_t *value)
{
	char *text = value ? json_dumps(value, JSON_COMPACT | MPIB_VIEW_DIGITS)
			   : NULL;
	size_t len = text ? strlen(text) : 0;

	json_decref(value);
	if (text)
		text[len++] = '\n'; /* overwrites the final NUL */
	return reader_answer_text(r, text, len);
}

static bool reader_complain(struct stats_reader *r)
{
	mpib_utf8_make(r->ask.error); /* it may quote the reader's line */
	return reader_answer(r, json_pack("{sb ss ss}", "ok", 0, "error",
					  r->ask.error, "hint", r->ask.hint));
}

/* Run the command. Send the answer only when all its parts are made, so that
 * the proxy holds only complete answers. Until then r stays at the head of the
 * queue, so that at most one answer is being made. Return false if r was
 * dropped. */
static bool answer_ask(struct stats_reader *r, const struct mpib_command *c)
{
	json_t *data = c->fn(&r->ask);
	char *text = r->ask.text;

	if (c->admin && data)
		mpib_state_save(r->ask.admin);

	if (r->ask.part.more) {
		r->making = c;
		mpib_stats_next(r);
		return true;
	}
	r->ask.text = NULL;
	if (text)
		return reader_answer_text(r, text, strlen(text));
	if (!data && r->ask.error[0])
		return reader_complain(r);
	return reader_answer(
		r, data ? json_pack("{sb so}", "ok", 1, "data", data) : NULL);
}

/* Execute the command in `line`, and keep `line` as r->line. Return false if r
 * was dropped. */
static bool reader_command(struct stats_reader *r, char *line)
{
	struct mpib_stats *st = r->stats;
	const struct mpib_command *c;

	forget_question(r);
	r->line = line;
	mpib_timer_arm(st->loop, &r->idle, IDLE, reader_on_idle, r);
	r->ask = (struct mpib_ask){ .view = &st->view,
				    .admin = st->admin,
				    .by_admin_sock = r->door->admin,
				    .uid = r->uid };
	if (!line[strspn(line, " \t\r")])
		return reader_go_on(r);
	c = mpib_command_parse(line, &r->ask);
	if (!c)
		return reader_complain(r);
	if (c->needs == MPIB_NEEDS_NOTHING)
		return answer_ask(r, c);
	mpib_stats_wait(r, c);
	return true;
}

/* Take the first line out of r->in; the caller frees it. NULL: no memory. */
static char *reader_next_line(struct stats_reader *r)
{
	size_t len = (size_t)((char *)memchr(r->in, '\n', r->in_len) - r->in);
	char *line = strndup(r->in, len);

	if (line) {
		r->in_len -= len + 1;
		memmove(r->in, r->in + len + 1, r->in_len);
	}
	return line;
}

void stats_reader_step(struct stats_reader *r)
{
	const struct mpib_command *c = r->making ? r->making : r->waits;
	char *line;

	if (c) {
		r->waits = r->making = NULL;
		if (answer_ask(r, c) && !r->making)
			mpib_stats_release(r);
		return;
	}
	line = reader_next_line(r);
	if (line)
		reader_command(r, line);
	else
		stats_reader_drop(r);
}

static void reader_take(struct stats_reader *r)
{
	int rc = mpib_may_receive(r->uid);
	uint64_t began = mpib_waking_begin();
	ssize_t n;

	if (rc == -EAGAIN)
		return;
	if (rc == 0 && !r->in)
		r->in = malloc(LINE_MAX_BYTES);
	if (rc < 0 || !r->in) {
		stats_reader_drop(r);
		return;
	}
	n = mpib_recv_of(r->uid, r->fd, r->in + r->in_len,
			 LINE_MAX_BYTES - r->in_len, 0);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0 || !mpib_waking_end(&r->waking, began)) {
		stats_reader_drop(r);
		return;
	}
	r->in_len += (size_t)n;
	reader_go_on(r);
}

static void on_reader(void *arg, uint32_t events)
{
	struct stats_reader *r = arg;

	if (r->out && !(events & (EPOLLHUP | EPOLLERR)))
		reader_flush(r);
	else if (r->out || r->waits || r->queued)
		stats_reader_drop(r); /* input is not watched: r hung up */
	else
		reader_take(r);
}

void stats_reader_new(struct stats_door *door, int fd, uid_t uid,
		      json_t *greeting)
{
	struct mpib_stats *st = door->stats;
	struct stats_reader *r = calloc(1, sizeof(*r));
	int room = SEND_BUFFER, on = 1;

	if (!r ||
	    mpib_loop_add(st->loop, &r->watch, fd, EPOLLIN, on_reader, r) < 0) {
		json_decref(greeting);
		free(r);
		mpib_close_of(uid, fd);
		return;
	}
	r->stats = st;
	r->door = door;
	r->fd = fd;
	r->uid = uid;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	/* Without this, recv() skips an out-of-band byte and discards the data
	 * that arrived with it. */
	setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on));
	TAILQ_INSERT_TAIL(&st->readers, r, link);
	door->count++;
	mpib_timer_arm(st->loop, &r->idle, IDLE, reader_on_idle, r);
	reader_answer(r, greeting);
}
