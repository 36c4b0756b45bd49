/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing mpib-perf's command line. */
#include "perf/options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
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
	{ "verbose", no_argument, NULL, 'v' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static int get_pattern(const char *text, enum perf_pattern *pattern)
{
	for (int i = 0; i < PERF_PATTERNS; i++) {
		if (strcmp(text, perf_pattern_name(i)) == 0) {
			*pattern = i;
			return 0;
		}
	}
	return perf_bad(
		"--pattern: there is no \"%s\" (use sendrecv, stream, ring, alltoall, pingpong or nccl)",
		text);
}

static int get_order(const char *text, bool *block)
{
	*block = strcmp(text, "block") == 0;
	if (!*block && strcmp(text, "cyclic") != 0)
		return perf_bad(
			"--order: there is no \"%s\" (use cyclic or block)",
			text);
	return 0;
}

static int get_memory(const char *text, bool *sealed)
{
	*sealed = strcmp(text, "sealed") == 0;
	if (!*sealed && strcmp(text, "private") != 0)
		return perf_bad(
			"--memory: there is no \"%s\" (use private or sealed)",
			text);
	return 0;
}

static int get_nodes(struct perf_options *opt, const char *text)
{
	while (opt->nnodes)
		free(opt->nodes[--opt->nnodes]);
	while (*text) {
		size_t len = strcspn(text, ",");

		if (len && opt->nnodes == PERF_NODES_MAX)
			return perf_bad("--nodes: more than %d (give fewer)",
					PERF_NODES_MAX);
		if (len)
			opt->nodes[opt->nnodes++] = strndup(text, len);
		text += len + (text[len] == ',');
	}
	if (!opt->nnodes)
		return perf_bad(
			"--nodes: it names none (give run dirs, as DIR0,DIR1)");
	return 0;
}

static int get_env(struct perf_options *opt, const char *text)
{
	struct perf_env *env = &opt->env[opt->nenv];
	const char *name = text, *eq;
	size_t digits = strspn(text, "0123456789");

	if (opt->nenv == PERF_ENV_MAX)
		return perf_bad("--env: more than %d (give fewer)",
				PERF_ENV_MAX);
	env->node = -1;
	if (digits) {
		/* atoi() is safe up to 9 digits; a longer number is refused
		 * later like any node that does not exist. */
		env->node = digits > 9 ? INT_MAX : atoi(text);
		name = text[digits] == ':' ? text + digits + 1 : "";
	}
	eq = strchr(name, '=');
	if (!eq || eq == name || name + strcspn(name, ": \t\n") < eq)
		return perf_bad(
			"--env: \"%s\" sets nothing (give K=V or NODE:K=V)",
			text);
	env->name = strndup(name, (size_t)(eq - name));
	env->value = eq + 1;
	opt->nenv++;
	return 0;
}

static int get_steady(struct perf_options *opt, const char *text)
{
	size_t len = strlen(text);

	opt->steady_count = 0;
	opt->steady_seconds = 0;
	if (len && text[len - 1] == 's')
		return perf_get_seconds("steady", text, &opt->steady_seconds);
	return perf_get_number("steady", text, 1, UINT32_MAX,
			       &opt->steady_count);
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
		return perf_get_int("dev", arg, 0, NCCL_MAX_NETDEVS - 1,
				    &opt->dev);
	case OPT_NODES:
		return get_nodes(opt, arg);
	case OPT_RANKS:
		return perf_get_int("ranks-per-node", arg, 1, PERF_RANKS_MAX,
				    &opt->ranks_per_node);
	case OPT_ORDER:
		return get_order(arg, &opt->block_order);
	case OPT_PIN:
		opt->pin = true;
		return 0;
	case OPT_ENV:
		return get_env(opt, arg);
	case OPT_JSON:
		opt->json = arg;
		return 0;
	case OPT_TIMEOUT:
		return perf_get_seconds("timeout", arg, &opt->timeout);
	default:
		opt->verbose = true;
		return 0;
	}
}

static int take_load(struct perf_options *opt, int c, const char *arg)
{
	int on;

	switch (c) {
	case OPT_PATTERN:
		return get_pattern(arg, &opt->pattern);
	case OPT_MIN:
		return perf_get_size("min", arg, &opt->min);
	case OPT_MAX:
		opt->max_given = true;
		return perf_get_size("max", arg, &opt->max);
	case OPT_FACTOR:
		return perf_get_number("factor", arg, 2, 1 << 20, &opt->factor);
	case OPT_ITERS:
		return perf_get_number("iters", arg, 1, UINT32_MAX,
				       &opt->iters);
	case OPT_WARMUP:
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
		return get_memory(arg, &opt->sealed);
	case OPT_GROUP:
		return perf_get_int("group", arg, 1, PERF_GROUP_MAX,
				    &opt->group);
	case OPT_SEED:
		return perf_get_number("seed", arg, 0, UINT64_MAX, &opt->seed);
	case OPT_RANDOM:
		return perf_get_number("random-sizes", arg, 1, UINT32_MAX,
				       &opt->random_sizes);
	case OPT_STEADY:
		return get_steady(opt, arg);
	case OPT_EARLY:
		opt->early_completion = true;
		return 0;
	case OPT_CHURN:
		opt->churn = true;
		return 0;
	case OPT_CHECK:
		if (perf_get_int("check", arg, 0, 1, &on) < 0)
			return -EINVAL;
		opt->check = on;
		return 0;
	default:
		return take_run(opt, c, arg);
	}
}

static int take_all(struct perf_options *opt, int argc, char **argv)
{
	int c;

	opterr = 0;
	optind = 0;
	while ((c = getopt_long(argc, argv, ":hv", longopts, NULL)) != -1) {
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
			return perf_bad(
				"command line: %s is no option (see --help)",
				argv[optind - 1]);
		default:
			if (take_load(opt, c, optarg) < 0)
				return -EINVAL;
		}
	}
	if (optind < argc)
		return perf_bad(
			"command line: \"%s\" is not expected (see --help)",
			argv[optind]);
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
	};
	rc = take_all(opt, argc, argv);
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
	while (opt->nenv)
		free(opt->env[--opt->nenv].name);
}
