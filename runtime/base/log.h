/* SPDX-License-Identifier: Apache-2.0 */
/* The log: one line per state change, written by the code that first knows the
 * cause. Hot paths do not log: they have counters. */
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

/* Called on any thread with one whole line, without its newline. */
typedef void mpib_log_sink(enum mpib_log_level level, const char *line);

/* If standard input, output or error is closed, open /dev/null for it.
 * Otherwise another file could get the stream's descriptor number and receive
 * printed text. Call this first in main(). */
void mpib_log_begin(void);

/*
 * Drop lines that are less important than `level`. Any thread. The default is
 * MPIB_LOG_INFO, to stderr, with a "<N>" syslog prefix if stderr is the journal
 * (sd-daemon(3)).
 */
void mpib_log_set_level(enum mpib_log_level level);

/* Return whether stderr is the stream that JOURNAL_STREAM names. Processes
 * inherit the variable even if their stderr is a file. */
bool mpib_log_is_journal(void);

/* Print each line as a JSON object with time (RFC 3339, UTC), level, text and,
 * for an event, kind. Call it before other threads log. */
void mpib_log_set_json(bool on);
bool mpib_log_is_json(void);

/* Send lines to sink instead of stderr; NULL restores stderr. Lines that are
 * already queued also go to the new sink. */
void mpib_log_set_sink(mpib_log_sink *sink);

/* Log a line. Any thread. Keeps errno, so %m may follow a failed call. One
 * format string may log 200 lines at once and then 10 per second; further lines
 * are dropped and counted. */
void mpib_log(enum mpib_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Log the text of an event of this kind; see event.h. Any thread. Keeps
 * errno. */
void mpib_log_event(enum mpib_log_level level, const char *kind,
		    const char *text);

#define mpib_err(...) mpib_log(MPIB_LOG_ERROR, __VA_ARGS__)
#define mpib_warn(...) mpib_log(MPIB_LOG_WARN, __VA_ARGS__)
#define mpib_info(...) mpib_log(MPIB_LOG_INFO, __VA_ARGS__)
#define mpib_debug(...) mpib_log(MPIB_LOG_DEBUG, __VA_ARGS__)

/*
 * For writes that may never return, such as writes to a pipe without a reader,
 * a hanging disk or a stuck supervisor. A writer has a thread and a queue of at
 * most MPIB_WRITER_BYTES. The caller of mpib_writer_put() never waits: if the
 * queue is full, the write is dropped and counted. Until mpib_writer_start(),
 * the caller's thread writes.
 */

#define MPIB_WRITER_BYTES (1u << 20)

/* Function that does the write. The writer calls it on its own thread. */
typedef void mpib_write_fn(const void *data, size_t len);

struct mpib_writer_job;

struct mpib_writer {
	pthread_mutex_t lock;
	pthread_cond_t queued;
	TAILQ_HEAD(, mpib_writer_job) jobs; /* oldest first */
	/* total bytes of the queued jobs and of the job being written */
	size_t bytes;
	uint64_t lost; /* writes dropped and not yet reported */
	bool started;
};

#define MPIB_WRITER_INIT(writer)                                               \
	{                                                                      \
		.lock = PTHREAD_MUTEX_INITIALIZER,                             \
		.queued = PTHREAD_COND_INITIALIZER,                            \
		.jobs = TAILQ_HEAD_INITIALIZER((writer).jobs),                 \
	}

/* Start the thread, once. Call this after the last fork(). Return 0 or -errno;
 * after an error the caller's thread still writes. */
int mpib_writer_start(struct mpib_writer *writer);

/* Copy `data` and call write(data, len) later. Any thread. Return false if the
 * write was dropped. */
bool mpib_writer_put(struct mpib_writer *writer, mpib_write_fn *write,
		     const void *data, size_t len);

/* Wait until all writes are done, at most 1 s. Call this before the process
 * ends. */
void mpib_writer_drain(struct mpib_writer *writer);

/* Writes the log, so that a stuck reader of stderr blocks no other thread. The
 * log reports how many lines were dropped. */
extern struct mpib_writer mpib_log_writer;

#endif
