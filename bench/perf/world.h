/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the ranks of a run share. The memory is mapped before the ranks
 * are forked. The plugin under test does not use this memory. With several
 * hosts, each node has such memory for its ranks. The node's process
 * (hosts/node.c) transfers barriers, handles, results and failures between this
 * memory and the hub.
 */
#ifndef PERF_WORLD_H
#define PERF_WORLD_H

#include <stdatomic.h>

#include "nccl_abi.h"
#include "perf/hist.h"
#include "perf/options.h"

/* One rank's measurements of one row. */
struct perf_result {
	double seconds, cpu; /* of the timed part, in seconds */
	/* CPU seconds of all proxies, set by rank 0; < 0: none. */
	double proxies;
	double checking; /* seconds spent on filling and comparing buffers */
	uint64_t messages, bytes; /* compared, including warm-up */
	uint64_t wrong_messages, wrong; /* wrong: number of bytes */
	uint64_t sent; /* bytes sent in the timed part */
	uint64_t iters; /* timed iterations */
	/* Latencies of sends; pingpong: of half round trips. */
	struct perf_hist hist;
};

struct perf_handle {
	_Atomic int ready;
	char bytes[NCCL_NET_HANDLE_MAXSIZE];
};

struct perf_world {
	struct perf_options opt;
	uint64_t size[PERF_ROWS_MAX];
	int rows;
	int node; /* number of the node of these ranks; -1: all nodes */
	int local; /* number of ranks */
	int bell; /* eventfd that wakes the process of the node; -1: none */
	int hosts; /* number of different hosts; 0: only this one */
	_Atomic int row, ended; /* current row; number of finished rows */
	_Atomic int telling; /* a rank is about to report its failure */
	_Atomic int failed; /* a rank has reported its failure */
	char why[400]; /* reported reason, if there is a bell */
	_Atomic int arrived, phase; /* barrier */
	_Atomic bool enough; /* set by SIGINT: end a steady run */
	_Atomic bool more; /* set by rank 0: the steady run continues */
	char plugin_name[32], dev_name[128];
	int abi, speed, max_recvs, devices;
	_Atomic unsigned told; /* number of wrong messages reported */
	struct perf_result *result; /* [row * nranks + rank] */
	struct perf_handle *handle; /* [(to * nranks + from) * channels + c] */
};

/* Create the shared memory for the ranks of the node with number `node`. If
 * `node` is -1, create the memory for the ranks of all nodes. On failure, print
 * a line to stderr and return NULL. */
struct perf_world *perf_world_new(const struct perf_options *opt, int node);
void perf_world_free(struct perf_world *w);

/* Wait for all ranks. Return false if a rank has failed. */
bool perf_world_barrier(struct perf_world *w);

/* Let the ranks that wait at the barrier continue. The process of the node
 * calls this function. */
void perf_world_go(struct perf_world *w);

/* Return whether this rank measures the CPU time of the proxies and stores the
 * plugin's properties, for all ranks of `w`. */
bool perf_world_leads(const struct perf_world *w, int rank);

/* The numbers of bytes that these ranks have sent, and have found wrong, in a
 * row so far. */
struct perf_sums {
	uint64_t sent, wrong;
	double seconds; /* timed part of the slowest rank */
	int senders;
};
void perf_world_sums(struct perf_world *w, int row, struct perf_sums *sums);

/* Report a failure to stderr, unless another rank has reported one. All ranks
 * stop soon after. */
void perf_world_fail(struct perf_world *w, int rank, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
bool perf_world_failed(const struct perf_world *w);

struct perf_handle *perf_world_handle(struct perf_world *w, int to, int from,
				      int channel);
struct perf_result *perf_world_result(struct perf_world *w, int row, int rank);

/* Return the length of the timed part of row 0 on the slowest rank, in
 * seconds. */
static inline double perf_world_seconds(struct perf_world *w)
{
	struct perf_sums sums;

	perf_world_sums(w, 0, &sums);
	return sums.seconds;
}

double perf_now(void);
/* Return user and system seconds of this process. */
double perf_cpu(void);
/* Return user and system seconds of all proxies of the run. Negative: there are
 * none. */
double perf_proxy_cpu(const struct perf_options *opt);

#endif
