/* SPDX-License-Identifier: Apache-2.0 */
/* The HCAs' threads, their jobs, and the threads that wait for them. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "verbs/hca/hca.h"

/* Time added to the limit for each GiB to register or deregister. A healthy
 * device needs less than half of this time. */
#define GIB_MS 250u
/* Interval at which a waiting thread reports to the service's watchdog. */
#define WAITS_MS 5000u
#define NAP_MS 100u
#define MS 1000000ull

_Atomic unsigned mpib_hca_wait_ms = HCA_WAIT_MS;
void (*_Atomic mpib_hca_waits)(void);

/* An open context. */
struct hca_context {
	LIST_ENTRY(hca_context) link;
	struct ibv_context *ctx;
	struct hca *hca;
	bool lost;
};

struct hca {
	LIST_ENTRY(hca) link;
	char name[sizeof(((struct mpib_rail_spec *)0)->name)];
	TAILQ_HEAD(, hca_job) jobs;
	pthread_cond_t asked, answered;
	/* number of open contexts, plus the threads that are in enter() */
	unsigned users;
	bool hung; /* a call exceeded its limit */
	const char *call; /* current or last call */
	uint64_t began_ns;
};

static pthread_mutex_t hcas_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, hca) hcas = LIST_HEAD_INITIALIZER(hcas);
static LIST_HEAD(, hca_context) contexts = LIST_HEAD_INITIALIZER(contexts);
static int hcas_bell = -1;
static atomic_bool any_lost;

static struct hca_context *context_of(const struct ibv_context *ctx)
{
	struct hca_context *c;

	LIST_FOREACH(c, &contexts, link)
	{
		if (c->ctx == ctx)
			return c;
	}
	return NULL;
}

bool hca_is_lost(const struct ibv_context *ctx)
{
	const struct hca_context *c;
	bool lost;

	/* Relaxed: the thread that marks an HCA as lost sets this flag before
	 * it rings the bell. */
	if (!atomic_load_explicit(&any_lost, memory_order_relaxed))
		return false;
	pthread_mutex_lock(&hcas_lock);
	c = context_of(ctx);
	lost = c && c->lost;
	pthread_mutex_unlock(&hcas_lock);
	return lost;
}

int hca_bell(void)
{
	int fd;

	pthread_mutex_lock(&hcas_lock);
	if (hcas_bell < 0)
		hcas_bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	fd = hcas_bell < 0 ? -errno : hcas_bell;
	pthread_mutex_unlock(&hcas_lock);
	return fd;
}

struct hca_context *hca_known(const struct ibv_context *ctx)
{
	struct hca_context *c;

	pthread_mutex_lock(&hcas_lock);
	c = context_of(ctx);
	pthread_mutex_unlock(&hcas_lock);
	return c;
}

void hca_forget(struct hca_context *c)
{
	pthread_mutex_lock(&hcas_lock);
	LIST_REMOVE(c, link);
	c->hca->users--;
	pthread_mutex_unlock(&hcas_lock);
	free(c);
}

/* Mark the HCA and all its open contexts as lost. */
static void hca_give_up(struct hca *h, uint64_t ms)
{
	struct hca_context *c;

	mpib_err("rdma:%s: %s has had no answer for %llu ms: the "
		 "device counts as failed (its firmware may hang: "
		 "see dmesg)",
		 h->name, h->call, (unsigned long long)ms);
	h->hung = true;
	atomic_store_explicit(&any_lost, true, memory_order_relaxed);
	LIST_FOREACH(c, &contexts, link)
	{
		if (c->hca == h)
			c->lost = true;
	}
	if (hcas_bell >= 0)
		eventfd_write(hcas_bell, 1);
	/* Also wake the callers of all queued jobs, so that these callers stop
	 * waiting. */
	pthread_cond_broadcast(&h->answered);
}

/* Accept calls again after the late call has returned and the queue is empty.
 * So queued calls run before new calls. */
static void hca_look(struct hca *h)
{
	if (!h->hung || !TAILQ_EMPTY(&h->jobs))
		return;
	h->hung = false;
	mpib_warn("rdma:%s: %s returned after %.1f s: the device can be opened "
		  "again",
		  h->name, h->call,
		  (double)(mpib_now_ns() - h->began_ns) / 1e9);
}

/* Run the oldest job. The caller holds the lock. */
static void run_one(struct hca *h)
{
	struct hca_job *job = TAILQ_FIRST(&h->jobs);
	bool wanted = !job->left || job->kind == HCA_ENDS;
	int rc = -ECANCELED;

	job->began_ns = mpib_now_ns();
	if (!h->hung) {
		h->call = job->call;
		h->began_ns = job->began_ns;
	}
	pthread_cond_broadcast(&h->answered);
	pthread_mutex_unlock(&hcas_lock);
	if (wanted)
		rc = job->run(job);
	pthread_mutex_lock(&hcas_lock);
	TAILQ_REMOVE(&h->jobs, job, link);
	job->rc = rc;
	job->done = true;
	if (!job->left) {
		pthread_cond_broadcast(&h->answered);
		hca_look(h);
		return;
	}
	pthread_mutex_unlock(&hcas_lock);
	if (rc == 0 && job->kind == HCA_MAKES && job->end)
		job->end(job->made);
	if (job->fd >= 0)
		close(job->fd);
	pthread_mutex_lock(&hcas_lock);
	hca_look(h);
	free(job);
}

static void *hca_run(void *arg)
{
	struct hca *h = arg;

	pthread_setname_np(pthread_self(), "mpib-hca");
	pthread_mutex_lock(&hcas_lock);
	while (h->users > 0 || !TAILQ_EMPTY(&h->jobs)) {
		if (TAILQ_EMPTY(&h->jobs))
			pthread_cond_wait(&h->asked, &hcas_lock);
		else
			run_one(h);
	}
	LIST_REMOVE(h, link);
	pthread_mutex_unlock(&hcas_lock);
	pthread_cond_destroy(&h->asked);
	pthread_cond_destroy(&h->answered);
	free(h);
	return NULL;
}

static struct hca *hca_new(const char *name)
{
	struct hca *h = calloc(1, sizeof(*h));
	pthread_condattr_t attr;

	if (!h)
		return NULL;
	snprintf(h->name, sizeof(h->name), "%s", name);
	TAILQ_INIT(&h->jobs);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&h->asked, &attr);
	pthread_cond_init(&h->answered, &attr);
	pthread_condattr_destroy(&attr);
	if (mpib_thread_create(NULL, hca_run, h) < 0) {
		free(h);
		return NULL;
	}
	LIST_INSERT_HEAD(&hcas, h, link);
	return h;
}

static struct hca *hca_named(const char *name)
{
	struct hca *h;

	LIST_FOREACH(h, &hcas, link)
	{
		if (!strcmp(h->name, name))
			return h;
	}
	return hca_new(name);
}

struct hca_job *hca_job_new(struct ibv_context *ctx, const char *call,
			    enum hca_kind kind, int (*run)(struct hca_job *),
			    int (*end)(void *))
{
	struct hca_job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	job->ctx = ctx;
	job->call = call;
	job->kind = kind;
	job->run = run;
	job->end = end;
	job->fd = -1;
	return job;
}

static uint64_t patience_ms(const struct hca_job *job)
{
	return mpib_hca_wait_ms + (job->bytes >> 30) * GIB_MS;
}

/* Sleep for `ns` or until a wake-up. Return the time slept, but at most `ns`.
 * Time beyond `ns` is not counted, because a process that was stopped or had no
 * CPU time could not receive the answer. */
static uint64_t nap(struct hca *h, uint64_t ns)
{
	uint64_t from = mpib_now_ns(), until = from + ns, took;
	struct timespec ts = mpib_timespec(until);

	pthread_cond_timedwait(&h->answered, &hcas_lock, &ts);
	took = mpib_now_ns() - from;
	return took < ns ? took : ns;
}

static void tell_of_wait(void)
{
	void (*waits)(void) = mpib_hca_waits;

	pthread_mutex_unlock(&hcas_lock);
	if (waits)
		waits();
	pthread_mutex_lock(&hcas_lock);
}

/* Wait for the job. True: the answer has come. The time limit begins when the
 * HCA's thread starts this job, not when the job is queued. Each earlier job
 * has its own limit. If an earlier job exceeds its limit, its caller marks the
 * HCA as lost. */
static bool await(struct hca_job *job, uint64_t ms)
{
	uint64_t left = ms * MS, told = mpib_now_ns();

	while (!job->done && !job->hca->hung && left > 0) {
		uint64_t most = left < NAP_MS * MS ? left : NAP_MS * MS;
		uint64_t took = nap(job->hca, most);

		if (job->began_ns)
			left -= took;
		if (mpib_now_ns() - told < WAITS_MS * MS)
			continue;
		told = mpib_now_ns();
		tell_of_wait();
	}
	return job->done;
}

/* Append the job to the queue. The caller holds the lock and has set
 * job->hca. */
static int queue_up(struct hca_job **pjob)
{
	struct hca_job *job = *pjob;
	uint64_t ms = patience_ms(job);

	TAILQ_INSERT_TAIL(&job->hca->jobs, job, link);
	pthread_cond_signal(&job->hca->asked);
	if (await(job, ms))
		return job->rc;
	if (!job->hca->hung)
		hca_give_up(job->hca, ms);
	job->left = true;
	*pjob = NULL;
	return -EIO;
}

int hca_job_do(struct hca_job **pjob)
{
	struct hca_job *job = *pjob;
	struct hca_context *c;
	int rc = -EIO;

	pthread_mutex_lock(&hcas_lock);
	c = context_of(job->ctx);
	if (c && (!c->lost || job->kind == HCA_ENDS)) {
		job->hca = c->hca;
		rc = queue_up(pjob);
	}
	pthread_mutex_unlock(&hcas_lock);
	return rc;
}

/* Run a job. `c` becomes the record of the context that the call opens; NULL:
 * the call opens no context. */
static int enter(struct hca_job **pjob, struct hca_context *c)
{
	struct hca *h = hca_named((*pjob)->spec.name);
	int rc;

	if (!h)
		return -ENOMEM;
	if (h->hung)
		return -EIO;
	(*pjob)->hca = h;
	h->users++;
	rc = queue_up(pjob);
	if (rc == 0 && c) {
		c->ctx = (*pjob)->made;
		c->hca = h;
		LIST_INSERT_HEAD(&contexts, c, link);
	} else {
		h->users--;
		pthread_cond_signal(&h->asked);
	}
	return rc;
}

int hca_open(struct hca_job **pjob)
{
	struct hca_context *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return -ENOMEM;
	pthread_mutex_lock(&hcas_lock);
	rc = enter(pjob, c);
	pthread_mutex_unlock(&hcas_lock);
	if (rc < 0)
		free(c);
	return rc;
}

int hca_visit(struct hca_job **pjob)
{
	int rc;

	pthread_mutex_lock(&hcas_lock);
	rc = enter(pjob, NULL);
	pthread_mutex_unlock(&hcas_lock);
	return rc;
}
