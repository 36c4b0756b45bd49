/* SPDX-License-Identifier: Apache-2.0 */
/* What mpib-perf check found out about a pair of hosts, for one device of
 * each. */
#ifndef PERF_VERDICT_H
#define PERF_VERDICT_H

#include "perf/hosts/link.h"
#include "perf/options.h"

struct perf_verdict {
	int host[2]; /* indices of opt->hosts */
	int device; /* its index at both; -1: the test failed at once */
	int devices[2]; /* how many each host has */
	bool ran; /* false: the test failed, stderr says why */
	uint64_t wrong; /* messages */
	double p50_us, p99_us; /* of small messages, one way */
	double busbw; /* GB/s each way at once */
	double seconds; /* of the test of speed */
	int speed_mbps[2]; /* by the plugin */
	struct perf_rails rails[2]; /* since the test of speed began */
};

/* Print a line for each verdict, the rails that are at fault, and the sum over
 * pairs, whose verdicts follow each other; with --json that too. Returns the
 * exit status: 0 if all is well. */
int perf_verdict_report(const struct perf_options *opt,
			const struct perf_verdict *v, int n);

/* What a pair should move each way, in GB/s: by --expect or the rails' speed.
 * 0: nobody says, as with software rails. */
double perf_verdict_expected(const struct perf_options *opt,
			     const struct perf_verdict *v);

/* Write what is wrong, a line each; median is the busbw of all pairs with this
 * device, 0 for none. Returns how many, at most max. */
#define PERF_FAULT_LEN 200
int perf_verdict_faults(const struct perf_options *opt,
			const struct perf_verdict *v, double median,
			char text[][PERF_FAULT_LEN], int max);

#endif
