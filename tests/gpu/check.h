/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl-check: two ranks of NCCL on one GPU over the plugin, all data compared.
 * The parent never touches CUDA, which does not survive a fork; each rank is a
 * process that looks to NCCL like a node of its own (NCCL_HOSTID).
 *
 * Functions return 0, or -1 after check_fail(); what to wait for has a
 * deadline, since a hang is what these tests look for.
 */
#ifndef GPU_CHECK_H
#define GPU_CHECK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "toolkit.h"

#define CHECK_RANKS 2
#define CHECK_SKIP 77

struct check_options {
	const char *tests; /* comma list, see life.c and coll.c */
	const char *algo; /* of all-reduce: ring or tree */
	const char *proto; /* simple, ll, ll128 */
	const char *plugin; /* NCCL_NET_PLUGIN, NULL: "mpib" */
	const char *node[CHECK_RANKS]; /* MPIB_RUN_DIR of each rank */
	uint64_t max; /* bytes of the largest message */
	unsigned timeout; /* seconds that any one wait may take */
	int gpus; /* ranks are dealt out over so many */
};

/* Shared by the parent and its ranks. */
struct check_world {
	struct check_options opt;
	pthread_barrier_t barrier;
	ncclUniqueId id;
	_Atomic int failed;
	char why[300]; /* of the first that failed */
};

struct check_rank {
	struct check_world *w;
	int rank;
	ncclComm_t comm;
	cudaStream_t stream;
	uint32_t *from, *to; /* on the GPU, CHECK_RANKS * opt.max bytes each */
	uint32_t *host; /* as large */
	unsigned round; /* no two rounds move the same data */
};

/* The first failure is kept, the ranks end. Returns -1. */
int check_fail(struct check_rank *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
int check_cuda(struct check_rank *r, const char *call, cudaError_t error);
int check_nccl(struct check_rank *r, const char *call, ncclResult_t result);

double check_now(void);

/* A rank's process, from its environment to its exit status. */
int check_rank_main(struct check_world *w, int rank);

/* rank.c: a communicator of both ranks; all ranks call. */
int check_comm_new(struct check_rank *r);
/* Until the stream has run dry, NCCL reports an error, or the time is up. */
int check_stream_wait(struct check_rank *r, const char *what);
/* Both ranks are here. */
void check_meet(struct check_rank *r);

/* coll.c: NULL, or the test of that name. Moves every size up to opt.max. */
typedef int check_test_fn(struct check_rank *r);
check_test_fn *check_coll_find(const char *name);
/* One all-reduce of count floats, compared whole. */
int check_allreduce_once(struct check_rank *r, size_t count);

/* life.c: the same for what makes and breaks communicators. */
check_test_fn *check_life_find(const char *name);

#endif
