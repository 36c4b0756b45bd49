/* SPDX-License-Identifier: Apache-2.0 */
/* Make the command lines of the proxies. */
#include <stdio.h>

#include "sim_node.h"

/* Wrong settings. The operator corrects a wrong setting at the next start of
 * the proxy. */
static char mistakes[][48] = {
	"--peer-key-file=short-key",
	"--peer-key-file=none/key",
	"--run-dir=key",
	"--peer-key-file=node0",
};
#define MISTAKES (sizeof(mistakes) / sizeof(*mistakes))
#define TAKEN_FOR (50 * SIM_MS)

static char *mistaken[SIM_PLAN_NODES];
static char args[SIM_PLAN_NODES][SIM_ARGV][96];
static unsigned count[SIM_PLAN_NODES];

/* Draw at most one mistake for the node: a wrong setting, or another program
 * that uses the peer port at one of the proxy's two addresses. */
static void draw_mistake(const struct sim_plan *plan, unsigned node)
{
	static struct sim_rng r;
	uint64_t kind;

	if (node == 0)
		sim_rng_seed(&r, plan->seed, "mistakes");
	kind = sim_draw(&r, MISTAKES + 3);
	if (kind < MISTAKES)
		mistaken[node] = mistakes[kind];
	else if (kind == MISTAKES)
		sim_visit_taken(node, 0, TAKEN_FOR);
	/* If the port at the second address is taken, the proxy runs without
	 * this address. */
	else if (kind == MISTAKES + 1 && !sim_plan_has(plan, SIM_FAULT_NETWORK))
		sim_visit_taken(node, 1, TAKEN_FOR);
}

void sim_args_make(const struct sim_plan *plan, unsigned node, const char *dir)
{
	unsigned n = 0;

	snprintf(args[node][n++], 96, "mpib-proxy");
	snprintf(args[node][n++], 96, "--config=/dev/null");
	snprintf(args[node][n++], 96, "--run-dir=%s", dir);
	snprintf(args[node][n++], 96, "--client-own-memory=all");
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
	if (plan->mistakes)
		draw_mistake(plan, node);
}

int sim_args(unsigned node, char **argv)
{
	unsigned n = 0;

	for (; n < count[node]; n++)
		argv[n] = args[node][n];
	if (mistaken[node]) {
		argv[n++] = mistaken[node];
		mistaken[node] = NULL;
	}
	argv[n] = NULL;
	return (int)n;
}
