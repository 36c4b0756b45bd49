/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench-many: many connections between many processes. All connections stream
 * independently for the same time, so that their shares can be compared.
 * Process i of the sending side has connections to process i of the receiving
 * side only.
 */
#ifndef BENCH_MANY_H
#define BENCH_MANY_H

#include <mpib/control.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "perf/hist.h"

#define MANY_PROCS_MAX 64
#define MANY_CONNS_MAX 1024 /* per process, busy and idle */
#define MANY_INFLIGHT_MAX 32

struct many_options {
	const char *dir[2]; /* run directories: senders', receivers' */
	unsigned procs, conns, idle, inflight;
	uint64_t size;
	double seconds;
	bool shared; /* memory of mpib_mem_alloc() */
};

struct many_proc {
	/* Written by the receiving process: where the sending process connects,
	 * for busy [0] and idle [1] connections. */
	struct mpib_handle handle[2];
	_Atomic int listening;
	_Atomic int sending; /* the sender has messages in flight */
	double cpu[2]; /* seconds of sender and receiver */
	double connected; /* seconds until all were connected */
	struct perf_hist hist; /* isend to its completion */
	uint64_t messages[MANY_CONNS_MAX];
};

struct many_world {
	struct many_options opt;
	_Atomic unsigned arrived; /* processes that are set up */
	_Atomic int go;
	struct many_proc proc[];
};

/* All that a forked process does: side 0 sends, side 1 receives. Ends the
 * process on a failure. */
void many_run(struct many_world *w, unsigned proc, int side);

#endif
