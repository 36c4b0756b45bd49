/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the small programs in bench/ share: two processes, memory between them,
 * clocks, and printing results. A result is one line "metric value"; the
 * commands in bench/ collect these lines.
 */
#ifndef PEER_H
#define PEER_H

#include <stddef.h>
#include <stdint.h>

#include "perf/hist.h"

/* Print a line on stderr and exit with 1. */
void peer_die(const char *fmt, ...)
	__attribute__((format(printf, 1, 2), noreturn));

uint64_t peer_ns(void);
/* User and system seconds of this process. */
double peer_cpu(void);

/* Zeroed memory that is shared with children forked later. */
void *peer_shared(size_t bytes);
/* Pin this process to the n-th CPU that it may use, modulo their number. */
void peer_pin(unsigned n);

/*
 * Run second(arg) in a child and first(arg) here, then wait for the child. Ends
 * the program if the child failed. The child ends if its parent does.
 */
void peer_pair(void (*first)(void *arg), void (*second)(void *arg), void *arg);

void peer_say(const char *metric, double value);
/* Print lat_p50, lat_p90, lat_p99 and lat_p999 in us, of samples in ns. */
void peer_say_latency(const struct perf_hist *h);

#endif
