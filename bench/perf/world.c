/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that all ranks share: results, handles, barrier, failure. */
#include "perf/world.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static void *shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static size_t results_len(const struct perf_world *w)
{
	return (size_t)w->rows * (size_t)w->opt.nranks * sizeof(*w->result);
}

static size_t handles_len(const struct perf_world *w)
{
	return (size_t)w->opt.nranks * (size_t)w->opt.nranks *
	       (size_t)w->opt.channels * sizeof(*w->handle);
}

struct perf_world *perf_world_new(const struct perf_options *opt, int node)
{
	struct perf_world *w = shared(sizeof(*w));

	if (w) {
		w->opt = *opt;
		w->node = node;
		w->local = node < 0 ? opt->nranks : opt->ranks_per_node;
		w->bell = -1;
		w->rows = perf_options_sizes(opt, w->size);
		if (opt->random_sizes) {
			w->rows = 1;
			w->size[0] = opt->max;
		}
		w->result = shared(results_len(w));
		w->handle = shared(handles_len(w));
	}
	if (!w || !w->result || !w->handle) {
		perf_bad("memory: none for %d ranks: %s (run fewer)",
			 opt->nranks, strerror(errno));
		perf_world_free(w);
		return NULL;
	}
	return w;
}

void perf_world_free(struct perf_world *w)
{
	if (!w)
		return;
	if (w->result)
		munmap(w->result, results_len(w));
	if (w->handle)
		munmap(w->handle, handles_len(w));
	munmap(w, sizeof(*w));
}

bool perf_world_failed(const struct perf_world *w)
{
	return atomic_load_explicit(&w->failed, memory_order_acquire) != 0;
}

bool perf_world_leads(const struct perf_world *w, int rank)
{
	return w->node < 0 ? rank == 0 : perf_rank_local(&w->opt, rank) == 0;
}

static void ring_bell(const struct perf_world *w)
{
	uint64_t one = 1;

	/* The write cannot fail: the eventfd's counter is never full. */
	if (write(w->bell, &one, sizeof(one)) < 0)
		return;
}

void perf_world_go(struct perf_world *w)
{
	atomic_fetch_add(&w->phase, 1);
}

bool perf_world_barrier(struct perf_world *w)
{
	int phase = atomic_load(&w->phase);

	if (atomic_fetch_add(&w->arrived, 1) == w->local - 1) {
		atomic_store(&w->arrived, 0);
		if (w->bell < 0)
			perf_world_go(w);
		else
			ring_bell(w);
	}
	while (atomic_load(&w->phase) == phase && !perf_world_failed(w))
		sched_yield();
	return !perf_world_failed(w);
}

void perf_world_fail(struct perf_world *w, int rank, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	if (atomic_exchange(&w->telling, 1))
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (w->bell < 0)
		fprintf(stderr, "mpib-perf: rank %d: %s\n", rank, text);
	else
		snprintf(w->why, sizeof(w->why), "rank %d: %.380s", rank, text);
	/* Release: a rank that sees the failure also sees its reason. */
	atomic_store_explicit(&w->failed, 1, memory_order_release);
	if (w->bell >= 0)
		ring_bell(w);
}

void perf_world_sums(struct perf_world *w, int row, struct perf_sums *sums)
{
	*sums = (struct perf_sums){ 0 };
	for (int r = 0; r < w->opt.nranks; r++) {
		const struct perf_result *res = perf_world_result(w, row, r);

		sums->sent += res->sent;
		sums->wrong += res->wrong;
		sums->senders += res->sent > 0;
		if (res->seconds > sums->seconds)
			sums->seconds = res->seconds;
	}
}

struct perf_handle *perf_world_handle(struct perf_world *w, int to, int from,
				      int channel)
{
	size_t n = (size_t)w->opt.nranks;

	return &w->handle[((size_t)to * n + (size_t)from) *
				  (size_t)w->opt.channels +
			  (size_t)channel];
}

struct perf_result *perf_world_result(struct perf_world *w, int row, int rank)
{
	return &w->result[row * w->opt.nranks + rank];
}

double perf_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

double perf_cpu(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

/* Return the proxy's pid, or 0 if there is no proxy. */
static long pid_of(const char *run_dir)
{
	char path[512], text[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "%s/proxy.pid", run_dir);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (!fgets(text, sizeof(text), f))
		text[0] = '\0';
	fclose(f);
	return strtol(text, NULL, 10);
}

/* Return user and system seconds of the proxy of a run directory, or a negative
 * number if there is no proxy. */
static double proxy_seconds(const char *run_dir)
{
	long pid = pid_of(run_dir);
	struct timespec ts;
	clockid_t clock;

	if (pid <= 0 || clock_getcpuclockid((pid_t)pid, &clock) != 0 ||
	    clock_gettime(clock, &ts) < 0)
		return -1;
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

double perf_proxy_cpu(const struct perf_options *opt)
{
	double sum = 0;
	int found = 0;

	for (int i = 0; i < opt->nnodes; i++) {
		double cpu = opt->nodes[i] ? proxy_seconds(opt->nodes[i]) : -1;

		if (cpu < 0)
			continue;
		sum += cpu;
		found++;
	}
	return found ? sum : -1;
}
