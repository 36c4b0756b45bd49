/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl-rank: ranks of NCCL on nodes that are processes of this machine. The
 * ranks read and write device memory directly. With the CUDA stand-in, they can
 * access all device memory. On a GPU, they can access only managed memory, so
 * they use that.
 *
 * If a rank fails, it prints a line with the reason and ends, and the whole
 * test ends. Every wait has a time limit, since these tests look for hangs.
 */
#ifndef NCCL_RANK_H
#define NCCL_RANK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The same types as in cuda_runtime_api.h and nccl.h. */
typedef struct CUstream_st *cudaStream_t;
typedef struct ncclComm *ncclComm_t;

#define RANKS_MAX 16
#define ENVS_MAX 16
#define IDS_MAX 64
#define ID_SIZE 128 /* bytes of an ncclUniqueId */

/* The options, see main.c. */
struct options {
	const char *test;
	int nodes, per_node;
	const char *dirs[RANKS_MAX]; /* run directories of the nodes' proxies */
	const char *topology; /* prefix of the files .NODE.xml, or NULL */
	char *env[ENVS_MAX]; /* entries NODE:NAME=VALUE */
	int envs;
	uint64_t min, max; /* bytes of the smallest and largest message */
	int times;
	double limit; /* maximum seconds of each wait */
	const char *during; /* command to run while the test runs, or NULL */
	int kill; /* rank to kill while the test runs, or -1 */
	bool expect_error; /* all remaining ranks must get an error */
	bool pin; /* pin each node to its share of the CPUs */
};

/* State that the ranks and their parent share. */
struct world {
	pthread_barrier_t barrier;
	atomic_int ids; /* number of unique IDs that rank 0 has made */
	char id[IDS_MAX][ID_SIZE];
	atomic_uint rounds; /* rounds of a loop, written by rank 0 */
	/* 0 before the command runs, 1 while it runs, 2 after it has ended */
	atomic_int during;
	/* Value of `rounds` when the command ended. */
	atomic_uint during_rounds;
	/* time when the command began or a rank was killed */
	_Atomic double begun;
};

struct rank {
	const struct options *opt;
	struct world *world;
	int rank, n; /* rank and size in the communicator of all ranks */
	int made; /* number of communicators of all ranks made so far */
	ncclComm_t comm;
	cudaStream_t stream;
};

/* A test. If the test fails, the function ends the rank and does not return. */
typedef void test_fn(struct rank *r);

/* run.c: print a line about the failure and end the rank. */
_Noreturn void fail(const struct rank *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Check an ncclResult_t or a cudaError_t. If the value is not 0, end the
 * rank. */
void check_nccl(const struct rank *r, const char *call, int result);
void check_cuda(const struct rank *r, const char *call, int error);
#define NCCL(r, call) check_nccl(r, #call, call)
#define CUDA(r, call) check_cuda(r, #call, call)

double now(void);
/* Return how many seconds this thread was ready to run but had no CPU. */
double starved(void);
void *device_alloc(const struct rank *r, size_t size);
void device_free(const struct rank *r, void *memory);
cudaStream_t stream_new(const struct rank *r);
/* Make another communicator of all ranks. All ranks must call this. */
ncclComm_t comm_new(struct rank *r);
/* Return this rank's number in a communicator. comm_size() returns the size of
 * the communicator. */
int comm_rank(const struct rank *r, ncclComm_t comm);
int comm_size(const struct rank *r, ncclComm_t comm);
/* Wait for all ranks. */
void meet(const struct rank *r);
/*
 * Wait until the stream is idle. Return 0, the communicator's asynchronous
 * error if there is one, or -1 after the time limit.
 */
int stream_poll(const struct rank *r, ncclComm_t comm, cudaStream_t stream);
/* Wait until the stream is idle. If that fails, end the rank with a line about
 * `what`. */
void stream_wait(const struct rank *r, ncclComm_t comm, cudaStream_t stream,
		 const char *what);
/* If this is rank 0, print one line. */
void say(const struct rank *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* data.c: fill memory with data that depends only on the two ranks, the index
 * and the round. verify() checks it. */
void fill(void *to, size_t size, int from, int dest, unsigned round);
void verify(const struct rank *r, const char *what, const void *got,
	    size_t size, int from, int dest, unsigned round);
/* Return a whole number. Floats can add such numbers exactly. */
float number(size_t i, int rank, unsigned round);
void verify_sum(const struct rank *r, const char *what, const float *got,
		size_t count, size_t first, int ranks, unsigned round);

/* Shared by the tests: make one all-reduce or one all-to-all, and compare all
 * data. */
void all_reduce_once(const struct rank *r, ncclComm_t comm, cudaStream_t stream,
		     size_t bytes, unsigned round);
void all_to_all_once(const struct rank *r, ncclComm_t comm, cudaStream_t stream,
		     size_t bytes, unsigned round);

/* The tests. */
test_fn test_collectives, test_alltoall, test_queued, test_ragged,
	test_communicators, test_registered, test_rerun, test_abort, test_loop,
	test_speed;

#endif
