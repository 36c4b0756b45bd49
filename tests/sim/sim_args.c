/* SPDX-License-Identifier: Apache-2.0 */
/* What proxies are started with. */
#include <stdio.h>

#include "sim_node.h"

/* What an operator may have changed until an upgrade. Some of it cannot be taken
 * over, and then the old process goes on. */
static char nexts[][48] = {
	"--threads=5",	       "--sup=none",
	"--run-dir=elsewhere", "--peer-key-file=no-such-key",
	"--no-such-option",    "--lanes=private",
	"--peer-silence=40",   "--lane-window=65536",
};
#define NEXTS (sizeof(nexts) / sizeof(*nexts))

static char args[SIM_PLAN_NODES][SIM_ARGV][96];
static unsigned count[SIM_PLAN_NODES];
static struct sim_rng chance;
static bool changes[SIM_PLAN_NODES]; /* once */

void sim_args_make(const struct sim_plan *plan, unsigned node, const char *dir)
{
	unsigned n = 0;

	snprintf(args[node][n++], 96, "mpib-proxy");
	snprintf(args[node][n++], 96, "--config=/dev/null");
	snprintf(args[node][n++], 96, "--run-dir=%s", dir);
	snprintf(args[node][n++], 96, "--sout=rdma:sim%u_0:1", node);
	if (plan->rails > 1)
		snprintf(args[node][n++], 96, "--sup=rdma:sim%u_1:1", node);
	else
		snprintf(args[node][n++], 96, "--sup=none");
	snprintf(args[node][n++], 96, "--log-level=%s",
		 sim_verbose ? "debug" : "info");
	for (unsigned i = 0; i < plan->args; i++)
		snprintf(args[node][n++], 96, "%s", plan->arg[i]);
	if (plan->odd && node == 0)
		snprintf(args[node][n++], 96, "%s", plan->odd);
	count[node] = n;
	changes[node] = plan->nexts;
	sim_rng_seed(&chance, plan->seed, "next");
}

int sim_args(unsigned node, bool takes_over, char **argv)
{
	unsigned n = 0;

	for (; n < count[node]; n++)
		argv[n] = args[node][n];
	if (takes_over && changes[node]) {
		argv[n++] = nexts[sim_draw(&chance, NEXTS)];
		changes[node] = false;
	}
	argv[n] = NULL;
	return (int)n;
}
