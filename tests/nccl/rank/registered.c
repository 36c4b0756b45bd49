/* SPDX-License-Identifier: Apache-2.0 */
/* User buffers that NCCL registers. Where possible, NCCL transfers data
 * directly from and to these buffers, without a copy. */
#include <string.h>

#include <nccl.h>

#include "rank.h"

static void exchange(struct rank *r, char *in, char *out, size_t bytes,
		     unsigned round)
{
	int peer = (r->rank + r->n / 2) % r->n;

	fill(in, bytes, r->rank, peer, round);
	memset(out, 0, bytes);
	NCCL(r, ncclGroupStart());
	NCCL(r, ncclSend(in, bytes, ncclInt8, peer, r->comm, r->stream));
	NCCL(r, ncclRecv(out, bytes, ncclInt8, peer, r->comm, r->stream));
	NCCL(r, ncclGroupEnd());
	stream_wait(r, r->comm, r->stream, "registered send and receive");
	verify(r, "registered send and receive", out, bytes, peer, r->rank,
	       round);
}

static void gather(struct rank *r, char *in, char *out, size_t bytes,
		   unsigned round)
{
	size_t each = bytes / (size_t)r->n & ~(size_t)15;

	fill(in, each, r->rank, 0, round);
	memset(out, 0, bytes);
	NCCL(r, ncclAllGather(in, out, each, ncclInt8, r->comm, r->stream));
	stream_wait(r, r->comm, r->stream, "registered all-gather");
	for (int i = 0; i < r->n; i++)
		verify(r, "registered all-gather", out + (size_t)i * each, each,
		       i, 0, round);
}

static void broadcast(struct rank *r, char *in, char *out, size_t bytes,
		      unsigned round)
{
	int root = (int)round % r->n;

	fill(in, bytes, r->rank, 0, round);
	memset(out, 0, bytes);
	NCCL(r,
	     ncclBroadcast(in, out, bytes, ncclInt8, root, r->comm, r->stream));
	stream_wait(r, r->comm, r->stream, "registered broadcast");
	verify(r, "registered broadcast", out, bytes, root, 0, round);
}

void test_registered(struct rank *r)
{
	size_t bytes = r->opt->max;
	char *in = device_alloc(r, bytes), *out = device_alloc(r, bytes);
	void *in_handle, *out_handle;

	NCCL(r, ncclCommRegister(r->comm, in, bytes, &in_handle));
	NCCL(r, ncclCommRegister(r->comm, out, bytes, &out_handle));
	for (int t = 0; t < r->opt->times; t++) {
		exchange(r, in, out, bytes, (unsigned)t);
		/* Use a part of the buffer that does not begin at its start. */
		exchange(r, in + 4096, out + 8192, bytes - 8192 - 12,
			 (unsigned)t);
		gather(r, in, out, bytes, (unsigned)t);
		broadcast(r, in, out, bytes, (unsigned)t);
	}
	NCCL(r, ncclCommDeregister(r->comm, in_handle));
	NCCL(r, ncclCommDeregister(r->comm, out_handle));
	exchange(r, in, out, bytes, 99);
	device_free(r, in);
	device_free(r, out);
	say(r, "%d rounds of registered buffers of %zu bytes", r->opt->times,
	    bytes);
}
