/* SPDX-License-Identifier: Apache-2.0 */
/* The load that the hub sends to a node, see setup.h. */
#include "perf/hosts/setup.h"

#include <math.h>

void perf_setup_make(struct perf_setup *s, const struct perf_options *opt,
		     int node, uint32_t device)
{
	*s = (struct perf_setup){
		.node = (uint32_t)node,
		.nnodes = (uint32_t)opt->nnodes,
		.ranks_per_node = (uint32_t)opt->ranks_per_node,
		.pattern = opt->pattern,
		.block_order = opt->block_order,
		.channels = (uint32_t)opt->channels,
		.inflight = (uint32_t)opt->inflight,
		.sealed = opt->sealed,
		.check = opt->check,
		.group = (uint32_t)opt->group,
		.early = opt->early_completion,
		.churn = opt->churn,
		.device = device,
		.min = opt->min,
		.max = opt->max,
		.factor = opt->factor,
		.iters = opt->iters,
		.warmup = opt->warmup,
		.chunk = opt->chunk,
		.seed = opt->seed,
		.random_sizes = opt->random_sizes,
		.steady_count = opt->steady_count,
		.steady_seconds = opt->steady_seconds,
		.timeout = opt->timeout,
	};
}

static bool within(uint64_t n, uint64_t lo, uint64_t hi)
{
	return n >= lo && n <= hi;
}

static bool sane(const struct perf_setup *s)
{
	return within(s->nnodes, 1, PERF_NODES_MAX) && s->node < s->nnodes &&
	       within(s->ranks_per_node, 1, PERF_RANKS_MAX) &&
	       s->pattern < PERF_PATTERNS &&
	       within(s->channels, 1, PERF_CHANNELS_MAX) &&
	       within(s->inflight, 1, PERF_INFLIGHT_MAX) &&
	       (s->device == PERF_SETUP_OWN || s->device < PERF_DEVICES_MAX) &&
	       within(s->group, 1, PERF_GROUP_MAX) && s->max <= PERF_SIZE_MAX &&
	       s->chunk <= PERF_SIZE_MAX && within(s->factor, 2, 1 << 20) &&
	       within(s->iters, 1, UINT32_MAX) && s->warmup <= UINT32_MAX &&
	       s->random_sizes <= UINT32_MAX && s->steady_count <= UINT32_MAX &&
	       isfinite(s->steady_seconds) && s->steady_seconds >= 0 &&
	       s->steady_seconds <= 1e6 && s->timeout > 0 && s->timeout <= 1e6;
}

int perf_setup_take(const struct perf_setup *s, struct perf_options *opt)
{
	if (!sane(s))
		return perf_bad(
			"setup: a number is out of range (is the other end mpib-perf of this version?)");
	opt->nnodes = (int)s->nnodes;
	for (int i = 0; i < opt->nnodes; i++)
		opt->nodes[i] = NULL;
	opt->ranks_per_node = (int)s->ranks_per_node;
	opt->pattern = (enum perf_pattern)s->pattern;
	opt->block_order = s->block_order != 0;
	opt->channels = (int)s->channels;
	opt->inflight = (int)s->inflight;
	opt->sealed = s->sealed != 0;
	opt->check = s->check != 0;
	opt->group = (int)s->group;
	opt->early_completion = s->early != 0;
	opt->churn = s->churn != 0;
	if (s->device != PERF_SETUP_OWN)
		opt->dev = (int)s->device;
	opt->min = s->min;
	opt->max = s->max;
	opt->max_given = true;
	opt->factor = s->factor;
	opt->iters = s->iters;
	opt->warmup = s->warmup;
	opt->chunk = s->chunk;
	opt->seed = s->seed;
	opt->random_sizes = s->random_sizes;
	opt->steady_count = s->steady_count;
	opt->steady_seconds = s->steady_seconds;
	opt->timeout = s->timeout;
	opt->role = PERF_NODE;
	return perf_options_settle(opt);
}
