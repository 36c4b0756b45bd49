/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

double check_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

int check_fail(struct check_rank *r, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (atomic_exchange(&r->w->failed, 1))
		return -1;
	n = snprintf(r->w->why, sizeof(r->w->why), "rank %d: ", r->rank);
	va_start(ap, fmt);
	vsnprintf(r->w->why + n, sizeof(r->w->why) - (size_t)n, fmt, ap);
	va_end(ap);
	return -1;
}

int check_cuda(struct check_rank *r, const char *call, cudaError_t error)
{
	return error == cudaSuccess ? 0
				    : check_fail(r, "%s: %s", call,
						 cudaGetErrorString(error));
}

int check_nccl(struct check_rank *r, const char *call, ncclResult_t result)
{
	return result == ncclSuccess ? 0
				     : check_fail(r, "%s: %s: %s", call,
						  ncclGetErrorString(result),
						  ncclGetLastError(r->comm));
}

void check_meet(struct check_rank *r)
{
	pthread_barrier_wait(&r->w->barrier);
}

/*
 * Different host ids let NCCL take one GPU twice and leave it nothing but the
 * network between the ranks. MNNVL would be another way between "hosts". Few
 * CTAs: the two processes share one GPU by time slices.
 */
static void set_environment(const struct check_options *o, int rank)
{
	char algo[64], host[32];

	snprintf(host, sizeof(host), "mpib-check-%d", rank);
	/* Only all-reduce has a tree; the others refuse to run on one. */
	snprintf(algo, sizeof(algo), "ring;allreduce:%s", o->algo);
	setenv("NCCL_HOSTID", host, 1);
	setenv("MPIB_RUN_DIR", o->node[rank], 1);
	setenv("NCCL_NET_PLUGIN", o->plugin, 1);
	setenv("NCCL_NET", "MPIB", 1);
	setenv("NCCL_ALGO", algo, 1);
	setenv("NCCL_PROTO", o->proto, 1);
	setenv("NCCL_MNNVL_ENABLE", "0", 1);
	/* Else sends and receives never use LL between nodes. */
	setenv("NCCL_ALLOC_P2P_NET_LL_BUFFERS", "1", 1);
	setenv("NCCL_SOCKET_IFNAME", "lo", 0);
	setenv("NCCL_CUMEM_HOST_ENABLE", "0", 0);
	setenv("NCCL_MAX_CTAS", "2", 0);
	setenv("NCCL_DEBUG", "WARN", 0);
}

int check_comm_new(struct check_rank *r)
{
	if (r->rank == 0 &&
	    check_nccl(r, "ncclGetUniqueId", ncclGetUniqueId(&r->w->id)) < 0)
		return -1;
	check_meet(r);
	return check_nccl(
		r, "ncclCommInitRank",
		ncclCommInitRank(&r->comm, CHECK_RANKS, r->w->id, r->rank));
}

int check_stream_wait(struct check_rank *r, const char *what)
{
	double until = check_now() + r->w->opt.timeout;
	cudaError_t error;

	while ((error = cudaStreamQuery(r->stream)) == cudaErrorNotReady) {
		ncclResult_t async = ncclSuccess;

		if (r->comm &&
		    ncclCommGetAsyncError(r->comm, &async) == ncclSuccess &&
		    async != ncclSuccess && async != ncclInProgress)
			return check_nccl(r, what, async);
		if (check_now() > until)
			return check_fail(r, "%s: nothing for %u s", what,
					  r->w->opt.timeout);
		usleep(100);
	}
	return check_cuda(r, what, error);
}

static int open_gpu(struct check_rank *r)
{
	size_t bytes = CHECK_RANKS * (size_t)r->w->opt.max;
	int device = r->rank % r->w->opt.gpus;
	void *from = NULL, *to = NULL;

	r->host = malloc(bytes);
	if (!r->host)
		return check_fail(r, "no memory for %zu bytes", bytes);
	if (check_cuda(r, "cudaSetDevice", cudaSetDevice(device)) < 0 ||
	    check_cuda(r, "cudaStreamCreate", cudaStreamCreate(&r->stream)) <
		    0 ||
	    check_cuda(r, "cudaMalloc", cudaMalloc(&from, bytes)) < 0 ||
	    check_cuda(r, "cudaMalloc", cudaMalloc(&to, bytes)) < 0)
		return -1;
	r->from = from;
	r->to = to;
	return 0;
}

static check_test_fn *find(const char *name)
{
	check_test_fn *fn = check_coll_find(name);

	return fn ? fn : check_life_find(name);
}

static int run_one(struct check_rank *r, const char *name)
{
	check_test_fn *fn = find(name);
	double begun = check_now();

	if (!fn)
		return check_fail(r, "there is no test \"%s\"", name);
	check_meet(r);
	if (fn(r) < 0)
		return -1;
	check_meet(r);
	if (r->rank == 0)
		printf("PASS %s %.1f\n", name, check_now() - begun);
	return 0;
}

static int run_all(struct check_rank *r)
{
	char *all = strdup(r->w->opt.tests), *rest = all, *name;
	int rc = all ? 0 : check_fail(r, "out of memory");

	while (rc == 0 && (name = strsep(&rest, ",")))
		rc = run_one(r, name);
	free(all);
	return rc;
}

int check_rank_main(struct check_world *w, int rank)
{
	struct check_rank r = { .w = w, .rank = rank };
	int rc;

	set_environment(&w->opt, rank);
	rc = open_gpu(&r);
	if (rc == 0)
		rc = check_comm_new(&r);
	if (rc == 0)
		rc = run_all(&r);
	if (rc == 0)
		rc = check_nccl(&r, "ncclCommDestroy", ncclCommDestroy(r.comm));
	if (rc < 0)
		return 1; /* what a failed run holds, its end gives back */
	cudaFree(r.from);
	cudaFree(r.to);
	cudaStreamDestroy(r.stream);
	free(r.host);
	return 0;
}
