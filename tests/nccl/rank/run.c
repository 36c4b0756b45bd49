/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "rank.h"

void fail(const struct rank *r, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	printf("rank %d: %s\n", r->rank, text);
	fflush(NULL);
	_exit(1);
}

void check_nccl(const struct rank *r, const char *call, int result)
{
	if (result != ncclSuccess)
		fail(r, "%s: %s: %s", call, ncclGetErrorString(result),
		     ncclGetLastError(NULL));
}

void check_cuda(const struct rank *r, const char *call, int error)
{
	if (error != cudaSuccess)
		fail(r, "%s: %s", call, cudaGetErrorString(error));
}

double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

double starved(void)
{
	unsigned long long ran, waited = 0;
	FILE *f = fopen("/proc/thread-self/schedstat", "re");

	if (!f)
		return 0;
	if (fscanf(f, "%llu %llu", &ran, &waited) != 2)
		waited = 0;
	fclose(f);
	return (double)waited * 1e-9;
}

void *device_alloc(const struct rank *r, size_t size)
{
	void *memory;

	CUDA(r, cudaMallocManaged(&memory, size, cudaMemAttachGlobal));
	return memory;
}

void device_free(const struct rank *r, void *memory)
{
	CUDA(r, cudaFree(memory));
}

cudaStream_t stream_new(const struct rank *r)
{
	cudaStream_t stream;

	CUDA(r, cudaStreamCreate(&stream));
	return stream;
}

ncclComm_t comm_new(struct rank *r)
{
	struct world *world = r->world;
	int which = r->made++;
	ncclUniqueId id;
	ncclComm_t comm;

	if (which == IDS_MAX)
		fail(r, "too many communicators for this test program");
	if (r->rank == 0) {
		NCCL(r, ncclGetUniqueId(&id));
		memcpy(world->id[which], &id, sizeof(id));
		/* This release pairs with the acquire below. */
		atomic_store_explicit(&world->ids, which + 1,
				      memory_order_release);
	}
	while (atomic_load_explicit(&world->ids, memory_order_acquire) <= which)
		nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
	memcpy(&id, world->id[which], sizeof(id));
	NCCL(r, ncclCommInitRank(&comm, r->n, id, r->rank));
	return comm;
}

int comm_rank(const struct rank *r, ncclComm_t comm)
{
	int rank;

	NCCL(r, ncclCommUserRank(comm, &rank));
	return rank;
}

int comm_size(const struct rank *r, ncclComm_t comm)
{
	int size;

	NCCL(r, ncclCommCount(comm, &size));
	return size;
}

void meet(const struct rank *r)
{
	pthread_barrier_wait(&r->world->barrier);
}

/* Sleep between two checks. After a long wait, sleep longer. */
static void nap(double waited)
{
	double s = waited / 8 + 50e-6;

	if (s > 5e-3)
		s = 5e-3;
	nanosleep(&(struct timespec){ 0, (long)(s * 1e9) }, NULL);
}

int stream_poll(const struct rank *r, ncclComm_t comm, cudaStream_t stream)
{
	double begin = now();

	for (;;) {
		ncclResult_t error;

		if (cudaStreamQuery(stream) == cudaSuccess)
			return 0;
		NCCL(r, ncclCommGetAsyncError(comm, &error));
		if (error != ncclSuccess && error != ncclInProgress)
			return (int)error;
		if (now() - begin > r->opt->limit)
			return -1;
		nap(now() - begin);
	}
}

void stream_wait(const struct rank *r, ncclComm_t comm, cudaStream_t stream,
		 const char *what)
{
	int error = stream_poll(r, comm, stream);

	if (error < 0)
		fail(r, "%s: no progress for %.0f s", what, r->opt->limit);
	if (error)
		fail(r, "%s: %s: %s", what, ncclGetErrorString(error),
		     ncclGetLastError(comm));
}

void say(const struct rank *r, const char *fmt, ...)
{
	va_list ap;

	if (r->rank)
		return;
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}
