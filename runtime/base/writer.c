/* SPDX-License-Identifier: Apache-2.0 */
#include "base/writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"

struct mpib_writer_job {
	TAILQ_ENTRY(mpib_writer_job) link;
	mpib_write_fn *write;
	size_t len;
	char data[];
};

static void *writer_run(void *arg)
{
	struct mpib_writer *writer = arg;
	struct mpib_writer_job *job;

	pthread_mutex_lock(&writer->lock);
	for (;;) {
		while (TAILQ_EMPTY(&writer->jobs))
			pthread_cond_wait(&writer->queued, &writer->lock);
		job = TAILQ_FIRST(&writer->jobs);
		TAILQ_REMOVE(&writer->jobs, job, link);
		pthread_mutex_unlock(&writer->lock);
		job->write(job->data, job->len);
		pthread_mutex_lock(&writer->lock);
		writer->bytes -= sizeof(*job) + job->len;
		free(job);
	}
	return NULL;
}

int mpib_writer_start(struct mpib_writer *writer)
{
	int rc = 0;

	pthread_mutex_lock(&writer->lock);
	if (!writer->started)
		rc = mpib_thread_create(NULL, writer_run, writer);
	writer->started |= rc == 0;
	pthread_mutex_unlock(&writer->lock);
	return rc;
}

/* NULL: the queue is full. The caller holds the lock. */
static struct mpib_writer_job *job_new(struct mpib_writer *writer,
				       mpib_write_fn *write, const void *data,
				       size_t len)
{
	struct mpib_writer_job *job;

	if (writer->bytes + sizeof(*job) + len > MPIB_WRITER_BYTES)
		return NULL;
	job = malloc(sizeof(*job) + len);
	if (!job)
		return NULL;
	job->write = write;
	job->len = len;
	memcpy(job->data, data, len);
	return job;
}

bool mpib_writer_put(struct mpib_writer *writer, mpib_write_fn *write,
		     const void *data, size_t len)
{
	struct mpib_writer_job *job = NULL;
	bool started;

	pthread_mutex_lock(&writer->lock);
	started = writer->started;
	if (started)
		job = job_new(writer, write, data, len);
	if (job) {
		writer->bytes += sizeof(*job) + len;
		TAILQ_INSERT_TAIL(&writer->jobs, job, link);
		pthread_cond_signal(&writer->queued);
	} else if (started) {
		writer->lost++;
	}
	pthread_mutex_unlock(&writer->lock);
	if (!started)
		write(data, len);
	return job || !started;
}

uint64_t mpib_writer_lost(struct mpib_writer *writer)
{
	uint64_t lost;

	pthread_mutex_lock(&writer->lock);
	lost = writer->lost;
	writer->lost = 0;
	pthread_mutex_unlock(&writer->lock);
	return lost;
}

static bool is_idle(struct mpib_writer *writer)
{
	bool idle;

	pthread_mutex_lock(&writer->lock);
	idle = writer->bytes == 0;
	pthread_mutex_unlock(&writer->lock);
	return idle;
}

void mpib_writer_drain(struct mpib_writer *writer, unsigned ms)
{
	for (unsigned i = 0; i < ms && !is_idle(writer); i++)
		usleep(1000);
}
