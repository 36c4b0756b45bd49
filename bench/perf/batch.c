/* SPDX-License-Identifier: Apache-2.0 */
/* Batches: how many iterations fit side by side, and their clock. */
#include "perf/batch.h"

/* Bytes of all buffers of a rank, unless one iteration needs more. */
#define RANK_MEMORY (32ull << 20)
/* Bounds a batch of small iterations, so that data is checked several times a
 * second. */
#define ITERS_MAX 4096
#define LINE 64

uint64_t perf_batch_stride(uint64_t bytes)
{
	return bytes ? (bytes + LINE - 1) / LINE * LINE : LINE;
}

uint64_t perf_batch_memory(const struct perf_options *opt, uint64_t bytes,
			   int streams)
{
	uint64_t stride = perf_batch_stride(bytes), most = ITERS_MAX;
	uint64_t share = RANK_MEMORY / (unsigned)(streams ? streams : 1);
	uint64_t asked = opt->iters > opt->warmup ? opt->iters : opt->warmup;

	if (!perf_is_steady(opt) && asked < most)
		most = asked;
	if (!opt->check)
		most = 1;
	if (stride * most < share)
		share = stride * most;
	return share > stride ? share : stride;
}

uint64_t perf_batch_iters(uint64_t memory, uint64_t bytes)
{
	uint64_t n = memory / perf_batch_stride(bytes);

	return n == 0 ? 1 : n < ITERS_MAX ? n : ITERS_MAX;
}

bool perf_lap_begin(struct perf_rank *r, struct perf_lap *lap)
{
	lap->leads = perf_world_leads(r->w, r->rank);
	lap->proxies = lap->leads ? perf_proxy_cpu(&r->w->opt) : 0;
	if (!perf_world_barrier(r->w))
		return false;
	lap->cpu = perf_cpu();
	lap->begun = perf_now();
	return true;
}

bool perf_lap_end(struct perf_rank *r, const struct perf_lap *lap, bool timed,
		  struct perf_result *res)
{
	double cpu = perf_cpu() - lap->cpu, own = perf_now() - lap->begun;
	double proxies;

	if (!perf_world_barrier(r->w))
		return false;
	if (!timed)
		return true;
	/* Do not time barriers between hosts, which are round trips of TCP. The
	 * report uses the slowest rank's time. */
	res->seconds += r->w->node < 0 ? perf_now() - lap->begun : own;
	res->cpu += cpu;
	if (!lap->leads)
		return true;
	proxies = perf_proxy_cpu(&r->w->opt);
	if (lap->proxies < 0 || proxies < 0)
		res->proxies = -1;
	else if (res->proxies >= 0)
		res->proxies += proxies - lap->proxies;
	return true;
}
