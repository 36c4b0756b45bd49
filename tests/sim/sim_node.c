/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_node.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "config/options.h"
#include "handover/spawn.h"
#include "handover/takeover.h"
#include "peer/internal.h"
#include "proxy.h"
#include "sim_file.h"
#include "sim_hca.h"
#include "sim_rank.h"
#include "sim_wrap.h"

#define PROCS 256
#define STALLS (5 * SIM_S)
/* Upgrades that may go wrong by the plan, in each way: in the end one goes well. */
#define WRONG_MOST 6

/* One process of a proxy. */
struct run {
	unsigned node;
	struct sim_proc *proc;
	int sock; /* held: to the proxy that it takes over from; -1 */
	bool serves, killed;
	struct run *from; /* whom it takes over from */
	struct mpib_proxy *proxy;
	char *argv[SIM_ARGV];
};

static const struct sim_plan *plan;
static char dirs[SIM_PLAN_NODES][80];
static struct run *runs[PROCS];
static unsigned run_count, upgrades;
static struct sim_event restart[SIM_PLAN_NODES];
static bool stopping;
static struct sim_rng refusals;
static struct sim_event stall;
static uint64_t wrong_at;

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

/* A supervisor does so, too, when a process that had just taken over is killed,
 * and the one before it has left. */
static void supervise(unsigned node)
{
	if (plan->hard && !stopping)
		sim_event_arm(&restart[node], sim_now + SIM_S, on_restart,
			      (void *)(uintptr_t)node);
}

static void on_ended(struct sim_proc *proc)
{
	struct run *r = run_of(proc);
	bool served;

	sim_hca_proc_ended(proc);
	if (!r)
		return;
	sim_rehearse_ended(proc);
	served = r->serves || !r->from;
	r->serves = false;
	if (r->sock >= 0)
		sim_fd_drop(r->sock);
	r->sock = -1;
	/* One that never served may fail: then the old one goes on. */
	if (!r->killed && proc->status && served)
		sim_fail("the proxy of node %u ended with status %#x", r->node,
			 proc->status);
	supervise(r->node);
}

static int start_proxy(struct run *r, struct mpib_proxy *p,
		       struct mpib_takeover *t)
{
	static char *env[] = { NULL };
	enum mpib_action action;
	char why[MPIB_WHY_MAX] = "";
	int argc = sim_args(r->node, r->from != NULL, r->argv), rc;

	if (r->sock >= 0) {
		t->sock = sim_fd_give(r->sock);
		r->sock = -1;
		p->takeover = t;
	}
	mpib_upgrade_init(&p->upgrade, p, r->argv);
	/* It is there also while the program is built anew. */
	snprintf(p->upgrade.exe, sizeof(p->upgrade.exe), "/proc/self/exe");
	mpib_config_init(&p->cfg);
	p->cfg.takes_over = p->takeover != NULL;
	rc = mpib_options_read(&p->cfg, argc, r->argv, env, "/dev", &action,
			       why);
	if (rc < 0 && p->takeover)
		mpib_takeover_refuse(t, why);
	/* For want of descriptors or memory is not the plan's fault. */
	else if (rc < 0 && !plan->mistakes && rc != -EMFILE && rc != -ENOMEM)
		sim_fail("the plan's settings are refused: %s", why);
	if (rc == 0)
		rc = mpib_proxy_start(p, why);
	if (rc < 0)
		sim_trace("%s does not start: %s", r->proc->name, why);
	return rc;
}

static void *run_proxy(void *arg)
{
	struct mpib_takeover *t = calloc(1, sizeof(*t));
	struct mpib_proxy *p = calloc(1, sizeof(*p));
	struct run *r = arg;
	int rc;

	if (!p || !t)
		abort();
	r->proxy = p;
	while (start_proxy(r, p, t) < 0) {
		/* A supervisor starts it again: the port may be down. */
		if (r->from || !(plan->hard || plan->mistakes))
			__wrap__exit(EXIT_FAILURE);
		sim_wait(sim_now + 100 * SIM_MS);
		memset(p, 0, sizeof(*p));
	}
	r->serves = true;
	r->proc->no_place = r->proc->no_descriptor = 0;
	upgrades += r->from != NULL;
	sim_trace("%s serves", r->proc->name);
	rc = mpib_proxy_run(p);
	r->serves = false;
	mpib_proxy_stop(p);
	if (rc < 0)
		sim_fail("%s: control thread: %s", r->proc->name,
			 strerror(-rc));
	free(p);
	free(t);
	__wrap__exit(EXIT_SUCCESS);
}

static struct run *begin(unsigned node, int sock)
{
	struct run *r = calloc(1, sizeof(*r));
	char name[16];

	if (!r || run_count == PROCS)
		abort();
	snprintf(name, sizeof(name), "proxy%u.%u", node, run_count);
	r->node = node;
	r->sock = sock;
	r->proc = sim_proc_new(name, node, 0);
	runs[run_count++] = r;
	sim_task_new(r->proc, name, run_proxy, r);
	return r;
}

/* The program of the node itself, whatever path says. */
int __wrap_mpib_spawn(const struct mpib_spawn *how, int *sock, pid_t *pid)
{
	struct run *old = run_of(sim_proc_self()), *r;
	static unsigned upgrade;
	bool refuses = plan->refuses && upgrade++ < WRONG_MOST;
	int pair[2], held;

	(void)how;
	if (refuses)
		wrong_at = sim_now;
	if (refuses && sim_chance(&refusals, 16))
		return -EAGAIN;
	if (__wrap_socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		return -errno;
	held = sim_fd_hold(pair[1]);
	__wrap_close(pair[1]);
	r = begin(old->node, held);
	r->from = old;
	if (refuses && sim_chance(&refusals, 3))
		r->proc->no_descriptor = 1 + (unsigned)sim_draw(&refusals, 64);
	else if (refuses)
		r->proc->no_place = 1 + (unsigned)sim_draw(&refusals, 64);
	*sock = pair[0];
	*pid = r->proc->pid;
	return 0;
}

int __wrap_mpib_spawn_guard(int inherited, bool daemon, int *link)
{
	(void)inherited;
	(void)daemon;
	(void)link;
	return 0;
}

void sim_nodes_start(const struct sim_plan *p)
{
	plan = p;
	sim_proc_ended = on_ended;
	sim_rehearse_by(plan);
	mpib_log_set_sink(on_line);
	sim_rng_seed(&refusals, plan->seed, "refusals");
	for (unsigned n = 0; n < plan->nodes; n++) {
		snprintf(dirs[n], sizeof(dirs[n]), "node%u", n);
		sim_args_make(plan, n, dirs[n]);
		sim_node_start(n);
	}
}

static void on_stall(void *arg)
{
	struct run *r = arg;

	if (r->proc->over)
		return;
	wrong_at = sim_now;
	sim_proc_stop(r->proc, sim_now + STALLS);
}

/* Who takes over stands still then for longer than the one before it waits. */
void sim_node_halts(void)
{
	const struct run *old = run_of(sim_proc_self());
	static unsigned wrong;

	if (!old || !plan->stalls || wrong == WRONG_MOST || sim_ranks_over() ||
	    sim_chance(&refusals, 3))
		return;
	for (unsigned i = run_count; i-- > 0;) {
		if (runs[i]->from != old || runs[i]->proc->over)
			continue;
		wrong++;
		sim_event_arm(&stall,
			      sim_now + sim_draw_wide(&refusals, 1, SIM_MS),
			      on_stall, runs[i]);
		return;
	}
}

void sim_node_start(unsigned node)
{
	begin(node, -1);
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

struct sim_proc *sim_node_next(unsigned node)
{
	for (unsigned i = run_count; i-- > 0;) {
		if (runs[i]->node == node && runs[i]->from &&
		    !runs[i]->serves && !runs[i]->proc->over)
			return runs[i]->proc;
	}
	return NULL;
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

void sim_node_kill_next(unsigned node)
{
	struct sim_proc *next = sim_node_next(node);

	if (!next)
		return;
	run_of(next)->killed = true;
	sim_proc_end(next, SIGKILL);
}

void sim_node_stop_next(unsigned node, uint64_t until)
{
	struct sim_proc *next = sim_node_next(node);
	const struct run *old = next ? run_of(next)->from : NULL;

	if (old && !old->proc->over &&
	    old->proxy->upgrade.state < MPIB_UPGRADE_FENCING)
		sim_proc_stop(next, until);
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

uint64_t sim_nodes_wrong_at(void)
{
	return wrong_at;
}

unsigned sim_node_upgrades(void)
{
	return upgrades;
}
