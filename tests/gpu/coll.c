/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collectives. What is sent follows from rank, place and round alone, so
 * a receiver knows every word that it must hold; receive buffers are poisoned
 * before, so that nothing old can pass for new.
 */
#include <string.h>

#include "check.h"

#define POISON 0xa5

/* Words per rank; odd ones too, so that parts end off every boundary. */
static const size_t sizes[] = { 1,     2,	31,	 1024,	  16384,
				65537, 1048576, 1048579, 4194304, 16777216 };

static uint32_t word(unsigned round, int from, int to, size_t i)
{
	uint32_t x = (uint32_t)i * 2654435761u + round * 40503u +
		     (uint32_t)from * 97u + (uint32_t)to * 31u;

	return x ^ x >> 15;
}

/* Small whole numbers: their sum is exact in a float. */
static float number(unsigned round, int rank, size_t i)
{
	return (float)((i * 7 + round * 13 + (unsigned)rank * 101) % 4093);
}

/* host -> from, and poison where the data will land. */
static int load(struct check_rank *r, size_t sent, size_t received)
{
	if (check_cuda(r, "cudaMemcpyAsync",
		       cudaMemcpyAsync(r->from, r->host, sent,
				       cudaMemcpyHostToDevice, r->stream)) < 0)
		return -1;
	return check_cuda(r, "cudaMemsetAsync",
			  cudaMemsetAsync(r->to, POISON, received, r->stream));
}

static int unload(struct check_rank *r, const char *what, size_t received)
{
	if (check_stream_wait(r, what) < 0 ||
	    check_cuda(r, "cudaMemcpyAsync",
		       cudaMemcpyAsync(r->host, r->to, received,
				       cudaMemcpyDeviceToHost, r->stream)) < 0)
		return -1;
	return check_stream_wait(r, what);
}

static int wrong(struct check_rank *r, const char *what, size_t count, size_t i,
		 uint32_t want)
{
	return check_fail(r, "%s of %zu words: word %zu is %#x, not %#x", what,
			  count, i, r->host[i], want);
}

int check_allreduce_once(struct check_rank *r, size_t count)
{
	unsigned round = ++r->round;
	size_t bytes = count * sizeof(float);

	for (size_t i = 0; i < count; i++) {
		float x = number(round, r->rank, i);

		memcpy(&r->host[i], &x, sizeof(x));
	}
	if (load(r, bytes, bytes) < 0 ||
	    check_nccl(r, "ncclAllReduce",
		       ncclAllReduce(r->from, r->to, count, ncclFloat32,
				     ncclSum, r->comm, r->stream)) < 0 ||
	    unload(r, "all-reduce", bytes) < 0)
		return -1;
	for (size_t i = 0; i < count; i++) {
		float sum = 0;
		uint32_t want;

		for (int k = 0; k < CHECK_RANKS; k++)
			sum += number(round, k, i);
		memcpy(&want, &sum, sizeof(want));
		if (r->host[i] != want)
			return wrong(r, "all-reduce", count, i, want);
	}
	return 0;
}

static int allgather_once(struct check_rank *r, size_t count)
{
	unsigned round = ++r->round;
	size_t bytes = count * sizeof(uint32_t);

	for (size_t i = 0; i < count; i++)
		r->host[i] = word(round, r->rank, 0, i);
	if (load(r, bytes, CHECK_RANKS * bytes) < 0 ||
	    check_nccl(r, "ncclAllGather",
		       ncclAllGather(r->from, r->to, count, ncclUint32, r->comm,
				     r->stream)) < 0 ||
	    unload(r, "all-gather", CHECK_RANKS * bytes) < 0)
		return -1;
	for (size_t i = 0; i < CHECK_RANKS * count; i++) {
		uint32_t want = word(round, (int)(i / count), 0, i % count);

		if (r->host[i] != want)
			return wrong(r, "all-gather", count, i, want);
	}
	return 0;
}

/* Slot p of from goes to rank p, slot p of to comes from it; only the slots
 * of first..last are used. */
static int exchange(struct check_rank *r, size_t count, int first, int last)
{
	if (check_nccl(r, "ncclGroupStart", ncclGroupStart()) < 0)
		return -1;
	for (int p = first; p <= last; p++) {
		size_t at = (size_t)p * count;

		if (check_nccl(r, "ncclSend",
			       ncclSend(r->from + at, count, ncclUint32, p,
					r->comm, r->stream)) < 0 ||
		    check_nccl(r, "ncclRecv",
			       ncclRecv(r->to + at, count, ncclUint32, p,
					r->comm, r->stream)) < 0)
			return -1;
	}
	return check_nccl(r, "ncclGroupEnd", ncclGroupEnd());
}

static int exchange_once(struct check_rank *r, const char *what, size_t count,
			 int first, int last)
{
	unsigned round = ++r->round;
	size_t bytes = CHECK_RANKS * count * sizeof(uint32_t);

	for (size_t i = 0; i < CHECK_RANKS * count; i++)
		r->host[i] = word(round, r->rank, (int)(i / count), i % count);
	if (load(r, bytes, bytes) < 0 || exchange(r, count, first, last) < 0 ||
	    unload(r, what, bytes) < 0)
		return -1;
	for (size_t i = 0; i < CHECK_RANKS * count; i++) {
		int from = (int)(i / count);
		uint32_t want = POISON * 0x01010101u;

		if (from >= first && from <= last)
			want = word(round, from, r->rank, i % count);
		if (r->host[i] != want)
			return wrong(r, what, count, i, want);
	}
	return 0;
}

static int sendrecv_once(struct check_rank *r, size_t count)
{
	return exchange_once(r, "send/recv", count, !r->rank, !r->rank);
}

static int alltoall_once(struct check_rank *r, size_t count)
{
	return exchange_once(r, "all-to-all", count, 0, CHECK_RANKS - 1);
}

static int every_size(struct check_rank *r,
		      int (*once)(struct check_rank *r, size_t count))
{
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (sizes[i] * sizeof(uint32_t) > r->w->opt.max)
			break;
		/* Twice: the second finds every connection made. */
		for (int k = 0; k < 2; k++) {
			if (once(r, sizes[i]) < 0)
				return -1;
		}
	}
	return 0;
}

static int allreduce(struct check_rank *r)
{
	return every_size(r, check_allreduce_once);
}

static int allgather(struct check_rank *r)
{
	return every_size(r, allgather_once);
}

static int sendrecv(struct check_rank *r)
{
	return every_size(r, sendrecv_once);
}

static int alltoall(struct check_rank *r)
{
	return every_size(r, alltoall_once);
}

check_test_fn *check_coll_find(const char *name)
{
	static const struct {
		const char *name;
		check_test_fn *fn;
	} table[] = {
		{ "allreduce", allreduce },
		{ "allgather", allgather },
		{ "sendrecv", sendrecv },
		{ "alltoall", alltoall },
	};

	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (!strcmp(name, table[i].name))
			return table[i].fn;
	}
	return NULL;
}
