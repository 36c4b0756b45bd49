/* SPDX-License-Identifier: Apache-2.0 */
/* A shard's thread. Control thread. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "engine/shard.h"

static void *shard_thread(void *arg)
{
	mpib_shard_run(arg);
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

int mpib_shard_start(struct mpib_shard *s)
{
	char name[16];
	int rc;

	atomic_store_explicit(&s->stop, false, memory_order_relaxed);
	rc = shard_spawn(s);
	if (rc)
		return -rc;
	snprintf(name, sizeof(name), "mpib-shard-%u", s->index % 100);
	pthread_setname_np(s->thread, name);
	return 0;
}

void mpib_shard_join(struct mpib_shard *s)
{
	/* Relaxed: ringing the bell orders this store before the last turn of
	 * sleep_now(). */
	atomic_store_explicit(&s->stop, true, memory_order_relaxed);
	mpib_bell_ring(&s->mailbox.bell);
	pthread_join(s->thread, NULL);
}
