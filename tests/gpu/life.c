/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicators that end: destroyed and made again in the same processes, and
 * aborted while both ends move data, one end after the other.
 */
#include <string.h>
#include <unistd.h>

#include "check.h"

#define ROUNDS 3
#define QUEUED 64 /* all-reduces that an abort finds on the stream */
#define WORDS 65537

static int recreate(struct check_rank *r)
{
	for (int i = 0; i < ROUNDS; i++) {
		if (check_nccl(r, "ncclCommDestroy", ncclCommDestroy(r->comm)) <
		    0)
			return -1;
		r->comm = NULL;
		check_meet(r);
		if (check_comm_new(r) < 0 || check_allreduce_once(r, WORDS) < 0)
			return -1;
	}
	return 0;
}

/* Enough on the stream that the first is over long before the last. */
static int enqueue(struct check_rank *r, cudaEvent_t first)
{
	size_t count = (size_t)r->w->opt.max / sizeof(float);

	for (int i = 0; i < QUEUED; i++) {
		if (check_nccl(r, "ncclAllReduce",
			       ncclAllReduce(r->from, r->to, count, ncclFloat32,
					     ncclSum, r->comm, r->stream)) < 0)
			return -1;
		if (i == 0 && check_cuda(r, "cudaEventRecord",
					 cudaEventRecord(first, r->stream)) < 0)
			return -1;
	}
	return 0;
}

static int until_moving(struct check_rank *r, cudaEvent_t first)
{
	double until = check_now() + r->w->opt.timeout;
	cudaError_t error;

	while ((error = cudaEventQuery(first)) == cudaErrorNotReady) {
		if (check_now() > until)
			return check_fail(r, "the first all-reduce before the "
					     "abort did not end");
		usleep(100);
	}
	if (check_cuda(r, "cudaEventQuery", error) < 0)
		return -1;
	if (cudaStreamQuery(r->stream) != cudaErrorNotReady)
		return check_fail(r, "nothing was in flight to abort: raise "
				     "--max");
	return 0;
}

static int abort_now(struct check_rank *r)
{
	double begun = check_now(), took;

	if (check_nccl(r, "ncclCommAbort", ncclCommAbort(r->comm)) < 0)
		return -1;
	r->comm = NULL;
	took = check_now() - begun;
	if (took > r->w->opt.timeout)
		return check_fail(r, "ncclCommAbort took %.1f s", took);
	return check_stream_wait(r, "the stream after the abort");
}

/* Rank 1 first sees its peer stop, and aborts a second later. */
static int abort_once(struct check_rank *r, cudaEvent_t first)
{
	if (enqueue(r, first) < 0 || until_moving(r, first) < 0)
		return -1;
	check_meet(r);
	if (r->rank == 1)
		sleep(1);
	if (abort_now(r) < 0)
		return -1;
	check_meet(r);
	if (check_comm_new(r) < 0)
		return -1;
	return check_allreduce_once(r, WORDS);
}

static int abort_in_flight(struct check_rank *r)
{
	cudaEvent_t first;
	int rc;

	if (check_cuda(r, "cudaEventCreate", cudaEventCreate(&first)) < 0)
		return -1;
	rc = 0;
	for (int i = 0; i < ROUNDS && rc == 0; i++)
		rc = abort_once(r, first);
	cudaEventDestroy(first);
	return rc;
}

check_test_fn *check_life_find(const char *name)
{
	if (!strcmp(name, "recreate"))
		return recreate;
	return strcmp(name, "abort") ? NULL : abort_in_flight;
}
