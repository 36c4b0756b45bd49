/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-to-all by grouped sends and receives. If ranks share connections, NCCL
 * merges several receives into one network receive.
 */
#include <stdlib.h>
#include <string.h>

#include <nccl.h>

#include "rank.h"

#define POISON 0xa5

static const size_t sizes[] = { 8, 1000, 4096, 65536, 1 << 20, 4 << 20 };

static void issue(const struct rank *r, ncclComm_t comm, cudaStream_t stream,
		  char *in, char *out, size_t bytes)
{
	int n = comm_size(r, comm);

	NCCL(r, ncclGroupStart());
	for (int i = 0; i < n; i++) {
		size_t at = (size_t)i * bytes;

		NCCL(r, ncclSend(in + at, bytes, ncclInt8, i, comm, stream));
		NCCL(r, ncclRecv(out + at, bytes, ncclInt8, i, comm, stream));
	}
	NCCL(r, ncclGroupEnd());
}

void all_to_all_once(const struct rank *r, ncclComm_t comm, cudaStream_t stream,
		     size_t bytes, unsigned round)
{
	int n = comm_size(r, comm), me = comm_rank(r, comm);
	char *in = device_alloc(r, bytes * (size_t)n);
	char *out = device_alloc(r, bytes * (size_t)n);

	for (int i = 0; i < n; i++)
		fill(in + (size_t)i * bytes, bytes, me, i, round);
	memset(out, POISON, bytes * (size_t)n);
	issue(r, comm, stream, in, out, bytes);
	stream_wait(r, comm, stream, "all-to-all");
	for (int i = 0; i < n; i++)
		verify(r, "all-to-all", out + (size_t)i * bytes, bytes, i, me,
		       round);
	device_free(r, in);
	device_free(r, out);
}

void test_alltoall(struct rank *r)
{
	unsigned round = 0;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		double begin = now();

		if (sizes[i] > r->opt->max)
			break;
		for (int t = 0; t < r->opt->times; t++)
			all_to_all_once(r, r->comm, r->stream, sizes[i],
					round++);
		say(r, "%zu bytes a pair, %d times: %.2f s", sizes[i],
		    r->opt->times, now() - begin);
	}
}

/* Post many all-to-alls without waiting in between, so that receives are posted
 * long before their sends. */
void test_queued(struct rank *r)
{
	size_t bytes = 65536, all = bytes * (size_t)r->n;
	int times = r->opt->times;
	char *in = device_alloc(r, all * (size_t)times);
	char *out = device_alloc(r, all * (size_t)times);

	for (int t = 0; t < times; t++)
		for (int i = 0; i < r->n; i++)
			fill(in + (size_t)t * all + (size_t)i * bytes, bytes,
			     r->rank, i, (unsigned)t);
	memset(out, POISON, all * (size_t)times);
	for (int t = 0; t < times; t++)
		issue(r, r->comm, r->stream, in + (size_t)t * all,
		      out + (size_t)t * all, bytes);
	stream_wait(r, r->comm, r->stream, "queued all-to-alls");
	for (int t = 0; t < times; t++)
		for (int i = 0; i < r->n; i++)
			verify(r, "queued all-to-alls",
			       out + (size_t)t * all + (size_t)i * bytes, bytes,
			       i, r->rank, (unsigned)t);
	say(r, "%d all-to-alls of %zu bytes a pair at once", times, bytes);
	device_free(r, in);
	device_free(r, out);
}

/* Return the size of the message from one rank to another. Both ranks can
 * compute it. The size differs by pair and round, and may be 0. */
static size_t ragged_size(const struct rank *r, int from, int to,
			  unsigned round)
{
	unsigned x = (unsigned)from * 7919 + (unsigned)to * 104729 + round * 31;

	x = (x ^ x >> 7) * 2654435761u;
	switch (x >> 24 & 3) {
	case 0:
		return 0;
	case 1:
		return x % 4096;
	case 2:
		return x % 65536;
	default:
		return x % r->opt->max;
	}
}

static void ragged_once(struct rank *r, char *in, char *out, unsigned round)
{
	size_t most = r->opt->max;

	for (int i = 0; i < r->n; i++)
		fill(in + (size_t)i * most, ragged_size(r, r->rank, i, round),
		     r->rank, i, round);
	memset(out, POISON, most * (size_t)r->n);
	NCCL(r, ncclGroupStart());
	for (int k = 0; k < r->n; k++) {
		/* Each rank uses a different order in each round. */
		int to = (k * 5 + r->rank + (int)round) % r->n;
		int from = (k + r->rank * 3 + (int)round) % r->n;

		if (r->n % 5 == 0)
			to = k;
		NCCL(r, ncclRecv(out + (size_t)from * most,
				 ragged_size(r, from, r->rank, round), ncclInt8,
				 from, r->comm, r->stream));
		NCCL(r, ncclSend(in + (size_t)to * most,
				 ragged_size(r, r->rank, to, round), ncclInt8,
				 to, r->comm, r->stream));
	}
	NCCL(r, ncclGroupEnd());
	stream_wait(r, r->comm, r->stream, "ragged all-to-all");
	for (int i = 0; i < r->n; i++)
		verify(r, "ragged all-to-all", out + (size_t)i * most,
		       ragged_size(r, i, r->rank, round), i, r->rank, round);
}

void test_ragged(struct rank *r)
{
	char *in = device_alloc(r, r->opt->max * (size_t)r->n);
	char *out = device_alloc(r, r->opt->max * (size_t)r->n);

	for (int t = 0; t < r->opt->times; t++)
		ragged_once(r, in, out, (unsigned)t);
	say(r, "%d all-to-alls of different sizes", r->opt->times);
	device_free(r, in);
	device_free(r, out);
}
