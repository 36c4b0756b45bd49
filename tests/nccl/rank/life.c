/* SPDX-License-Identifier: Apache-2.0 */
/* Make several communicators, split them, end or abort them, and make them
 * again. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "rank.h"

#define SEVERAL 3

/* Make several communicators, and let all of them work at the same time. */
static void several(struct rank *r, ncclComm_t *comm)
{
	size_t count = 1 << 18;
	cudaStream_t stream[SEVERAL];
	float *in[SEVERAL], *out[SEVERAL];

	for (unsigned i = 0; i < SEVERAL; i++) {
		comm[i] = comm_new(r);
		stream[i] = stream_new(r);
		in[i] = device_alloc(r, count * sizeof(float));
		out[i] = device_alloc(r, count * sizeof(float));
		for (size_t k = 0; k < count; k++)
			in[i][k] = number(k, r->rank, i);
	}
	for (unsigned i = 0; i < SEVERAL; i++)
		NCCL(r, ncclAllReduce(in[i], out[i], count, ncclFloat, ncclSum,
				      comm[i], stream[i]));
	for (unsigned i = 0; i < SEVERAL; i++) {
		stream_wait(r, comm[i], stream[i], "all-reduces at once");
		verify_sum(r, "all-reduces at once", out[i], count, 0, r->n, i);
		device_free(r, in[i]);
		device_free(r, out[i]);
	}
}

/* Check that the communicator works, by an all-reduce and an all-to-all. */
static void use(struct rank *r, ncclComm_t comm, unsigned round)
{
	all_reduce_once(r, comm, r->stream, 1 << 20, round);
	if (comm_size(r, comm) > 1)
		all_to_all_once(r, comm, r->stream, 70000, round);
}

void test_communicators(struct rank *r)
{
	ncclComm_t comm[SEVERAL], halves, reversed;
	ncclConfig_t shared = NCCL_CONFIG_INITIALIZER;

	several(r, comm);
	say(r, "%d communicators at once", SEVERAL);
	/* If there are enough ranks, each of the two halves has ranks of both
	 * nodes. */
	NCCL(r, ncclCommSplit(r->comm, r->rank % 2, r->rank, &halves, NULL));
	use(r, halves, 1);
	say(r, "halves of %d", comm_size(r, halves));
	shared.splitShare = 1;
	NCCL(r, ncclCommSplit(r->comm, 0, r->n - r->rank, &reversed, &shared));
	use(r, reversed, 2);
	use(r, r->comm, 3);
	say(r, "reversed, with its parent's resources");
	NCCL(r, ncclCommDestroy(reversed));
	NCCL(r, ncclCommDestroy(halves));
	for (int i = 0; i < SEVERAL; i++)
		NCCL(r, ncclCommDestroy(comm[i]));
	use(r, r->comm, 4);
	say(r, "the first, after all others ended");
}

void test_rerun(struct rank *r)
{
	for (int i = 0; i < r->opt->times; i++) {
		use(r, r->comm, (unsigned)i);
		if (i % 2)
			NCCL(r, ncclCommFinalize(r->comm));
		NCCL(r, ncclCommDestroy(r->comm));
		r->comm = comm_new(r);
	}
	use(r, r->comm, 0);
	say(r, "made and ended %d times", r->opt->times);
}

/* Abort an all-reduce twice: once without rank 0 taking part, and once with all
 * ranks. */
void test_abort(struct rank *r)
{
	size_t count = 4 << 20;
	float *in = device_alloc(r, count * sizeof(float));
	float *out = device_alloc(r, count * sizeof(float));

	for (int all = 0; all < 2; all++) {
		double begin;

		use(r, r->comm, (unsigned)all);
		meet(r);
		if (all || r->rank)
			NCCL(r, ncclAllReduce(in, out, count, ncclFloat,
					      ncclSum, r->comm, r->stream));
		if (!all || r->rank % 2)
			nanosleep(&(struct timespec){ 0, 200000000 }, NULL);
		begin = now();
		NCCL(r, ncclCommAbort(r->comm));
		CUDA(r, cudaStreamSynchronize(r->stream));
		if (now() - begin > r->opt->limit)
			fail(r, "abort took %.1f s", now() - begin);
		say(r, "abort%s: %.2f s", all ? "" : ", a rank missing",
		    now() - begin);
		r->comm = comm_new(r);
	}
	use(r, r->comm, 3);
	say(r, "communicators made after aborts work");
	device_free(r, in);
	device_free(r, out);
}
