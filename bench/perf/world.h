/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ranks of a run share: a mapping made before they are forked. The
 * plugin under test never sees it.
 */
#ifndef PERF_WORLD_H
#define PERF_WORLD_H

#include <stdatomic.h>

#include "nccl_abi.h"
#include "perf/hist.h"
#include "perf/options.h"

/* What one rank measured in one row. */
struct perf_result {
	double seconds, cpu; /* of the timed part */
	double proxies; /* the same of all proxies; rank 0 knows, < 0: none */
	double checking; /* seconds of filling and comparing */
	uint64_t messages, bytes; /* compared, of warm-up and timed part */
	uint64_t wrong_messages, wrong; /* of these; the latter bytes */
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
	_Atomic int failed; /* somebody has said why */
	_Atomic int arrived, phase; /* barrier */
	_Atomic bool enough; /* SIGINT: a steady run is to end */
	_Atomic bool more; /* rank 0: it goes on */
	char plugin_name[32], dev_name[128];
	int abi, speed, max_recvs;
	_Atomic unsigned told; /* wrong messages that a line was written of */
	struct perf_result *result; /* [row * nranks + rank] */
	struct perf_handle *handle; /* [(to * nranks + from) * channels + c] */
};

/* NULL after a line on stderr. */
struct perf_world *perf_world_new(const struct perf_options *opt);

/* All ranks. Returns false when one of them failed. */
bool perf_world_barrier(struct perf_world *w);

/* The first to fail says why, on stderr; all stop soon after. */
void perf_world_fail(struct perf_world *w, int rank, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
bool perf_world_failed(const struct perf_world *w);

struct perf_handle *perf_world_handle(struct perf_world *w, int to, int from,
				      int channel);
struct perf_result *perf_world_result(struct perf_world *w, int row, int rank);

double perf_now(void);
/* User and system seconds of this process. */
double perf_cpu(void);
/* The same of all proxies of the run; negative when there are none. */
double perf_proxy_cpu(const struct perf_options *opt);

/* rank.c: what a forked rank does; its exit status. */
int perf_rank_main(struct perf_world *w, int rank);

/* report.c */
void perf_report_header(const struct perf_world *w);
/* When all ranks are through with a row. */
void perf_report_row(const struct perf_world *w, int i);
/* The sums, and the JSON. True when nothing was wrong. */
bool perf_report(const struct perf_world *w);

#endif
