/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log: one line per state change, written where its cause is first known.
 * Never called on a hot path; there counters tell what happens.
 */
#ifndef MPIB_BASE_LOG_H
#define MPIB_BASE_LOG_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

enum mpib_log_level {
	MPIB_LOG_ERROR,
	MPIB_LOG_WARN,
	MPIB_LOG_INFO,
	MPIB_LOG_DEBUG,
};

/* Gets whole lines without a newline, from any thread. */
typedef void mpib_log_sink(enum mpib_log_level level, const char *line);

/* First thing in main(): have /dev/null where standard input, output or error is
 * closed, so that nothing else gets such a number, and with it what is printed. */
void mpib_log_begin(void);

/*
 * Drop lines above level. Any thread. The default is MPIB_LOG_INFO, to stderr,
 * with a "<N>" syslog prefix if stderr is the journal (sd-daemon(3)).
 */
void mpib_log_set_level(enum mpib_log_level level);

/* Whether stderr is the stream that JOURNAL_STREAM names: the variable is inherited
 * by processes whose stderr is a file. */
bool mpib_log_is_journal(void);

/* Make each line an object of JSON with time (RFC 3339, UTC), level, text and,
 * for an event, kind. Called before other threads log. */
void mpib_log_set_json(bool on);
bool mpib_log_is_json(void);

/* Send lines to sink instead of stderr; NULL restores stderr. Lines that wait for
 * the writer go there, too. */
void mpib_log_set_sink(mpib_log_sink *sink);

/*
 * Have a thread write the lines from now on, so that a reader of stderr that is
 * stuck blocks no other thread. Lines that find no room in its queue are dropped,
 * and their number is logged. Call it after the last fork(). 0 or -errno.
 */
int mpib_log_start(void);
/* Wait until all lines are written, at most 1 s: before the process ends. */
void mpib_log_drain(void);

/*
 * Any thread. Keeps errno, so %m may follow a failed call. A format string may give
 * 200 lines at once and then 10 a second; what is more is dropped and counted.
 */
void mpib_log(enum mpib_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Log text, which is the event kind; see event.h. Any thread. Keeps errno. */
void mpib_log_event(enum mpib_log_level level, const char *kind,
		    const char *text);

#define mpib_err(...) mpib_log(MPIB_LOG_ERROR, __VA_ARGS__)
#define mpib_warn(...) mpib_log(MPIB_LOG_WARN, __VA_ARGS__)
#define mpib_info(...) mpib_log(MPIB_LOG_INFO, __VA_ARGS__)
#define mpib_debug(...) mpib_log(MPIB_LOG_DEBUG, __VA_ARGS__)

/*
 * Writes that may block for ever: to a pipe without a reader, a disk that hangs, a
 * supervisor that is stuck. A writer has a thread and a queue of at most
 * MPIB_WRITER_BYTES. The caller of mpib_writer_put() never waits: if the queue is
 * full, the write is dropped and counted. Until mpib_writer_start(), writes happen
 * in the caller's thread.
 */

#define MPIB_WRITER_BYTES (1u << 20)

/* Does the write. Runs on the writer's thread. */
typedef void mpib_write_fn(const void *data, size_t len);

struct mpib_writer_job;

struct mpib_writer {
	pthread_mutex_t lock;
	pthread_cond_t queued;
	TAILQ_HEAD(, mpib_writer_job) jobs; /* oldest first */
	size_t bytes; /* of all jobs that are queued or under way */
	uint64_t lost; /* writes dropped and not yet reported */
	bool started;
};

#define MPIB_WRITER_INIT(writer)                                               \
	{                                                                      \
		.lock = PTHREAD_MUTEX_INITIALIZER,                             \
		.queued = PTHREAD_COND_INITIALIZER,                            \
		.jobs = TAILQ_HEAD_INITIALIZER((writer).jobs),                 \
	}

/* Start the thread, once. Call it after the last fork(). 0 or -errno; after an
 * error, writes go on in the caller's thread. */
int mpib_writer_start(struct mpib_writer *writer);

/* Copy data and have write(data, len) called. Any thread. False if the write was
 * dropped. */
bool mpib_writer_put(struct mpib_writer *writer, mpib_write_fn *write,
		     const void *data, size_t len);

/* Return how many writes were dropped since the last call. */
uint64_t mpib_writer_lost(struct mpib_writer *writer);

/* Wait until all writes are done, at most ms. Call it before the process ends. */
void mpib_writer_drain(struct mpib_writer *writer, unsigned ms);

#endif
