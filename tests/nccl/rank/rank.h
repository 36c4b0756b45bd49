/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl-rank: ranks of NCCL on nodes that are processes of this machine. The
 * test can read device memory, too. With the CUDA stand-in it can read all of
 * it, and on a GPU managed memory.
 *
 * A failure ends its rank with a line about the reason, and the job with it.
 * Every wait has a limit, since these tests look for hangs.
 */
#ifndef NCCL_RANK_H
#define NCCL_RANK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* These are as in cuda_runtime_api.h and nccl.h. */
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
	double limit; /* most seconds that each wait may take */
	const char *during; /* command to run after the test began */
	int kill; /* rank to kill then, or -1 */
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
	atomic_uint during_rounds; /* round in which it ended */
	/* now() when it began, or when a rank was killed */
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

/* A test in tests.c. If it does not return, the rank has ended. */
typedef void test_fn(struct rank *r);

/* run.c. End the rank with a line about the failure. */
_Noreturn void fail(const struct rank *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Check an ncclResult_t or a cudaError_t. If it is not 0, end the rank. */
void check_nccl(const struct rank *r, const char *call, int result);
void check_cuda(const struct rank *r, const char *call, int error);
#define NCCL(r, call) check_nccl(r, #call, call)
#define CUDA(r, call) check_cuda(r, #call, call)

double now(void);
/* Return the seconds for which this thread was ready to run but had no CPU. */
double starved(void);
void *device_alloc(const struct rank *r, size_t size);
void device_free(const struct rank *r, void *memory);
cudaStream_t stream_new(const struct rank *r);
/* Make another communicator of all ranks. All ranks must call this. */
ncclComm_t comm_new(struct rank *r);
/* Return the rank in a communicator. A second function returns its size. */
int comm_rank(const struct rank *r, ncclComm_t comm);
int comm_size(const struct rank *r, ncclComm_t comm);
/* Wait for all ranks. */
void meet(const struct rank *r);
/*
 * Wait until the stream is idle. Return 0, the communicator's asynchronous
 * error if there is one, or -1 after the time limit.
 */
int stream_poll(const struct rank *r, ncclComm_t comm, cudaStream_t stream);
/* Do the same. Any result except 0 is a failure of `what`. */
void stream_wait(const struct rank *r, ncclComm_t comm, cudaStream_t stream,
		 const char *what);
/* If this is rank 0, print one line. */
void say(const struct rank *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* data.c: fill memory with data that depends only on rank, index and round. */
void fill(void *to, size_t size, int from, int dest, unsigned round);
void verify(const struct rank *r, const char *what, const void *got,
	    size_t size, int from, int dest, unsigned round);
/* Return a whole number. Floats can add these exactly. */
float number(size_t i, int rank, unsigned round);
void verify_sum(const struct rank *r, const char *what, const float *got,
		size_t count, size_t first, int ranks, unsigned round);

/* Tests share these: one all-reduce, and one all-to-all, with all data
 * compared. */
void all_reduce_once(const struct rank *r, ncclComm_t comm, cudaStream_t stream,
		     size_t bytes, unsigned round);
void all_to_all_once(const struct rank *r, ncclComm_t comm, cudaStream_t stream,
		     size_t bytes, unsigned round);

/* The tests. */
test_fn test_collectives, test_alltoall, test_queued, test_ragged,
	test_communicators, test_registered, test_rerun, test_abort, test_loop,
	test_speed;

#endif
