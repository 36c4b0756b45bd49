/* SPDX-License-Identifier: Apache-2.0 */
/* Run every collective, and exchanges between pairs, for each size. */
#include <string.h>

#include <nccl.h>

#include "rank.h"

#define POISON 0xa5

static const size_t sizes[] = {
	8, 60, 1024, 12292, 65536, 1 << 20, 4 << 20, (16 << 20) + 4, 64 << 20,
};

static void numbers(float *to, size_t count, int rank, unsigned round)
{
	for (size_t i = 0; i < count; i++)
		to[i] = number(i, rank, round);
}

void all_reduce_once(const struct rank *r, ncclComm_t comm, cudaStream_t stream,
		     size_t bytes, unsigned round)
{
	size_t count = bytes / sizeof(float);
	float *in = device_alloc(r, bytes), *out = device_alloc(r, bytes);

	numbers(in, count, comm_rank(r, comm), round);
	memset(out, POISON, bytes);
	NCCL(r,
	     ncclAllReduce(in, out, count, ncclFloat, ncclSum, comm, stream));
	stream_wait(r, comm, stream, "all-reduce");
	verify_sum(r, "all-reduce", out, count, 0, comm_size(r, comm), round);
	/* Do it in place. */
	NCCL(r, ncclAllReduce(in, in, count, ncclFloat, ncclSum, comm, stream));
	stream_wait(r, comm, stream, "all-reduce in place");
	verify_sum(r, "all-reduce in place", in, count, 0, comm_size(r, comm),
		   round);
	device_free(r, in);
	device_free(r, out);
}

static void all_gather_once(struct rank *r, size_t bytes, unsigned round)
{
	char *in = device_alloc(r, bytes);
	char *out = device_alloc(r, bytes * (size_t)r->n);

	fill(in, bytes, r->rank, 0, round);
	memset(out, POISON, bytes * (size_t)r->n);
	NCCL(r, ncclAllGather(in, out, bytes, ncclInt8, r->comm, r->stream));
	stream_wait(r, r->comm, r->stream, "all-gather");
	for (int i = 0; i < r->n; i++)
		verify(r, "all-gather", out + (size_t)i * bytes, bytes, i, 0,
		       round);
	device_free(r, in);
	device_free(r, out);
}

static void reduce_scatter_once(struct rank *r, size_t bytes, unsigned round)
{
	size_t count = bytes / sizeof(float);
	float *in = device_alloc(r, bytes * (size_t)r->n);
	float *out = device_alloc(r, bytes);

	numbers(in, count * (size_t)r->n, r->rank, round);
	memset(out, POISON, bytes);
	NCCL(r, ncclReduceScatter(in, out, count, ncclFloat, ncclSum, r->comm,
				  r->stream));
	stream_wait(r, r->comm, r->stream, "reduce-scatter");
	verify_sum(r, "reduce-scatter", out, count, (size_t)r->rank * count,
		   r->n, round);
	device_free(r, in);
	device_free(r, out);
}

static void rooted_once(struct rank *r, size_t bytes, unsigned round)
{
	size_t count = bytes / sizeof(float);
	int root = (int)(round % (unsigned)r->n);
	float *in = device_alloc(r, bytes), *out = device_alloc(r, bytes);

	fill(in, bytes, r->rank, 0, round);
	memset(out, POISON, bytes);
	NCCL(r,
	     ncclBroadcast(in, out, bytes, ncclInt8, root, r->comm, r->stream));
	stream_wait(r, r->comm, r->stream, "broadcast");
	verify(r, "broadcast", out, bytes, root, 0, round);
	numbers(in, count, r->rank, round);
	memset(out, POISON, bytes);
	NCCL(r, ncclReduce(in, out, count, ncclFloat, ncclSum, root, r->comm,
			   r->stream));
	stream_wait(r, r->comm, r->stream, "reduce");
	if (r->rank == root)
		verify_sum(r, "reduce", out, count, 0, r->n, round);
	device_free(r, in);
	device_free(r, out);
}

/* Send to rank (rank + n / 2) modulo n and receive from rank (rank - n / 2)
 * modulo n. These ranks are on the other node. */
static void exchange_once(struct rank *r, size_t bytes, unsigned round)
{
	int peer = (r->rank + r->n / 2) % r->n;
	int from = (r->rank + r->n - r->n / 2) % r->n;
	char *in = device_alloc(r, bytes), *out = device_alloc(r, bytes);

	fill(in, bytes, r->rank, peer, round);
	memset(out, POISON, bytes);
	NCCL(r, ncclGroupStart());
	NCCL(r, ncclSend(in, bytes, ncclInt8, peer, r->comm, r->stream));
	NCCL(r, ncclRecv(out, bytes, ncclInt8, from, r->comm, r->stream));
	NCCL(r, ncclGroupEnd());
	stream_wait(r, r->comm, r->stream, "send and receive");
	verify(r, "send and receive", out, bytes, from, r->rank, round);
	device_free(r, in);
	device_free(r, out);
}

void test_collectives(struct rank *r)
{
	unsigned round = 0;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		double begin = now();
		int times = sizes[i] > 1 << 20 ? 1 : r->opt->times;

		if (sizes[i] < r->opt->min)
			continue;
		if (sizes[i] > r->opt->max)
			break;
		for (int t = 0; t < times; t++, round++) {
			exchange_once(r, sizes[i], round);
			all_reduce_once(r, r->comm, r->stream, sizes[i], round);
			all_gather_once(r, sizes[i], round);
			reduce_scatter_once(r, sizes[i], round);
			rooted_once(r, sizes[i], round);
		}
		say(r, "%zu bytes, %d times: %.2f s", sizes[i], times,
		    now() - begin);
	}
}
