/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ranks of a run share: memory mapped before the ranks are forked. The
 * plugin under test does not use it. With several hosts each node has such
 * memory for its ranks, and its process (hosts/node.c) carries barriers,
 * handles, results and failures between it and the hub.
 */
#ifndef PERF_WORLD_H
#define PERF_WORLD_H

#include <stdatomic.h>

#include "nccl_abi.h"
#include "perf/hist.h"
#include "perf/options.h"

/* One rank's measurements of one row. */
struct perf_result {
	double seconds, cpu; /* s, of the timed part */
	double proxies; /* CPU s of all proxies, by rank 0; < 0: none */
	double checking; /* seconds of filling and comparing */
	uint64_t messages, bytes; /* compared, warm-up included */
	uint64_t wrong_messages, wrong; /* wrong: bytes */
	uint64_t sent; /* bytes, in the timed part */
	uint64_t iters; /* timed */
	struct perf_hist hist; /* of sends; pingpong: half round trips */
};

struct perf_handle {
	_Atomic int ready;
	char bytes[NCCL_NET_HANDLE_MAXSIZE];
};

struct perf_world {
	struct perf_options opt;
	uint64_t size[PERF_ROWS_MAX];
	int rows;
	int node; /* whose ranks are here; -1: those of all nodes */
	int local; /* ranks here */
	int bell; /* eventfd that wakes the process of the node; -1: none */
	int hosts; /* number of different hosts; 0: only this one */
	_Atomic int row, ended; /* the current row; number of finished rows */
	_Atomic int telling; /* a rank is about to report why it failed */
	_Atomic int failed; /* a rank has reported why */
	char why[400]; /* with a bell: the reason it reported */
	_Atomic int arrived, phase; /* barrier */
	_Atomic bool enough; /* SIGINT: end a steady run */
	_Atomic bool more; /* set by rank 0: the run continues */
	char plugin_name[32], dev_name[128];
	int abi, speed, max_recvs, devices;
	_Atomic unsigned told; /* wrong messages reported */
	struct perf_result *result; /* [row * nranks + rank] */
	struct perf_handle *handle; /* [(to * nranks + from) * channels + c] */
};

/* Create the shared memory for the ranks of a node, or of all with node -1.
 * NULL after a line on stderr. */
struct perf_world *perf_world_new(const struct perf_options *opt, int node);
void perf_world_free(struct perf_world *w);

/* Wait for all ranks. False when a rank has failed. */
bool perf_world_barrier(struct perf_world *w);

/* Called by the process of the node: let the ranks that wait at the barrier
 * continue. */
void perf_world_go(struct perf_world *w);

/* Return whether this rank measures what all ranks here share. */
bool perf_world_leads(const struct perf_world *w, int rank);

/* Bytes that the ranks here have sent and found wrong in a row so far. */
struct perf_sums {
	uint64_t sent, wrong;
	double seconds; /* of the timed part, slowest rank */
	int senders;
};
void perf_world_sums(struct perf_world *w, int row, struct perf_sums *sums);

/* Report a failure on stderr, unless another rank did already; all ranks stop
 * soon after. */
void perf_world_fail(struct perf_world *w, int rank, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
bool perf_world_failed(const struct perf_world *w);

struct perf_handle *perf_world_handle(struct perf_world *w, int to, int from,
				      int channel);
struct perf_result *perf_world_result(struct perf_world *w, int row, int rank);

/* The timed part of row 0 of the slowest rank. */
static inline double perf_world_seconds(struct perf_world *w)
{
	struct perf_sums sums;

	perf_world_sums(w, 0, &sums);
	return sums.seconds;
}

double perf_now(void);
/* User and system seconds of this process. */
double perf_cpu(void);
/* User and system seconds of all proxies of the run; negative without any. */
double perf_proxy_cpu(const struct perf_options *opt);

#endif
