/* SPDX-License-Identifier: Apache-2.0 */
/* The results of many seeds. */
#ifndef SIM_REPORT_H
#define SIM_REPORT_H

#include "sim_seed.h"

struct sim_total {
	struct sim_result sum;
	uint64_t seeds, failed;
	uint64_t from, also; /* half of them each; also 0: all from from */
	uint64_t unrun; /* for what the machine lacks */
	uint64_t most_failures, most_in; /* of connections, and the seed */
};

void sim_total_add(struct sim_total *total, const struct sim_result *one,
		   uint64_t seed);
/* Print to stdout; seconds is the time that the run took. */
void sim_report(const struct sim_total *total, double took);

#endif
