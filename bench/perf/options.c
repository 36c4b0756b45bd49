/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing mpib-perf's command line. */
#include "perf/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nccl_abi.h"
#include "perf/values.h"

enum {
	OPT_PLUGIN = 256,
	OPT_ABI,
	OPT_DEV,
	OPT_NODES,
	OPT_RANKS,
	OPT_ORDER,
	OPT_PIN,
	OPT_PATTERN,
	OPT_MIN,
	OPT_MAX,
	OPT_FACTOR,
	OPT_ITERS,
	OPT_WARMUP,
	OPT_CHANNELS,
	OPT_INFLIGHT,
	OPT_CHUNK,
	OPT_MEMORY,
	OPT_CHECK,
	OPT_GROUP,
	OPT_SEED,
	OPT_JSON,
	OPT_RANDOM,
	OPT_STEADY,
	OPT_TIMEOUT,
	OPT_EARLY,
	OPT_CHURN,
	OPT_ENV,
	OPT_VERSION,
	OPT_SERVER,
	OPT_CLIENT,
	OPT_PORT,
	OPT_LISTEN,
	OPT_ONCE,
	OPT_LAUNCHER,
	OPT_RENDEZVOUS,
	OPT_EXPECT,
	OPT_SERIAL,
};

static const struct option longopts[] = {
	{ "plugin", required_argument, NULL, OPT_PLUGIN },
	{ "abi", required_argument, NULL, OPT_ABI },
	{ "dev", required_argument, NULL, OPT_DEV },
	{ "nodes", required_argument, NULL, OPT_NODES },
	{ "ranks-per-node", required_argument, NULL, OPT_RANKS },
	{ "order", required_argument, NULL, OPT_ORDER },
	{ "pin", no_argument, NULL, OPT_PIN },
	{ "pattern", required_argument, NULL, OPT_PATTERN },
	{ "min", required_argument, NULL, OPT_MIN },
	{ "max", required_argument, NULL, OPT_MAX },
	{ "factor", required_argument, NULL, OPT_FACTOR },
	{ "iters", required_argument, NULL, OPT_ITERS },
	{ "warmup", required_argument, NULL, OPT_WARMUP },
	{ "channels", required_argument, NULL, OPT_CHANNELS },
	{ "inflight", required_argument, NULL, OPT_INFLIGHT },
	{ "chunk", required_argument, NULL, OPT_CHUNK },
	{ "memory", required_argument, NULL, OPT_MEMORY },
	{ "check", required_argument, NULL, OPT_CHECK },
	{ "group", required_argument, NULL, OPT_GROUP },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "json", required_argument, NULL, OPT_JSON },
	{ "random-sizes", required_argument, NULL, OPT_RANDOM },
	{ "steady", required_argument, NULL, OPT_STEADY },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "early-completion", no_argument, NULL, OPT_EARLY },
	{ "churn", no_argument, NULL, OPT_CHURN },
	{ "env", required_argument, NULL, OPT_ENV },
	{ "server", no_argument, NULL, OPT_SERVER },
	{ "client", required_argument, NULL, OPT_CLIENT },
	{ "port", required_argument, NULL, OPT_PORT },
	{ "listen", required_argument, NULL, OPT_LISTEN },
	{ "once", no_argument, NULL, OPT_ONCE },
	{ "launcher", required_argument, NULL, OPT_LAUNCHER },
	{ "rendezvous", required_argument, NULL, OPT_RENDEZVOUS },
	{ "expect", required_argument, NULL, OPT_EXPECT },
	{ "serial", no_argument, NULL, OPT_SERIAL },
	/* These options have the names that nccl-tests uses. */
	{ "minbytes", required_argument, NULL, OPT_MIN },
	{ "maxbytes", required_argument, NULL, OPT_MAX },
	{ "stepfactor", required_argument, NULL, OPT_FACTOR },
	{ "warmup_iters", required_argument, NULL, OPT_WARMUP },
	{ "verbose", no_argument, NULL, 'v' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

/* Parse the options for several hosts. */
static int take_hosts(struct perf_options *opt, int c, const char *arg)
{
	switch (c) {
	case OPT_SERVER:
		opt->role = PERF_SERVER;
		return 0;
	case OPT_CLIENT:
		opt->role = PERF_CLIENT;
		return perf_get_list("client", opt->hosts, &opt->nhosts, arg);
	case OPT_PORT:
		return perf_get_int("port", arg, 0, UINT16_MAX, &opt->port);
	case OPT_LISTEN:
		opt->listen = arg;
		return 0;
	case OPT_ONCE:
		opt->once = true;
		return 0;
	case OPT_LAUNCHER:
		return perf_get_launcher(arg, &opt->no_launcher);
	case OPT_RENDEZVOUS:
		snprintf(opt->rendezvous, sizeof(opt->rendezvous), "%s", arg);
		return 0;
	case OPT_EXPECT:
		return perf_get_expect(arg, &opt->expect);
	case OPT_SERIAL:
		opt->serial = true;
		return 0;
	default:
		opt->verbose = true;
		return 0;
	}
}

static int get_device(const char *text, int *dev)
{
	*dev = !strcmp(text, "all") ? PERF_DEV_ALL : PERF_DEV_NEAR;
	if (!strcmp(text, "all") || !strcmp(text, "near"))
		return 0;
	return perf_get_int("dev", text, 0, NCCL_MAX_NETDEVS - 1, dev);
}

static int take_run(struct perf_options *opt, int c, const char *arg)
{
	switch (c) {
	case OPT_PLUGIN:
		opt->plugin = arg;
		return 0;
	case OPT_ABI:
		return perf_get_int("abi", arg, NCCL_NET_ABI_OLDEST,
				    NCCL_NET_ABI_NEWEST, &opt->abi);
	case OPT_DEV:
		return get_device(arg, &opt->dev);
	case OPT_NODES:
		return perf_get_list("nodes", opt->nodes, &opt->nnodes, arg);
	case OPT_RANKS:
		return perf_get_int("ranks-per-node", arg, 1, PERF_RANKS_MAX,
				    &opt->ranks_per_node);
	case OPT_ORDER:
		return perf_get_order(arg, &opt->block_order);
	case OPT_PIN:
		opt->pin = true;
		return 0;
	case OPT_ENV:
		return perf_get_env(opt, arg);
	case OPT_JSON:
		opt->json = arg;
		return 0;
	case OPT_TIMEOUT:
		return perf_get_seconds("timeout", arg, &opt->timeout);
	default:
		return take_hosts(opt, c, arg);
	}
}

static int get_check(const char *text, bool *check)
{
	int on = 0, rc = perf_get_int("check", text, 0, 1, &on);

	if (rc == 0)
		*check = on;
	return rc;
}

static int take_load(struct perf_options *opt, int c, const char *arg)
{
	switch (c) {
	case OPT_PATTERN:
		return perf_get_pattern(arg, &opt->pattern);
	case OPT_MIN:
	case 'b':
		return perf_get_size("min", arg, &opt->min);
	case OPT_MAX:
	case 'e':
		opt->max_given = true;
		return perf_get_size("max", arg, &opt->max);
	case OPT_FACTOR:
	case 'f':
		return perf_get_number("factor", arg, 2, 1 << 20, &opt->factor);
	case OPT_ITERS:
	case 'n':
		return perf_get_number("iters", arg, 1, UINT32_MAX,
				       &opt->iters);
	case OPT_WARMUP:
	case 'w':
		return perf_get_number("warmup", arg, 0, UINT32_MAX,
				       &opt->warmup);
	case OPT_CHANNELS:
		return perf_get_int("channels", arg, 1, PERF_CHANNELS_MAX,
				    &opt->channels);
	case OPT_INFLIGHT:
		return perf_get_int("inflight", arg, 1, PERF_INFLIGHT_MAX,
				    &opt->inflight);
	case OPT_CHUNK:
		return perf_get_size("chunk", arg, &opt->chunk);
	case OPT_MEMORY:
		return perf_get_memory(arg, &opt->sealed);
	case OPT_GROUP:
		return perf_get_int("group", arg, 1, PERF_GROUP_MAX,
				    &opt->group);
	case OPT_SEED:
		return perf_get_number("seed", arg, 0, UINT64_MAX, &opt->seed);
	case OPT_RANDOM:
		return perf_get_number("random-sizes", arg, 1, UINT32_MAX,
				       &opt->random_sizes);
	case OPT_STEADY:
		return perf_get_steady(opt, arg);
	case OPT_EARLY:
		opt->early_completion = true;
		return 0;
	case OPT_CHURN:
		opt->churn = true;
		return 0;
	case OPT_CHECK:
	case 'c':
		return get_check(arg, &opt->check);
	default:
		return take_run(opt, c, arg);
	}
}

static int no_option(char **argv, const char *shorts)
{
	/* Use optopt: if a word has further letters, getopt_long() has not
	 * moved past it yet. */
	if (optopt > 0 && optopt < 256 && !strchr(shorts, optopt))
		return perf_bad("command line: -%c is no option (see --help)",
				optopt);
	return perf_bad("command line: %s is no option (see --help)",
			argv[optind - 1]);
}

static int take_all(struct perf_options *opt, int argc, char **argv)
{
	static const char shorts[] = ":hvb:e:f:n:w:c:";
	int c;

	opterr = 0;
	optind = 0;
	while ((c = getopt_long(argc, argv, shorts, longopts, NULL)) != -1) {
		switch (c) {
		case 'h':
			fputs(perf_help, stdout);
			return 1;
		case OPT_VERSION:
			puts("mpib-perf " MPIB_VERSION);
			return 1;
		case ':':
			return perf_bad(
				"command line: %s wants a value (see --help)",
				argv[optind - 1]);
		case '?':
			return no_option(argv, shorts);
		default:
			if (take_load(opt, c, optarg) < 0)
				return -EINVAL;
		}
	}
	for (; optind < argc; optind++) {
		if (opt->role != PERF_CHECK)
			return perf_bad(
				"command line: \"%s\" is not expected (see --help)",
				argv[optind]);
		if (perf_options_list(opt->hosts, &opt->nhosts, argv[optind]) <
		    0)
			return perf_bad(
				"check: more than %d hosts (give fewer)",
				PERF_NODES_MAX);
	}
	return 0;
}

enum perf_parse perf_options_parse(struct perf_options *opt, int argc,
				   char **argv)
{
	int rc;

	*opt = (struct perf_options){
		.max = 64 << 20,
		.factor = 2,
		.iters = 20,
		.warmup = 5,
		.inflight = 8,
		.chunk = 512 << 10,
		.check = true,
		.group = 1,
		.seed = 1,
		.timeout = 30,
		.plugin = "libnccl-net-mpib.so",
		.port = -1,
		.places = 1,
		.expect = -1,
	};
	if (argc > 1 && strcmp(argv[1], "check") == 0) {
		opt->role = PERF_CHECK;
		argc--;
		argv++;
	}
	rc = take_all(opt, argc, argv);
	if (rc == 0)
		rc = perf_launcher_find(opt);
	if (rc == 0)
		rc = perf_options_settle(opt);
	if (rc == 0)
		return PERF_PARSE_RUN;
	perf_options_free(opt);
	return rc > 0 ? PERF_PARSE_EXIT : PERF_PARSE_BAD;
}

void perf_options_free(struct perf_options *opt)
{
	while (opt->nnodes)
		free(opt->nodes[--opt->nnodes]);
	while (opt->nhosts)
		free(opt->hosts[--opt->nhosts]);
	while (opt->nenv)
		free(opt->env[--opt->nenv].name);
}

const char perf_help[] =
	"Usage: mpib-perf [OPTION]...                 nodes on this host\n"
	"       mpib-perf --server [OPTION]...        wait for tests\n"
	"       mpib-perf --client HOST,... [OPTION]... with servers\n"
	"       mpib-perf check HOST HOST... [OPTION]... each pair of servers\n"
	"       srun|mpirun|torchrun mpib-perf [OPTION]... a rank each\n"
	"Drives a NCCL network plugin the way NCCL's proxy threads do, checks\n"
	"every byte and reports like nccl-tests. No GPU is needed.\n"
	"\n"
	"Ranks and plugin\n"
	"  --plugin PATH        the plugin (libnccl-net-mpib.so, as ld.so finds it)\n"
	"  --abi N              force ABI version 8..12 (default: newest)\n"
	"  --dev N|near|all     device of the plugin (0); near: each rank of a\n"
	"                       node has its own; all: a rank uses them all\n"
	"  --nodes DIR,DIR...   one node per directory, which is MPIB_RUN_DIR\n"
	"                       of the node's ranks\n"
	"  --ranks-per-node N   ranks of each node (1, or 2 without --nodes)\n"
	"  --order cyclic|block cyclic: neighbours in the ring are on other\n"
	"                       nodes; block: fill one node after another\n"
	"                       (cyclic)\n"
	"  --pin                pin each rank to a part of the CPUs\n"
	"  --env [NODE:]K=V     environment of the ranks, may be repeated\n"
	"\n"
	"Several hosts\n"
	"  --server             serve tests until a signal comes\n"
	"  --client HOST,...    run a node here, and one at each server\n"
	"  --port N             TCP port of servers (18600), or of rank 0\n"
	"  --listen ADDRESS     address of a server, or of rank 0 (all)\n"
	"  --once               end the server after one test\n"
	"  --rendezvous HOST    host of rank 0, if the launcher sets none\n"
	"  --launcher auto|none auto: be a rank if started by one (auto)\n"
	"  --expect GB/S        check: speed that a pair should have; 0: any\n"
	"  --serial             check: one pair at a time\n"
	"\n"
	"Measurement\n"
	"  --pattern P          sendrecv (ranks in a ring), stream (even ranks\n"
	"                       send, odd ones receive), ring (all-reduce),\n"
	"                       reduce-scatter, all-gather, alltoall, pingpong\n"
	"                       or nccl: with slots, steps and groups as in\n"
	"                       NCCL (sendrecv)\n"
	"  -b, --min S          first size in bytes, suffixes K M G (0)\n"
	"  -e, --max S          last size (64M)\n"
	"  -f, --factor F       next size is F times the last (2)\n"
	"  -n, --iters N        timed iterations (20)\n"
	"  -w, --warmup N       iterations before the timed ones (5)\n"
	"  --channels N         connections per pair of neighbours (1; nccl and\n"
	"                       check: 4)\n"
	"  --inflight N         requests outstanding on a connection (8)\n"
	"  --chunk S            bytes of one isend (512K); 0: a single isend\n"
	"  --memory M           private: ordinary memory; sealed: a sealed memfd,\n"
	"                       which needs no copy (private)\n"
	"  --group N            buffers of one irecv, 1..8 (1)\n"
	"  --random-sizes N     N messages of random sizes per connection\n"
	"  --steady N|Ns        one size for N iterations or N seconds; for\n"
	"                       sendrecv, stream, pingpong and nccl\n"
	"  --early-completion   preload irecv's request with the hint 0x1\n"
	"  --churn              register and deregister while traffic runs\n"
	"  --seed N             seed of the data and of random sizes (1)\n"
	"\n"
	"Output\n"
	"  -c, --check 0|1      compare every byte of every message, of warm-up\n"
	"                       and timed iterations; 0: do not compare (1)\n"
	"  --json FILE|-        also write all results as JSON\n"
	"  --timeout S          give up after S seconds without progress (30)\n"
	"  -v, --verbose        also print the plugin's INFO lines\n"
	"  -h, --help  --version\n"
	"\n"
	"time, algbw and busbw are defined as in nccl-tests. time is that of\n"
	"the slowest rank. p50 and p99 are of one message, from isend to its\n"
	"end. In pingpong, all times are of half a round trip. cpu is in\n"
	"seconds per GB (10^9 bytes) that all ranks together sent. The clock\n"
	"is stopped while data is made and compared, except with\n"
	"--random-sizes and nccl.\n"
	"Exit status: 0 all data right, 1 not, 2 bad arguments.\n";
