/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes that may block for ever: to a pipe without a reader, a disk that hangs, a
 * supervisor that is stuck. A writer has a thread and a queue of at most
 * MPIB_WRITER_BYTES. The caller of mpib_writer_put() never waits: if the queue is
 * full, the write is dropped and counted. Until mpib_writer_start(), writes happen
 * in the caller's thread.
 */
#ifndef MPIB_BASE_WRITER_H
#define MPIB_BASE_WRITER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

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
