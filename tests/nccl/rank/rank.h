/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl-rank: ranks of NCCL on nodes that are processes of this machine. Memory of a
 * device is memory that the test can read, too: so is all that the CUDA stand-in
 * has, and on a GPU what is managed.
 *
 * What fails ends its rank with a line on why, and the job with it; what waits
 * has a limit, since a hang is what these tests look for.
 */
#ifndef NCCL_RANK_H
#define NCCL_RANK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As cuda_runtime_api.h and nccl.h have them. */
typedef struct CUstream_st *cudaStream_t;
typedef struct ncclComm *ncclComm_t;

#define RANKS_MAX 16
#define ENVS_MAX 16
#define IDS_MAX 64
#define ID_SIZE 128 /* bytes of an ncclUniqueId */

/* What the options say; see main.c. */
struct options {
	const char *test;
	int nodes, per_node;
	const char *dirs[RANKS_MAX]; /* run directory of a node's proxy */
	const char *topology; /* files' name before .NODE.xml; NULL: none */
	char *env[ENVS_MAX]; /* NODE:NAME=VALUE */
	int envs;
	uint64_t min, max; /* bytes of the smallest and largest message */
	int times;
	double limit; /* seconds that any one wait may take */
	const char *during; /* a command, once the test is on its way */
	int kill; /* rank to kill then, or -1 */
	bool expect_error; /* of all ranks that are left */
	bool pin; /* each node to its share of the CPUs */
};

/* Shared by the ranks and their parent. */
struct world {
	pthread_barrier_t barrier;
	atomic_int ids; /* of unique IDs that rank 0 has made */
	char id[IDS_MAX][ID_SIZE];
	atomic_uint rounds; /* of a loop, by rank 0 */
	atomic_int
		during; /* 0: not yet, 1: the command runs, 2: it has ended */
	atomic_uint during_rounds; /* when it ended */
	_Atomic double begun; /* now() when it began, or a rank was killed */
};

struct rank {
	const struct options *opt;
	struct world *world;
	int rank, n; /* in the communicator of all */
	int made; /* communicators of all so far */
	ncclComm_t comm;
	cudaStream_t stream;
};

/* A test: any of those in tests.c. Returns, or the rank has ended. */
typedef void test_fn(struct rank *r);

/* run.c. The rank ends with a line on what is wrong. */
_Noreturn void fail(const struct rank *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Of an ncclResult_t and a cudaError_t, unless it is 0. */
void check_nccl(const struct rank *r, const char *call, int result);
void check_cuda(const struct rank *r, const char *call, int error);
#define NCCL(r, call) check_nccl(r, #call, call)
#define CUDA(r, call) check_cuda(r, #call, call)

double now(void);
/* Seconds that this thread was ready to run and had no CPU. */
double starved(void);
void *device_alloc(const struct rank *r, size_t size);
void device_free(const struct rank *r, void *memory);
cudaStream_t stream_new(const struct rank *r);
/* Another communicator of all ranks; all of them call. */
ncclComm_t comm_new(struct rank *r);
/* The rank and size of a communicator. */
int comm_rank(const struct rank *r, ncclComm_t comm);
int comm_size(const struct rank *r, ncclComm_t comm);
/* All ranks are here. */
void meet(const struct rank *r);
/*
 * Until the stream has run dry: 0. The communicator's asynchronous error, if
 * there is one. -1 if the time is up.
 */
int stream_poll(const struct rank *r, ncclComm_t comm, cudaStream_t stream);
/* The same; anything but 0 is a failure of `what`. */
void stream_wait(const struct rank *r, ncclComm_t comm, cudaStream_t stream,
		 const char *what);
/* One line of rank 0. */
void say(const struct rank *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* data.c: what is sent follows from rank, place and round alone. */
void fill(void *to, size_t size, int from, int dest, unsigned round);
void verify(const struct rank *r, const char *what, const void *got,
	    size_t size, int from, int dest, unsigned round);
/* Whole numbers that a float adds without a loss. */
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
