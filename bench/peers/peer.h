/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the small programs that mpib is measured against share: two processes,
 * memory between them, clocks, and how results are printed. Every result is
 * one line "metric value"; the commands in bench/ collect them.
 */
#ifndef PEER_H
#define PEER_H

#include <stddef.h>
#include <stdint.h>

#include "perf/hist.h"

/* Prints to stderr and exits with 1. */
void peer_die(const char *fmt, ...)
	__attribute__((format(printf, 1, 2), noreturn));

uint64_t peer_ns(void);
/* User and system seconds of this process. */
double peer_cpu(void);

/* Zeroed memory that children share. */
void *peer_shared(size_t bytes);
/* This process onto the n-th CPU that it may use, modulo their number. */
void peer_pin(unsigned n);

/*
 * Run second() in a child and first() here, each given arg; waits for the
 * child. Dies when the child failed. No child outlives its parent.
 */
void peer_pair(void (*first)(void *arg), void (*second)(void *arg), void *arg);

void peer_say(const char *metric, double value);
/* lat_p50, lat_p90, lat_p99, lat_p999, in us, of samples in ns. */
void peer_say_latency(const struct perf_hist *h);

#endif
