/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measure an all-reduce and an all-to-all for bench/nccl. For each, print a
 * line "speed PATTERN BYTES SECONDS" with the median of several runs.
 */
#include <stdlib.h>
#include <string.h>

#include <nccl.h>

#include "rank.h"

#define SAMPLES 64

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void all_reduce(struct rank *r, char *in, char *out, size_t bytes)
{
	NCCL(r, ncclAllReduce(in, out, bytes / sizeof(float), ncclFloat,
			      ncclSum, r->comm, r->stream));
}

static void all_to_all(struct rank *r, char *in, char *out, size_t bytes)
{
	size_t each = bytes / (size_t)r->n;

	NCCL(r, ncclGroupStart());
	for (int i = 0; i < r->n; i++) {
		NCCL(r, ncclSend(in + (size_t)i * each, each, ncclInt8, i,
				 r->comm, r->stream));
		NCCL(r, ncclRecv(out + (size_t)i * each, each, ncclInt8, i,
				 r->comm, r->stream));
	}
	NCCL(r, ncclGroupEnd());
}

typedef void pattern_fn(struct rank *r, char *in, char *out, size_t bytes);

static double median(struct rank *r, pattern_fn *pattern, char *in, char *out,
		     size_t bytes)
{
	double sample[SAMPLES] = { 0 };
	int times = bytes <= 1 << 20 ? r->opt->times : r->opt->times / 4;

	times = times < 3 ? 3 : times > SAMPLES ? SAMPLES : times;
	for (int i = -2; i < times; i++) {
		double begin = now();

		pattern(r, in, out, bytes);
		stream_wait(r, r->comm, r->stream, "speed");
		if (i >= 0)
			sample[i] = now() - begin;
	}
	qsort(sample, (size_t)times, sizeof(*sample), by_size);
	return sample[times / 2];
}

void test_speed(struct rank *r)
{
	char *in = device_alloc(r, r->opt->max);
	char *out = device_alloc(r, r->opt->max);

	/* Use zeros: denormal floats would take more time. */
	memset(in, 0, r->opt->max);
	memset(out, 0, r->opt->max);
	for (size_t bytes = 1024; bytes <= r->opt->max; bytes *= 4) {
		if (bytes < r->opt->min)
			continue;
		say(r, "speed all_reduce %zu %.9f", bytes,
		    median(r, all_reduce, in, out, bytes));
		say(r, "speed alltoall %zu %.9f", bytes,
		    median(r, all_to_all, in, out, bytes));
	}
	device_free(r, in);
	device_free(r, out);
}
