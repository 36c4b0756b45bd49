/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of mpib-perf. The command line is checked before any rank
 * starts. */
#ifndef PERF_OPTIONS_H
#define PERF_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PERF_NODES_MAX 256
#define PERF_PORT 18600
#define PERF_RANKS_MAX 256
#define PERF_CHANNELS_MAX 64
#define PERF_INFLIGHT_MAX 32
#define PERF_GROUP_MAX 8
#define PERF_ENV_MAX 64
#define PERF_ROWS_MAX 64
#define PERF_SIZE_MAX (1ull << 40)

enum perf_pattern {
	PERF_SENDRECV,
	PERF_STREAM,
	PERF_RING, /* for this and the next two patterns, see pattern.h */
	PERF_REDUCE_SCATTER,
	PERF_ALL_GATHER,
	PERF_ALLTOALL,
	PERF_PINGPONG,
	PERF_NCCL,
	PERF_PATTERNS
};

/* The role of a process of mpib-perf. */
enum perf_role {
	PERF_LOCAL, /* fork the ranks of all nodes on this host */
	PERF_SERVER, /* wait for tests that other hosts request */
	PERF_CLIENT, /* test with the servers of other hosts, and report */
	PERF_CHECK, /* test each pair of servers, and report */
	PERF_LAUNCHED, /* be one rank, started by srun, mpirun or torchrun */
	/* A child of one of the processes above: fork the ranks of one node. */
	PERF_NODE,
};

/* An option --env: a variable for the ranks of node number `node`, or for all
 * ranks if `node` is -1. */
struct perf_env {
	int node;
	char *name;
	const char *value;
};

#define PERF_DEVICES_MAX 16
#define PERF_DEV_NEAR (-1) /* each rank of a node uses its own device */
/* Each rank spreads its connections over all devices. */
#define PERF_DEV_ALL (-2)

struct perf_options {
	const char *plugin;
	int abi; /* 0: the newest version the plugin has */
	int dev; /* or one of PERF_DEV_ */
	int nnodes;
	char *nodes[PERF_NODES_MAX]; /* NULL: do not set MPIB_RUN_DIR */
	int ranks_per_node;
	bool block_order; /* ranks 0..n-1 on node 0, not round robin */
	bool pin;
	int nranks;
	enum perf_pattern pattern;
	uint64_t min, max, factor;
	bool max_given;
	uint64_t iters, warmup;
	int channels; /* 0 until perf_options_settle() */
	int inflight;
	uint64_t chunk; /* 0: a transfer is one isend */
	bool sealed; /* buffers are sealed memfds: no copy */
	bool check;
	int group;
	uint64_t seed;
	const char *json;
	uint64_t random_sizes; /* messages per connection; 0: not this mode */
	uint64_t steady_count; /* iterations; 0: another mode */
	double steady_seconds;
	double timeout;
	bool early_completion;
	bool churn;
	bool verbose;
	struct perf_env env[PERF_ENV_MAX];
	int nenv;
	/* Options for several hosts. */
	enum perf_role role;
	char *hosts[PERF_NODES_MAX]; /* of --client or check */
	int nhosts;
	int port; /* -1 until the port is chosen */
	const char *listen; /* NULL: at all addresses */
	bool once;
	bool no_launcher;
	int rank; /* of PERF_LAUNCHED */
	bool leads; /* PERF_LAUNCHED: the first rank of its host */
	/* The rank's index among the ranks of its host, and their number. */
	int place, places;
	uint64_t job; /* distinguishes the jobs of a launcher */
	char rendezvous[256]; /* host of rank 0; "": unknown */
	double expect; /* check: GB/s; 0: any; < 0: from the rails' speed */
	bool serial; /* check: one pair at a time */
};

enum perf_parse {
	PERF_PARSE_RUN,
	PERF_PARSE_EXIT, /* --help or --version has been answered */
	PERF_PARSE_BAD, /* the error is on stderr, in one line */
};

/* Fill *opt. The strings of the options either point into `argv` or are freed
 * by perf_options_free(). */
enum perf_parse perf_options_parse(struct perf_options *opt, int argc,
				   char **argv);
void perf_options_free(struct perf_options *opt);

/* Print one line to stderr that says what is wrong and how to correct it.
 * Returns -EINVAL, for callers to return. */
int perf_bad(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Return the last line of perf_bad() in this process; "": none. */
const char *perf_bad_said(void);

/* Finish parsing: set the defaults that depend on other options. If options
 * contradict each other, print that with perf_bad() and return -EINVAL. */
int perf_options_settle(struct perf_options *opt);

extern const char perf_help[];

/* Write the message sizes to test, at most PERF_ROWS_MAX. Returns their
 * number. */
int perf_options_sizes(const struct perf_options *opt, uint64_t *sizes);

const char *perf_pattern_name(enum perf_pattern pattern);
/* Return whether ring.h runs the pattern. */
bool perf_is_ring(const struct perf_options *opt);

/* Return the node on which `rank` runs. perf_rank_local() returns the index of
 * the rank on that node. */
int perf_rank_node(const struct perf_options *opt, int rank);
int perf_rank_local(const struct perf_options *opt, int rank);

/* Return whether this is a steady run, which has one row. */
static inline bool perf_is_steady(const struct perf_options *opt)
{
	return opt->steady_count || opt->steady_seconds > 0;
}

/* Return whether data is checked within the timed part, which is necessary if
 * the buffers are used again immediately. */
static inline bool perf_checks_within(const struct perf_options *opt)
{
	return opt->random_sizes || opt->pattern == PERF_NCCL;
}

/*
 * If a launcher started this process as one of several ranks, set role, rank,
 * nnodes, job and the host of rank 0. The launcher is ignored after --launcher
 * none and after options that say how many ranks run on this host. Returns 0,
 * or -EINVAL after a line on stderr.
 */
int perf_launcher_find(struct perf_options *opt);

/* Get the first host of a Slurm node list, such as "a03" of "a[03-05,9],b".
 * Returns false if the list has no host, or if the host's name is longer than
 * `len`. */
bool perf_launcher_first(const char *list, char *host, size_t len);

#endif
