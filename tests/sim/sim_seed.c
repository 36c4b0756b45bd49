/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_seed.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim_agent.h"
#include "sim_fault.h"
#include "sim_first.h"
#include "sim_hca.h"
#include "sim_node.h"
#include "sim_rank.h"
#include "sim_sock.h"
#include "sim_task.h"
#include "sim_wrap.h"

/* Maximum virtual time from the last fault to the end of the traffic. */
#define ENDS_WITHIN (120 * SIM_S)
#define STOPS_WITHIN (10 * SIM_S)
/* Maximum time from the end of the last rank until all objects are released. By
 * default, a device retries a lost write after 4.3 s. A close waits at most 10
 * s for the answer of a peer that is not silent. A close with a silent peer
 * ends when the silence has lasted for peer.silence. A plan that sets
 * peer.silence sets at most 10 s. */
#define REST (12 * SIM_S)
#define QUOTA_LOOKS 16 /* steps between two quota checks */

static const struct sim_plan *plan;
static uint64_t limit;

static bool all_up(void)
{
	for (unsigned n = 0; n < plan->nodes; n++) {
		if (!sim_node_up(n) ||
		    sim_node_proxy(n)->stopped_until > sim_now)
			return false;
	}
	return true;
}

static bool traffic_over(void)
{
	static unsigned looks;

	if (plan->quotas && looks++ % QUOTA_LOOKS == 0)
		sim_nodes_check_quotas();
	if (!sim_faults_over()) {
		limit = sim_now + ENDS_WITHIN;
		return false;
	}
	return sim_now > limit || (sim_ranks_over() && all_up());
}

static bool rested(void)
{
	for (unsigned n = 0; n < plan->nodes; n++) {
		const struct sim_proc *proxy = sim_node_proxy(n);

		if (proxy && limit < proxy->stopped_until + REST)
			limit = proxy->stopped_until + REST;
	}
	return sim_now > limit;
}

static bool stopped(void)
{
	return sim_now > limit || sim_nodes_over();
}

static void until(bool (*over)(void), uint64_t ns, const char *what)
{
	limit = sim_now + ns;
	if (!sim_run(over))
		sim_fail("%s: no task can run any more", what);
	if (sim_now <= limit || over == rested)
		return;
	fprintf(stderr, "%s did not end within %llu s of virtual time\n", what,
		(unsigned long long)(ns / SIM_S));
	sim_ranks_print();
	sim_nodes_ask("stuck\n");
	sim_nodes_ask("peers\n");
	sim_fail("%s hangs", what);
}

/* Check that no objects remain after all clients have left. */
static void check_rest(void)
{
	for (unsigned n = 0; n < plan->nodes; n++) {
		struct sim_usage u;

		if (sim_node_usage(n, &u) &&
		    (u.clients || u.regions || u.connections || u.listeners ||
		     u.mapped))
			sim_fail("no rank is left, but node %u has %u clients, "
				 "%u regions, %u connections, %u listeners, "
				 "%llu bytes mapped",
				 n, u.clients, u.regions, u.connections,
				 u.listeners, (unsigned long long)u.mapped);
	}
}

static void seed_all(void)
{
	sim_tasks_seed(plan->seed);
	sim_threads_seed(plan->seed);
	sim_net_seed(plan->seed, plan->far);
	sim_hca_seed(plan->seed);
	sim_hca_dmabuf(plan->gpus);
	sim_hca_messages(plan->message);
	sim_agents_seed(plan);
	sim_first_seed(plan);
	sim_short_of_memory(plan->memory);
	sim_pace.step_most = plan->step_most;
	sim_pace.preempt = plan->preempt;
	sim_pace.leap_most = plan->leap_most;
	sim_pace.leap_far = plan->leap_far;
}

/* Write a cluster key to a file. Each seed has two key files. The key of one
 * file is too short. */
static void write_key(const char *name, const char *key)
{
	int fd = __real_open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);
	size_t len = strlen(key) + 1;

	if (fd < 0 || __real_write(fd, key, len) != (ssize_t)len)
		sim_lacks(name);
	__real_close(fd);
}

/* Use a memory file system if the machine has one. */
static void make_dir(char *dir, size_t size)
{
	static const char *const where[] = { "/dev/shm", "/tmp" };

	for (unsigned i = 0; i < 2; i++) {
		snprintf(dir, size, "%s/mpib-sim-XXXXXX", where[i]);
		/* Use paths relative to this directory, because its name
		 * differs between runs. */
		if (mkdtemp(dir) && chdir(dir) == 0)
			return;
	}
	sim_lacks(dir);
}

static int remove_one(const char *path, const struct stat *st, int kind,
		      struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(path);
}

void sim_seed_clean(struct sim_result *result)
{
	if (result->dir[0] &&
	    nftw(result->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS))
		fprintf(stderr, "%s: cannot be removed\n", result->dir);
	result->dir[0] = '\0';
}

void sim_seed_run(const struct sim_plan *p, struct sim_result *result)
{
	plan = p;
	seed_all();
	make_dir(result->dir, sizeof(result->dir));
	write_key("key", "the key of a simulated cluster");
	write_key("short-key", "short");
	sim_nodes_start(plan);
	until(all_up, 10 * SIM_S, "the start");
	sim_ranks_start(plan);
	sim_faults_start(plan);
	until(traffic_over, ENDS_WITHIN, "the traffic");
	until(rested, REST, "the release of objects");
	check_rest();
	sim_nodes_check_sums();
	/* Compare the bytes of rails and ranks. In two cases the counts can
	 * differ. The counters of a killed proxy are lost. If a device was
	 * lost, resumed ranks send some of the device's acknowledged data
	 * again. */
	if (!plan->hard && !sim_rank_failures() &&
	    !sim_plan_has(plan, SIM_FAULT_KILL_PROXY) &&
	    !(plan->resumes && (sim_plan_has(plan, SIM_FAULT_DEVICE) ||
				sim_plan_has(plan, SIM_FAULT_FORGETS))))
		sim_nodes_check_bytes(sim_rank_bytes());
	sim_nodes_stop();
	until(stopped, STOPS_WITHIN, "the stop");
	if (sim_hca_open_contexts(NULL))
		sim_fail("%u contexts are still open after all proxies ended",
			 sim_hca_open_contexts(NULL));
	result->hash = sim_trace_hash();
	result->virtual_ns = sim_now - 1000 * SIM_S;
	result->steps = sim_steps();
	result->messages = sim_rank_messages();
	result->failures = sim_rank_failures();
	result->resumed = sim_first_resumed();
	for (unsigned i = 0; i < SIM_FAULT_KINDS; i++)
		result->fault[i] = sim_faults_count((enum sim_fault_kind)i);
	sim_seed_clean(result);
}
