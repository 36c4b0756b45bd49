/* SPDX-License-Identifier: Apache-2.0 */
/* Read a launcher's environment variables, see options.h. */
#include "perf/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/values.h"

/* Each job uses one of this many ports, so that several jobs can share the host
 * of rank 0. */
#define JOB_PORTS 10000
#define JOB_PORT_FIRST 20000

/*
 * The environment variables of each launcher. A launcher is found by its
 * variables for rank and size. srun must be the last: it also starts the
 * daemons of mpirun and torchrun, whose ranks inherit the variables of srun.
 */
static const struct {
	const char *name, *rank, *size, *local, *locals, *job, *master, *list;
	/* Variable with this host's index in the list of `locals`. */
	const char *node;
} launchers[] = {
	{ "mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
	  "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
	  "PMIX_NAMESPACE", NULL, "SLURM_JOB_NODELIST", NULL },
	{ "mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
	  "MPI_LOCALNRANKS", "SLURM_JOB_ID", NULL, "SLURM_JOB_NODELIST", NULL },
	{ "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
	  "TORCHELASTIC_RUN_ID", "MASTER_ADDR", NULL, NULL },
	{ "srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
	  "SLURM_STEP_TASKS_PER_NODE", "SLURM_JOB_ID", NULL,
	  "SLURM_STEP_NODELIST", "SLURM_NODEID" },
};

bool perf_launcher_first(const char *list, char *host, size_t len)
{
	size_t stem = strcspn(list, "[,");
	size_t digits = 0;
	int n;

	if (list[stem] == '[')
		digits = strspn(list + stem + 1, "0123456789");
	if (list[stem] == '[' && digits == 0)
		return false;
	n = snprintf(host, len, "%.*s%.*s", (int)stem, list, (int)digits,
		     list[stem] == '[' ? list + stem + 1 : "");
	return n > 0 && (size_t)n < len;
}

static const char *value(const char *name)
{
	const char *text = name ? getenv(name) : NULL;

	return text && *text ? text : NULL;
}

static uint64_t hash(const char *text)
{
	uint64_t h = 0xcbf29ce484222325ull; /* FNV-1a */

	for (; text && *text; text++)
		h = (h ^ (unsigned char)*text) * 0x100000001b3ull;
	return h;
}

/* Find the host of rank 0, unless --rendezvous names it. */
static void find_rendezvous(struct perf_options *opt, size_t i)
{
	const char *host = value(launchers[i].master);
	const char *locals =
		launchers[i].node ? NULL : value(launchers[i].locals);
	const char *list = value(launchers[i].list);
	size_t room = sizeof(opt->rendezvous);

	if (opt->rendezvous[0])
		return;
	if (!host)
		host = value("MASTER_ADDR");
	if (!host && locals && strcmp(locals, value(launchers[i].size)) == 0)
		host = "127.0.0.1";
	if (host)
		snprintf(opt->rendezvous, room, "%s", host);
	else if (list && !perf_launcher_first(list, opt->rendezvous, room))
		opt->rendezvous[0] = '\0';
}

/* Return the number of ranks on the host with index `node`. `list` is srun's
 * list for all hosts, such as "4(x2),3". 0 means unknown. */
static int locals_of(const char *list, long node)
{
	while (list && *list) {
		char *end;
		long ranks = strtol(list, &end, 10), hosts = 1;

		if (strncmp(end, "(x", 2) == 0) {
			hosts = strtol(end + 2, &end, 10);
			end += *end == ')';
		}
		if (ranks < 1 || ranks > PERF_NODES_MAX || hosts < 1)
			return 0;
		if (node < hosts)
			return (int)ranks;
		node -= hosts;
		list = *end == ',' ? end + 1 : NULL;
	}
	return 0;
}

/* Find the rank's number on its host, which determines its devices and CPUs. */
static void find_place(struct perf_options *opt, size_t i)
{
	const char *local = value(launchers[i].local);
	const char *node = value(launchers[i].node);
	int places = locals_of(value(launchers[i].locals),
			       node ? strtol(node, NULL, 10) : 0);
	uint64_t place;

	opt->leads = !local || strcmp(local, "0") == 0;
	opt->place = 0;
	if (local && perf_parse_size(local, &place) == 0 &&
	    place < PERF_NODES_MAX)
		opt->place = (int)place;
	opt->places = places > opt->place ? places : 1;
}

static int take(struct perf_options *opt, size_t i)
{
	uint64_t rank, size;

	if (perf_parse_size(value(launchers[i].size), &size) < 0 ||
	    perf_parse_size(value(launchers[i].rank), &rank) < 0 ||
	    rank >= size)
		return perf_bad(
			"%s=%s of %s=%s: that is no rank (give --launcher "
			"none to run alone)",
			launchers[i].rank, value(launchers[i].rank),
			launchers[i].size, value(launchers[i].size));
	if (size < 2)
		return 0;
	if (size > PERF_NODES_MAX)
		return perf_bad("%s: %llu ranks are too many (start %d)",
				launchers[i].name, (unsigned long long)size,
				PERF_NODES_MAX);
	opt->role = PERF_LAUNCHED;
	opt->rank = (int)rank;
	opt->nnodes = (int)size;
	opt->ranks_per_node = 1;
	find_place(opt, i);
	opt->job = hash(value(launchers[i].job));
	if (opt->port < 0)
		opt->port = JOB_PORT_FIRST + (int)(opt->job % JOB_PORTS);
	find_rendezvous(opt, i);
	if (!opt->rendezvous[0] && rank > 0)
		return perf_bad(
			"%s: it does not say where rank 0 runs (give --rendezvous HOST, or set MASTER_ADDR)",
			launchers[i].name);
	return 0;
}

int perf_launcher_find(struct perf_options *opt)
{
	if (opt->role != PERF_LOCAL || opt->no_launcher || opt->nnodes ||
	    opt->ranks_per_node)
		return 0;
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		if (value(launchers[i].rank) && value(launchers[i].size))
			return take(opt, i);
	}
	return 0;
}
