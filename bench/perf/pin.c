/* SPDX-License-Identifier: Apache-2.0 */
/* Pin a rank to its part of the CPUs. */
#include "perf/pin.h"

#include <errno.h>
#include <sched.h>

int perf_pin(int place, int shares)
{
	cpu_set_t may, mine;
	int n, first, end, nth = 0;

	if (sched_getaffinity(0, sizeof(may), &may) < 0)
		return -errno;
	n = CPU_COUNT(&may);
	first = place * n / shares;
	end = (place + 1) * n / shares;
	if (end == first)
		end++;
	CPU_ZERO(&mine);
	for (int cpu = 0; cpu < CPU_SETSIZE && nth < end; cpu++) {
		if (CPU_ISSET(cpu, &may) && nth++ >= first)
			CPU_SET(cpu, &mine);
	}
	return sched_setaffinity(0, sizeof(mine), &mine) < 0 ? -errno : 0;
}
