/* SPDX-License-Identifier: Apache-2.0 */
/* mpib-perf: run a test with the ranks of this host, or take part in a test of
 * several hosts. */
#include <signal.h>
#include <unistd.h>

#include "perf/hosts/hosts.h"
#include "perf/rank.h"
#include "perf/report.h"

static struct perf_world *world;

/* Exit. The kernel ends the ranks with their parent, see perf_ranks_start(). */
static void kill_all(int sig)
{
	_exit(128 + sig);
}

/* On SIGINT, end a steady run. The results so far are reported. */
static void interrupted(int sig)
{
	if (!(world->opt.steady_seconds > 0) ||
	    atomic_exchange(&world->enough, true))
		kill_all(sig);
}

/* Run a test whose nodes are all on this host. */
static int run_here(const struct perf_options *opt)
{
	struct perf_world *w = perf_world_new(opt, -1);
	bool ok;

	if (!w)
		return 1;
	world = w;
	signal(SIGINT, interrupted);
	signal(SIGTERM, kill_all);
	if (perf_ranks_start(w) < 0) {
		perf_ranks_kill();
		return 1;
	}
	perf_ranks_reap(w, true);
	ok = !perf_world_failed(w) && perf_report(w);
	perf_world_free(w);
	return ok ? 0 : 1;
}

static int run(const struct perf_options *opt)
{
	switch (opt->role) {
	case PERF_SERVER:
		return perf_serve(opt);
	case PERF_CLIENT:
		return perf_client(opt);
	case PERF_LAUNCHED:
		return perf_launched(opt);
	case PERF_CHECK:
		return perf_check(opt);
	case PERF_LOCAL:
	case PERF_NODE:
		break;
	}
	return run_here(opt);
}

int main(int argc, char **argv)
{
	struct perf_options opt;
	int rc;

	switch (perf_options_parse(&opt, argc, argv)) {
	case PERF_PARSE_EXIT:
		return 0;
	case PERF_PARSE_BAD:
		return 2;
	case PERF_PARSE_RUN:
		break;
	}
	rc = run(&opt);
	perf_options_free(&opt);
	return rc;
}
