/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_node.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "config/config.h"
#include "peer/internal.h"
#include "proxy.h"
#include "sim_file.h"
#include "sim_hca.h"
#include "sim_rank.h"
#include "sim_wrap.h"

#define PROCS 256

/* One process of a proxy. */
struct run {
	unsigned node;
	struct sim_proc *proc;
	bool serves, killed;
	struct mpib_proxy *proxy;
	char *argv[SIM_ARGV];
};

static const struct sim_plan *plan;
static char dirs[SIM_PLAN_NODES][80];
static struct run *runs[PROCS];
static unsigned run_count;
static struct sim_event restart[SIM_PLAN_NODES];
static struct sim_event traps[SIM_PLAN_NODES];
static bool trapped[SIM_PLAN_NODES];
static struct sim_rng trap_chance;
static bool stopping;

static void on_line(enum mpib_log_level level, const char *line)
{
	(void)level;
	sim_trace("%s", line);
}

static struct run *run_of(const struct sim_proc *proc)
{
	for (unsigned i = 0; i < run_count; i++) {
		if (runs[i]->proc == proc)
			return runs[i];
	}
	return NULL;
}

static void on_restart(void *arg)
{
	unsigned node = (unsigned)(uintptr_t)arg;

	if (!stopping && !sim_node_any(node))
		sim_node_start(node);
}

static void supervise(unsigned node)
{
	if ((plan->hard || plan->resumes || plan->mistakes) && !stopping)
		sim_event_arm(&restart[node], sim_now + SIM_S, on_restart,
			      (void *)(uintptr_t)node);
}

static void on_ended(struct sim_proc *proc)
{
	struct run *r = run_of(proc);

	sim_hca_proc_ended(proc);
	if (!r)
		return;
	r->serves = false;
	if (!r->killed && proc->status)
		sim_fail("the proxy of node %u ended with status %#x", r->node,
			 proc->status);
	supervise(r->node);
}

static int start_proxy(struct run *r, struct mpib_proxy *p)
{
	static char *env[] = { NULL };
	enum mpib_action action;
	char why[MPIB_WHY_MAX] = "";
	int argc = sim_args(r->node, r->argv), rc;

	mpib_config_init(&p->cfg);
	/* Write no event file: a process can have only one, and all simulated
	 * proxies share one real process. */
	p->cfg.events_file[0] = '\0';
	if (!plan->resumes)
		p->cfg.resume_grace = 0;
	rc = mpib_options_read(&p->cfg, argc, r->argv, env, "/dev", &action,
			       why);
	/* If the process is short of descriptors or memory, the proxy can
	 * refuse valid settings. */
	if (rc < 0 && !plan->mistakes && rc != -EMFILE && rc != -ENOMEM)
		sim_fail("the plan's settings are refused: %s", why);
	if (rc == 0)
		rc = mpib_proxy_start(p, why);
	if (rc < 0)
		sim_trace("%s does not start: %s", r->proc->name, why);
	return rc;
}

static void *run_proxy(void *arg)
{
	struct mpib_proxy *p = calloc(1, sizeof(*p));
	struct run *r = arg;
	int rc;

	if (!p)
		abort();
	r->proxy = p;
	while (start_proxy(r, p) < 0) {
		/* Try again, as a supervisor would, because the port may be
		 * down. */
		if (!plan->hard && !plan->resumes && !plan->mistakes)
			__wrap__exit(EXIT_FAILURE);
		/* If the proxy has already served clients, end its process,
		 * which frees the proxy. */
		if (p->serving)
			__wrap__exit(EXIT_SUCCESS);
		sim_wait(sim_now + 100 * SIM_MS);
		memset(p, 0, sizeof(*p));
	}
	r->serves = true;
	sim_trace("%s serves", r->proc->name);
	rc = mpib_proxy_run(p);
	r->serves = false;
	mpib_proxy_stop(p);
	if (rc < 0)
		sim_fail("%s: control thread: %s", r->proc->name,
			 strerror(-rc));
	free(p);
	__wrap__exit(EXIT_SUCCESS);
}

void sim_node_start(unsigned node)
{
	struct run *r = calloc(1, sizeof(*r));
	char name[16];

	if (!r || run_count == PROCS)
		abort();
	snprintf(name, sizeof(name), "proxy%u.%u", node, run_count);
	r->node = node;
	r->proc = sim_proc_new(name, node, 0);
	runs[run_count++] = r;
	sim_task_new(r->proc, name, run_proxy, r);
}

void sim_nodes_start(const struct sim_plan *p)
{
	plan = p;
	sim_rng_seed(&trap_chance, plan->seed, "traps");
	sim_proc_ended = on_ended;
	mpib_log_set_sink(on_line);
	for (unsigned n = 0; n < plan->nodes; n++) {
		snprintf(dirs[n], sizeof(dirs[n]), "node%u", n);
		sim_args_make(plan, n, dirs[n]);
		sim_node_start(n);
	}
}

const char *sim_node_dir(unsigned node)
{
	return dirs[node];
}

unsigned sim_node_count(void)
{
	return plan->nodes;
}

struct sim_proc *sim_node_proxy(unsigned node)
{
	for (unsigned i = run_count; i-- > 0;) {
		if (runs[i]->node == node && runs[i]->serves)
			return runs[i]->proc;
	}
	return NULL;
}

struct mpib_proxy *sim_node_real(unsigned node)
{
	const struct sim_proc *proc = sim_node_proxy(node);

	return proc ? run_of(proc)->proxy : NULL;
}

bool sim_nodes_stopping(void)
{
	return stopping;
}

bool sim_node_any(unsigned node)
{
	for (unsigned i = 0; i < run_count; i++) {
		if (runs[i]->node == node && !runs[i]->proc->over)
			return true;
	}
	return false;
}

bool sim_node_up(unsigned node)
{
	return sim_node_proxy(node) != NULL;
}

void sim_node_kill(unsigned node)
{
	for (unsigned i = 0; i < run_count; i++) {
		if (runs[i]->node != node || runs[i]->proc->over)
			continue;
		runs[i]->killed = true;
		sim_proc_end(runs[i]->proc, SIGKILL);
	}
}

static void on_trap(void *arg)
{
	sim_node_kill((unsigned)(uintptr_t)arg);
}

void sim_node_trap(unsigned node)
{
	trapped[node] = true;
}

void sim_node_resumes(unsigned node)
{
	if (!trapped[node] || stopping)
		return;
	trapped[node] = false;
	sim_event_arm(&traps[node],
		      sim_now + sim_draw_wide(&trap_chance, 1, 2 * SIM_MS),
		      on_trap, (void *)(uintptr_t)node);
}

void sim_node_term(unsigned node)
{
	for (unsigned i = 0; i < run_count; i++) {
		if (runs[i]->node == node && !runs[i]->proc->over)
			sim_proc_signal(runs[i]->proc, SIGTERM);
	}
}

void sim_node_short(unsigned node, bool on)
{
	for (unsigned i = 0; i < run_count; i++) {
		if (runs[i]->node == node)
			runs[i]->proc->is_short = on;
	}
}

bool sim_nodes_over(void)
{
	for (unsigned i = 0; i < run_count; i++) {
		if (!runs[i]->proc->over)
			return false;
	}
	return true;
}

void sim_nodes_stop(void)
{
	stopping = true;
	for (unsigned i = 0; i < run_count; i++) {
		if (!runs[i]->proc->over)
			sim_proc_signal(runs[i]->proc, SIGTERM);
	}
}
