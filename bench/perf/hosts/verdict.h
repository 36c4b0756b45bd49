/* SPDX-License-Identifier: Apache-2.0 */
/* The result of mpib-perf check for a pair of hosts and one device of each. */
#ifndef PERF_VERDICT_H
#define PERF_VERDICT_H

#include "perf/hosts/link.h"
#include "perf/options.h"

struct perf_verdict {
	int host[2]; /* indices of opt->hosts */
	int device; /* index at both hosts; -1: the test failed at once */
	int devices[2]; /* number of devices of each host */
	bool ran; /* false: the test failed, stderr says why */
	uint64_t wrong; /* messages */
	double p50_us, p99_us; /* latency of small messages, one way */
	double busbw; /* GB/s each way at once */
	double seconds; /* of the test of speed */
	int speed_mbps[2]; /* by the plugin */
	struct perf_rails rails[2]; /* since the test of speed began */
};

/* Print a line for each verdict, the faulty rails, and the number of good pairs
 * (a pair's verdicts are consecutive); with --json write that too. Returns the
 * exit status: 0 if all is well. */
int perf_verdict_report(const struct perf_options *opt,
			const struct perf_verdict *v, int n);

/* Return the expected speed of a pair in each direction, in GB/s: by --expect
 * or the rails' speed. 0: unknown, as with software rails. */
double perf_verdict_expected(const struct perf_options *opt,
			     const struct perf_verdict *v);

/* Write the faults, one per line; median is the busbw of all pairs with this
 * device, 0 for none. Returns the number of faults, at most max. */
#define PERF_FAULT_LEN 200
int perf_verdict_faults(const struct perf_options *opt,
			const struct perf_verdict *v, double median,
			char text[][PERF_FAULT_LEN], int max);

#endif
