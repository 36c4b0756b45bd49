/* SPDX-License-Identifier: Apache-2.0 */
/* The roles of mpib-perf in a test over several hosts. Each returns the exit
 * status. */
#ifndef PERF_HOSTS_H
#define PERF_HOSTS_H

#include "perf/options.h"

/* Serve tests, several at a time, until a signal or, with --once, one test. */
int perf_serve(const struct perf_options *opt);

/* Run a test with the servers of --client, and report. */
int perf_client(const struct perf_options *opt);

/* Be one rank of a launcher; rank 0 reports. */
int perf_launched(const struct perf_options *opt);

/* Test each pair of servers, and report. */
int perf_check(const struct perf_options *opt);

#endif
