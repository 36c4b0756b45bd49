/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "perf/options.h"

int perf_pin(const struct perf_options *opt, int rank)
{
	int place = perf_rank_node(opt, rank) * opt->ranks_per_node +
		    perf_rank_local(opt, rank);
	cpu_set_t may, mine;
	int n, first, end, nth = 0;

	if (sched_getaffinity(0, sizeof(may), &may) < 0)
		return perf_bad("--pin: sched_getaffinity: %s",
				strerror(errno));
	n = CPU_COUNT(&may);
	first = place * n / opt->nranks;
	end = (place + 1) * n / opt->nranks;
	if (end == first)
		end++;
	CPU_ZERO(&mine);
	for (int cpu = 0; cpu < CPU_SETSIZE && nth < end; cpu++) {
		if (!CPU_ISSET(cpu, &may))
			continue;
		if (nth++ >= first)
			CPU_SET(cpu, &mine);
	}
	if (sched_setaffinity(0, sizeof(mine), &mine) < 0)
		return perf_bad("--pin: sched_setaffinity: %s",
				strerror(errno));
	return 0;
}
