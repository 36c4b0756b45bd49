/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl-rank: ranks of NCCL on nodes that are processes of this machine. The
 * test can read device memory, too: with the CUDA stand-in all of it, on a GPU
 * managed memory.
 *
 * A failure ends its rank with a line on the reason, and the job with it. Every
 * wait has a limit, since these tests look for hangs.
 */
#ifndef NCCL_RANK_H
#define NCCL_RANK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As in cuda_runtime_api.h and nccl.h. */
typedef struct CUstream_st *cudaStream_t;
typedef struct ncclComm *ncclComm_t;

#define RANKS_MAX 16
#define ENVS_MAX 16
#define IDS_MAX 64
#define ID_SIZE 128 /* bytes of an ncclUniqueId */

/* The options; see main.c. */
struct options {
	const char *test;
	int nodes, per_node;
	const char *dirs[RANKS_MAX]; /* run directories of the nodes' proxies */
	const char *topology; /* prefix of the files .NODE.xml; NULL: none */
	char *env[ENVS_MAX]; /* NODE:NAME=VALUE */
	int envs;
	uint64_t min, max; /* bytes of the smallest and largest message */
	int times;
	double limit; /* seconds that each wait may take */
	const char *during; /* a command to run after the test began */
	int kill; /* rank to kill then, or -1 */
	bool expect_error; /* on all remaining ranks */
	bool pin; /* pin each node to its share of the CPUs */
};

/* Shared by the ranks and their parent. */
struct world {
	pthread_barrier_t barrier;
	atomic_int ids; /* unique IDs that rank 0 has made */
	char id[IDS_MAX][ID_SIZE];
	atomic_uint rounds; /* of a loop, written by rank 0 */
	atomic_int
		during; /* 0: not yet, 1: the command runs, 2: it has ended */
	atomic_uint during_rounds; /* when it ended */
	_Atomic double begun; /* now() when it began, or a rank was killed */
};

struct rank {
	const struct options *opt;
	struct world *world;
	int rank, n; /* in the communicator of all ranks */
	int made; /* communicators of all ranks so far */
	ncclComm_t comm;
	cudaStream_t stream;
};

/* A test in tests.c. Returns, or the rank has ended. */
typedef void test_fn(struct rank *r);

/* run.c. End the rank with a line on the failure. */
_Noreturn void fail(const struct rank *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Check an ncclResult_t or a cudaError_t: end the rank unless it is 0. */
void check_nccl(const struct rank *r, const char *call, int result);
void check_cuda(const struct rank *r, const char *call, int error);
#define NCCL(r, call) check_nccl(r, #call, call)
#define CUDA(r, call) check_cuda(r, #call, call)

double now(void);
/* Return the seconds that this thread was ready to run and had no CPU. */
double starved(void);
void *device_alloc(const struct rank *r, size_t size);
void device_free(const struct rank *r, void *memory);
cudaStream_t stream_new(const struct rank *r);
/* Make another communicator of all ranks; all ranks must call this. */
ncclComm_t comm_new(struct rank *r);
/* Return the rank or size of a communicator. */
int comm_rank(const struct rank *r, ncclComm_t comm);
int comm_size(const struct rank *r, ncclComm_t comm);
/* Wait for all ranks. */
void meet(const struct rank *r);
/*
 * Wait until the stream is idle. Returns 0, the communicator's asynchronous
 * error if there is one, or -1 after the time limit.
 */
int stream_poll(const struct rank *r, ncclComm_t comm, cudaStream_t stream);
/* The same; any result but 0 is a failure of `what`. */
void stream_wait(const struct rank *r, ncclComm_t comm, cudaStream_t stream,
		 const char *what);
/* Print one line if this is rank 0. */
void say(const struct rank *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* data.c: the data depends only on rank, index and round. */
void fill(void *to, size_t size, int from, int dest, unsigned round);
void verify(const struct rank *r, const char *what, const void *got,
	    size_t size, int from, int dest, unsigned round);
/* Return a whole number; a float adds these exactly. */
float number(size_t i, int rank, unsigned round);
void verify_sum(const struct rank *r, const char *what, const float *got,
		size_t count, size_t first, int ranks, unsigned round);

/* Shared by tests: one all-reduce, one all-to-all, all data compared. */
void all_reduce_once(const struct rank *r, ncclComm_t comm, cudaStream_t stream,
		     size_t bytes, unsigned round);
void all_to_all_once(const struct rank *r, ncclComm_t comm, cudaStream_t stream,
		     size_t bytes, unsigned round);

/* The tests. */
test_fn test_collectives, test_alltoall, test_queued, test_ragged,
	test_communicators, test_registered, test_rerun, test_abort, test_loop,
	test_speed;

#endif
