/* SPDX-License-Identifier: Apache-2.0 */
/* The results of many seeds. */
#ifndef SIM_REPORT_H
#define SIM_REPORT_H

#include "sim_seed.h"

struct sim_total {
	struct sim_result sum;
	uint64_t seeds, failed;
	/* `from` is the first seed. If `also` is not 0, the first half of the
	 * seeds starts at `from`, and the second half at `also`. */
	uint64_t from, also;
	/* number of runs for which the machine lacked a resource */
	uint64_t unrun;
	/* `most_in` is the seed with the most failed connections, and
	 * `most_failures` is their number */
	uint64_t most_failures, most_in;
};

void sim_total_add(struct sim_total *total, const struct sim_result *one,
		   uint64_t seed);
/* Print to stdout. `took` is the time of the run in seconds. */
void sim_report(const struct sim_total *total, double took);

#endif
