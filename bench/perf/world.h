/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ranks of a run share: memory mapped before the ranks are forked. The
 * plugin under test does not use it.
 */
#ifndef PERF_WORLD_H
#define PERF_WORLD_H

#include <stdatomic.h>

#include "nccl_abi.h"
#include "perf/hist.h"
#include "perf/options.h"

/* What one rank measured in one row. */
struct perf_result {
	double seconds, cpu; /* s, of the timed part */
	double proxies; /* CPU s of all proxies, by rank 0; < 0: none */
	double checking; /* seconds of filling and comparing */
	uint64_t messages, bytes; /* compared, warm-up included */
	uint64_t wrong_messages, wrong; /* wrong: bytes */
	uint64_t sent; /* bytes, in the timed part */
	struct perf_hist hist; /* pingpong */
};

struct perf_handle {
	_Atomic int ready;
	char bytes[NCCL_NET_HANDLE_MAXSIZE];
};

struct perf_world {
	struct perf_options opt;
	uint64_t size[PERF_ROWS_MAX];
	int rows;
	_Atomic int failed; /* a rank has reported why */
	_Atomic int arrived, phase; /* barrier */
	_Atomic bool enough; /* SIGINT: end a steady run */
	_Atomic bool more; /* set by rank 0: the run continues */
	char plugin_name[32], dev_name[128];
	int abi, speed, max_recvs;
	_Atomic unsigned told; /* wrong messages reported */
	struct perf_result *result; /* [row * nranks + rank] */
	struct perf_handle *handle; /* [(to * nranks + from) * channels + c] */
};

/* Create the shared memory. NULL after a line on stderr. */
struct perf_world *perf_world_new(const struct perf_options *opt);

/* Wait for all ranks. False when a rank has failed. */
bool perf_world_barrier(struct perf_world *w);

/* Report a failure on stderr, unless another rank did already; all ranks stop
 * soon after. */
void perf_world_fail(struct perf_world *w, int rank, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
bool perf_world_failed(const struct perf_world *w);

struct perf_handle *perf_world_handle(struct perf_world *w, int to, int from,
				      int channel);
struct perf_result *perf_world_result(struct perf_world *w, int row, int rank);

double perf_now(void);
/* User and system seconds of this process. */
double perf_cpu(void);
/* User and system seconds of all proxies of the run; negative without any. */
double perf_proxy_cpu(const struct perf_options *opt);

/* rank.c: all that a forked rank does. Returns its exit status. */
int perf_rank_main(struct perf_world *w, int rank);

/* report.c */
void perf_report_header(const struct perf_world *w);
/* Called when all ranks have ended row i. */
void perf_report_row(const struct perf_world *w, int i);
/* Print the sums and write the JSON. True when no message was wrong. */
bool perf_report(const struct perf_world *w);

#endif
