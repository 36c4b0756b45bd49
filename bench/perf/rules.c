/* SPDX-License-Identifier: Apache-2.0 */
/* Options of mpib-perf that depend on each other: defaults and conflicts. */
#include "perf/options.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "nccl_abi.h"

/* The size that follows 0 in a series of sizes. */
#define SMALLEST 8
/* The channels of check. NCCL starts with two to four between two nodes. */
#define NCCL_CHANNELS 4

const char *perf_pattern_name(enum perf_pattern pattern)
{
	static const char *const names[] = {
		[PERF_SENDRECV] = "sendrecv",
		[PERF_STREAM] = "stream",
		[PERF_RING] = "ring",
		[PERF_REDUCE_SCATTER] = "reduce-scatter",
		[PERF_ALL_GATHER] = "all-gather",
		[PERF_ALLTOALL] = "alltoall",
		[PERF_PINGPONG] = "pingpong",
		[PERF_NCCL] = "nccl",
	};

	return names[pattern];
}

bool perf_is_ring(const struct perf_options *opt)
{
	return opt->pattern == PERF_RING ||
	       opt->pattern == PERF_REDUCE_SCATTER ||
	       opt->pattern == PERF_ALL_GATHER;
}

int perf_rank_node(const struct perf_options *opt, int rank)
{
	return opt->block_order ? rank / opt->ranks_per_node
				: rank % opt->nnodes;
}

int perf_rank_local(const struct perf_options *opt, int rank)
{
	return opt->block_order ? rank % opt->ranks_per_node
				: rank / opt->nnodes;
}

int perf_options_sizes(const struct perf_options *opt, uint64_t *sizes)
{
	uint64_t size = opt->min;
	int n = 0;

	while (size <= opt->max && n < PERF_ROWS_MAX) {
		sizes[n++] = size;
		if (size > UINT64_MAX / opt->factor)
			break;
		size = size ? size * opt->factor : SMALLEST;
	}
	return n;
}

/* Set the number of nodes of a test over several hosts. Refuse --nodes, which
 * lists nodes of this host. */
static int settle_hosts(struct perf_options *opt)
{
	if (opt->role == PERF_LOCAL || opt->role == PERF_NODE ||
	    opt->role == PERF_LAUNCHED)
		return 0;
	if (opt->nnodes)
		return perf_bad(
			"--nodes: it is for nodes on this host (set MPIB_RUN_DIR where mpib-perf is started)");
	if (opt->role == PERF_CHECK && opt->nhosts < 2)
		return perf_bad(
			"check: fewer than two hosts (start mpib-perf --server on each, and name them)");
	if (opt->role == PERF_CLIENT && opt->nhosts == PERF_NODES_MAX)
		return perf_bad("--client: %d hosts are too many (give fewer)",
				opt->nhosts);
	if (opt->role == PERF_CHECK)
		opt->nnodes = 2;
	if (opt->role == PERF_CLIENT)
		opt->nnodes = 1 + opt->nhosts;
	if (opt->role == PERF_SERVER)
		opt->nnodes = 2; /* a client may later give more */
	for (int i = 0; i < opt->nnodes; i++)
		opt->nodes[i] = NULL;
	return 0;
}

static int settle_ranks(struct perf_options *opt)
{
	if (!opt->ranks_per_node)
		opt->ranks_per_node = opt->nnodes ? 1 : 2;
	if (!opt->nnodes)
		opt->nodes[opt->nnodes++] = NULL;
	opt->nranks = opt->nnodes * opt->ranks_per_node;
	if (opt->nranks < 2)
		return perf_bad(
			"ranks: one has no partner (give more --nodes or "
			"--ranks-per-node)");
	if (opt->nranks > PERF_RANKS_MAX)
		return perf_bad("ranks: %d are too many (stay below %d)",
				opt->nranks, PERF_RANKS_MAX + 1);
	if ((opt->pattern == PERF_PINGPONG || opt->pattern == PERF_STREAM) &&
	    opt->nranks % 2)
		return perf_bad(
			"--pattern %s: it needs pairs of ranks, but %d ranks is an odd number (change --nodes or --ranks-per-node)",
			perf_pattern_name(opt->pattern), opt->nranks);
	for (int i = 0; opt->role == PERF_LOCAL && i < opt->nenv; i++) {
		if (opt->env[i].node >= opt->nnodes)
			return perf_bad(
				"--env: there is no node %d (they are 0..%d)",
				opt->env[i].node, opt->nnodes - 1);
	}
	return 0;
}

/* Before the measurement begins, check that the file can be written. */
static int settle_json(const char *path)
{
	int fd;

	if (!path || strcmp(path, "-") == 0)
		return 0;
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		return perf_bad(
			"--json %s: %s (give a file that you may write to)",
			path, strerror(errno));
	close(fd);
	return 0;
}

static int settle_paths(const struct perf_options *opt)
{
	if (strchr(opt->plugin, '/') && access(opt->plugin, R_OK) < 0)
		return perf_bad(
			"--plugin %s: %s (give the path of a NCCL network plugin)",
			opt->plugin, strerror(errno));
	for (int i = 0; i < opt->nnodes; i++) {
		if (opt->nodes[i] && access(opt->nodes[i], F_OK) < 0)
			return perf_bad(
				"--nodes %s: %s (start mpib-proxy --run-dir %s first)",
				opt->nodes[i], strerror(errno), opt->nodes[i]);
	}
	return settle_json(opt->json);
}

static int settle_sizes(struct perf_options *opt)
{
	uint64_t message = opt->chunk;

	if (opt->max < opt->min)
		return perf_bad("--max: it is below --min (swap them)");
	if (opt->random_sizes || !message || message > opt->max)
		message = opt->max;
	if (message > NCCL_MAX_NET_SIZE_V8)
		return perf_bad(
			"--chunk: one isend of %llu bytes is more than NCCL's 1G (give a smaller --chunk or --max)",
			(unsigned long long)message);
	if (perf_is_ring(opt) && opt->chunk % sizeof(float))
		return perf_bad(
			"--chunk: --pattern %s moves floats (give a multiple of 4)",
			perf_pattern_name(opt->pattern));
	return 0;
}

/* Refuse options that tests of pairs do not allow, see hosts/check.c. */
static int settle_check(const struct perf_options *opt)
{
	if (opt->role != PERF_CHECK)
		return 0;
	if (!opt->check)
		return perf_bad(
			"check: it always compares data (leave out --check 0)");
	if (opt->random_sizes || opt->group > 1 || opt->early_completion)
		return perf_bad(
			"check: its messages have one size and a receive each (leave out --random-sizes, --group and --early-completion)");
	return 0;
}

static int settle_modes(const struct perf_options *opt)
{
	bool p2p =
		opt->pattern == PERF_SENDRECV || opt->pattern == PERF_ALLTOALL;
	bool groups = p2p || opt->pattern == PERF_NCCL;

	if (opt->random_sizes && !p2p)
		return perf_bad(
			"--random-sizes: it does not go with --pattern %s (use sendrecv or alltoall)",
			perf_pattern_name(opt->pattern));
	if (opt->group > 1 && !groups)
		return perf_bad(
			"--group: it does not go with --pattern %s (use sendrecv, alltoall or nccl)",
			perf_pattern_name(opt->pattern));
	if (!perf_is_steady(opt))
		return 0;
	if (opt->random_sizes)
		return perf_bad(
			"--steady: --random-sizes is another mode (choose one)");
	if (opt->pattern != PERF_PINGPONG && opt->pattern != PERF_SENDRECV &&
	    opt->pattern != PERF_STREAM && opt->pattern != PERF_NCCL)
		return perf_bad(
			"--steady: it does not go with --pattern %s (use pingpong, stream, sendrecv or nccl)",
			perf_pattern_name(opt->pattern));
	return 0;
}

static int settle_early(const struct perf_options *opt)
{
	if (!opt->early_completion)
		return 0;
	if (opt->pattern != PERF_SENDRECV && opt->pattern != PERF_ALLTOALL)
		return perf_bad(
			"--early-completion: --pattern %s needs data when test() says done (use sendrecv or alltoall)",
			perf_pattern_name(opt->pattern));
	if (opt->random_sizes || opt->group > 1)
		return perf_bad(
			"--early-completion: it is for single receives of known sizes (leave out --random-sizes and --group)");
	return 0;
}

int perf_options_settle(struct perf_options *opt)
{
	/* The default maximum is too large for a buffer per slot. */
	if (opt->random_sizes && !opt->max_given)
		opt->max = 1 << 20;
	if (!opt->channels)
		opt->channels =
			opt->pattern == PERF_NCCL || opt->role == PERF_CHECK
				? NCCL_CHANNELS
				: 1;
	if (opt->port < 0)
		opt->port = PERF_PORT;
	if (settle_hosts(opt) < 0 || settle_ranks(opt) < 0 ||
	    settle_paths(opt) < 0 || settle_sizes(opt) < 0 ||
	    settle_check(opt) < 0 || settle_modes(opt) < 0 ||
	    settle_early(opt) < 0)
		return -EINVAL;
	return 0;
}
