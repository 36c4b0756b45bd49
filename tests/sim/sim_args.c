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

/* What an operator may have got wrong, once: the next time he has mended it. And
 * another program may have the port, at either of the addresses. */
static char mistakes[][48] = {
	"--peer-key-file=short-key",
	"--peer-key-file=none/key",
	"--run-dir=key",
	"--peer-key-file=node0",
};
#define MISTAKES (sizeof(mistakes) / sizeof(*mistakes))
#define TAKEN_FOR (50 * SIM_MS)

static char moved[SIM_PLAN_NODES][48];
static char *mistaken[SIM_PLAN_NODES];
static char args[SIM_PLAN_NODES][SIM_ARGV][96];
static unsigned count[SIM_PLAN_NODES];
static struct sim_rng chance;
static bool changes[SIM_PLAN_NODES]; /* once */

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
	/* The proxy has no second address then, for good. */
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
	changes[node] = plan->nexts || plan->moves;
	if (plan->moves)
		snprintf(moved[node], sizeof(moved[node]),
			 "--peer-addr=10.100.0.%u,10.102.0.%u", node + 1,
			 node + 1);
	sim_rng_seed(&chance, plan->seed, "next");
	if (plan->mistakes)
		draw_mistake(plan, node);
}

int sim_args(unsigned node, bool takes_over, char **argv)
{
	unsigned n = 0;

	for (; n < count[node]; n++)
		argv[n] = args[node][n];
	if (takes_over && changes[node]) {
		argv[n++] = moved[node][0] ? moved[node]
					   : nexts[sim_draw(&chance, NEXTS)];
		changes[node] = false;
	}
	if (!takes_over && mistaken[node]) {
		argv[n++] = mistaken[node];
		mistaken[node] = NULL;
	}
	argv[n] = NULL;
	return (int)n;
}
