/* SPDX-License-Identifier: Apache-2.0 */
/* A shard's thread, which may be made before it starts. Control thread. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "engine/shard.h"

void mpib_shard_thread_init(struct mpib_shard *s)
{
	pthread_mutex_init(&s->start_lock, NULL);
	pthread_cond_init(&s->starts, NULL);
}

static void await_start(struct mpib_shard *s)
{
	pthread_mutex_lock(&s->start_lock);
	while (!s->started)
		pthread_cond_wait(&s->starts, &s->start_lock);
	pthread_mutex_unlock(&s->start_lock);
}

static void let_start(struct mpib_shard *s)
{
	pthread_mutex_lock(&s->start_lock);
	s->started = true;
	pthread_cond_signal(&s->starts);
	pthread_mutex_unlock(&s->start_lock);
}

static void *shard_thread(void *arg)
{
	struct mpib_shard *s = arg;

	await_start(s);
	mpib_shard_run(s);
	return NULL;
}

/* If its CPUs were taken from the process meanwhile it runs anywhere. */
static int shard_spawn(struct mpib_shard *s)
{
	pthread_attr_t attr;
	int rc = EINVAL;

	if (s->pinned && pthread_attr_init(&attr) == 0) {
		rc = pthread_attr_setaffinity_np(&attr, sizeof(s->cpus),
						 &s->cpus);
		if (rc == 0)
			rc = pthread_create(&s->thread, &attr, shard_thread, s);
		pthread_attr_destroy(&attr);
		if (rc)
			mpib_warn("shard %u: not on the CPUs near its HCA: %s "
				  "(allow sched_setaffinity(2) of them, or set "
				  "proxy.pin = no)",
				  s->index, strerror(rc));
	}
	return rc ? pthread_create(&s->thread, NULL, shard_thread, s) : 0;
}

int mpib_shard_make_thread(struct mpib_shard *s)
{
	char name[16];
	int rc;

	if (s->has_thread)
		return 0;
	atomic_store_explicit(&s->stop, false, memory_order_relaxed);
	s->started = false;
	rc = shard_spawn(s);
	if (rc)
		return -rc;
	snprintf(name, sizeof(name), "mpib-shard-%u", s->index % 100);
	pthread_setname_np(s->thread, name);
	s->has_thread = true;
	return 0;
}

int mpib_shard_start(struct mpib_shard *s)
{
	int rc = mpib_shard_make_thread(s);

	if (rc == 0)
		let_start(s);
	return rc;
}

void mpib_shard_join(struct mpib_shard *s)
{
	/* Relaxed: ringing the bell orders this store before the last turn of
	 * sleep_now(). */
	atomic_store_explicit(&s->stop, true, memory_order_relaxed);
	let_start(s);
	mpib_bell_ring(&s->mailbox.bell);
	pthread_join(s->thread, NULL);
	s->has_thread = false;
}

void mpib_shard_thread_fini(struct mpib_shard *s)
{
	if (s->has_thread)
		mpib_shard_join(s);
	pthread_cond_destroy(&s->starts);
	pthread_mutex_destroy(&s->start_lock);
}
