/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench-many: many connections between many processes, each streaming for
 * itself for the same time, so that what each of them got can be compared.
 * Process i of the sending side has its connections to process i of the
 * receiving side.
 */
#ifndef BENCH_MANY_H
#define BENCH_MANY_H

#include <mpib/control.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "perf/hist.h"

#define MANY_PROCS_MAX 64
#define MANY_CONNS_MAX 1024 /* of one process, busy and idle */
#define MANY_INFLIGHT_MAX 32

struct many_options {
	const char *dir[2]; /* run directories: senders', receivers' */
	unsigned procs, conns, idle, inflight;
	uint64_t size;
	double seconds;
	bool shared; /* mpib_mem_alloc(), not ordinary memory */
};

struct many_proc {
	/* Of the receiving process: where to connect, busy ones and idle. */
	struct mpib_handle handle[2];
	_Atomic int listening;
	_Atomic int sending; /* the sender has messages under way */
	double cpu[2]; /* seconds of sender and receiver, while measured */
	double connected; /* seconds until all its connections were */
	struct perf_hist hist; /* isend to its completion */
	uint64_t messages[MANY_CONNS_MAX];
};

struct many_world {
	struct many_options opt;
	_Atomic unsigned arrived; /* processes that are set up */
	_Atomic int go;
	struct many_proc proc[];
};

/* A process's life: side 0 sends, 1 receives. Dies on a failure. */
void many_run(struct many_world *w, unsigned proc, int side);

#endif
