/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_report.h"

#include <stdio.h>

void sim_total_add(struct sim_total *total, const struct sim_result *one,
		   uint64_t seed)
{
	struct sim_result *all = &total->sum;

	if (one->failures > total->most_failures) {
		total->most_failures = one->failures;
		total->most_in = seed;
	}
	all->virtual_ns += one->virtual_ns;
	all->steps += one->steps;
	all->messages += one->messages;
	all->failures += one->failures;
	all->resumed += one->resumed;
	for (unsigned i = 0; i < SIM_FAULT_KINDS; i++)
		all->fault[i] += one->fault[i];
}

void sim_report(const struct sim_total *total, double took)
{
	const struct sim_result *all = &total->sum;

	char also[32] = "";

	if (total->also)
		snprintf(also, sizeof(also), " and %llu",
			 (unsigned long long)total->also);
	printf("%llu seeds from %llu%s in %.1f s, %.0f a minute: %llu failed; "
	       "%llu messages, %llu connections failed in plans that allow errors, "
	       "at most %llu of them in seed %llu, %llu connections resumed, "
	       "%.0f s of virtual time, %.1f M steps\n",
	       (unsigned long long)total->seeds,
	       (unsigned long long)total->from, also, took,
	       60 * (double)total->seeds / took,
	       (unsigned long long)total->failed,
	       (unsigned long long)all->messages,
	       (unsigned long long)all->failures,
	       (unsigned long long)total->most_failures,
	       (unsigned long long)total->most_in,
	       (unsigned long long)all->resumed, (double)all->virtual_ns / 1e9,
	       (double)all->steps / 1e6);
	for (unsigned i = 0; i < SIM_FAULT_KINDS; i++)
		printf("%s%s %u", i ? ", " : "faults: ",
		       sim_fault_name((enum sim_fault_kind)i), all->fault[i]);
	printf("\n");
	if (total->unrun)
		printf("%llu seeds did not run to completion\n",
		       (unsigned long long)total->unrun);
}
