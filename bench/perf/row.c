/* SPDX-License-Identifier: Apache-2.0 */
/* The results of all ranks, added up. */
#include "perf/row.h"

#include <string.h>

static double bus_factor(const struct perf_options *opt)
{
	double n = opt->nranks;

	if (opt->pattern == PERF_RING)
		return 2 * (n - 1) / n;
	return opt->pattern == PERF_ALLTOALL || perf_is_ring(opt) ? (n - 1) / n
								  : 1;
}

/* Speeds of a row in which `senders` ranks sent `sent` bytes. */
static void set_speed(struct perf_row *row, const struct perf_options *opt,
		      double slowest, uint64_t sent, int senders)
{
	double moved = senders ? (double)sent / senders : 0;

	slowest = perf_one_way(opt, slowest);
	if (row->iters)
		row->seconds = slowest / (double)row->iters;
	if (opt->random_sizes || perf_is_steady(opt)) {
		row->algbw = slowest > 0 ? moved / slowest / 1e9 : 0;
		row->busbw = row->algbw;
		return;
	}
	if (row->seconds > 0)
		row->algbw = (double)row->size / row->seconds / 1e9;
	row->busbw = row->algbw * bus_factor(opt);
}

static void set_latencies(struct perf_row *row, const struct perf_hist *hist)
{
	row->p50 = perf_hist_quantile(hist, 0.5) / 1e3;
	row->p90 = perf_hist_quantile(hist, 0.9) / 1e3;
	row->p99 = perf_hist_quantile(hist, 0.99) / 1e3;
	row->p999 = perf_hist_quantile(hist, 0.999) / 1e3;
}

/* Add a rank's result to *row. */
static void add_rank(struct perf_row *row, const struct perf_result *res)
{
	row->wrong += res->wrong;
	row->wrong_messages += res->wrong_messages;
	row->messages += res->messages;
	row->bytes += res->bytes;
	if (res->checking > row->checking)
		row->checking = res->checking;
	if (res->iters > row->iters)
		row->iters = res->iters;
}

struct perf_row perf_row_make(const struct perf_world *w, int i)
{
	const struct perf_options *opt = &w->opt;
	const struct perf_result *all = &w->result[i * opt->nranks];
	struct perf_row row = { .size = w->size[i],
				.count = w->size[i] / sizeof(float),
				.cpu_ranks = -1,
				.cpu_proxies = -1,
				.p50 = -1,
				.p90 = -1,
				.p99 = -1,
				.p999 = -1 };
	double slowest = 0, cpu = 0, proxies = 0;
	static struct perf_hist hist;
	uint64_t sent = 0;
	int senders = 0;

	memset(&hist, 0, sizeof(hist));
	for (int r = 0; r < opt->nranks; r++) {
		add_rank(&row, &all[r]);
		slowest = all[r].seconds > slowest ? all[r].seconds : slowest;
		cpu += all[r].cpu;
		proxies += all[r].proxies > 0 ? all[r].proxies : 0;
		sent += all[r].sent;
		senders += all[r].sent > 0;
		perf_hist_merge(&hist, &all[r].hist);
	}
	if (sent > 0)
		row.cpu_ranks = cpu / ((double)sent / 1e9);
	if (sent > 0 && all[0].proxies >= 0)
		row.cpu_proxies = proxies / ((double)sent / 1e9);
	set_speed(&row, opt, slowest, sent, senders);
	if (hist.count)
		set_latencies(&row, &hist);
	return row;
}
