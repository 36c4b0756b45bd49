/* SPDX-License-Identifier: Apache-2.0 */
/* The results of all ranks as rows of text and as JSON. */
#include "perf/report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "perf/options.h"

static double bus_factor(const struct perf_options *opt)
{
	double n = opt->nranks;

	if (opt->pattern == PERF_RING)
		return 2 * (n - 1) / n;
	return opt->pattern == PERF_ALLTOALL || perf_is_ring(opt) ? (n - 1) / n
								  : 1;
}

/* Compute the speeds of a row in which `senders` ranks together sent `sent`
 * bytes. */
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

bool perf_save_json(const char *path, const json_t *all)
{
	bool own = strcmp(path, "-") != 0, ok;
	FILE *f = own ? fopen(path, "we") : stdout;

	ok = f &&
	     json_dumpf(all, f, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0 &&
	     fputc('\n', f) != EOF;
	/* Check fclose(): a full disk may be reported only there. */
	if (f && own)
		ok = fclose(f) == 0 && ok;
	if (!ok)
		perf_bad(
			"--json %s: it cannot be written: %s (give a file in a folder that has room and that you may write to)",
			path, strerror(errno));
	return ok;
}

void perf_report_header(const struct perf_world *w)
{
	const struct perf_options *opt = &w->opt;
	int on = w->hosts ? w->hosts : opt->nnodes;

	printf("# mpib-perf: plugin %s (v%d), device %s, %d Mb/s\n",
	       w->plugin_name, w->abi, w->dev_name, w->speed);
	printf("# %d ranks on %d %s%s, pattern %s, %d channels, %d in flight, "
	       "group %d\n",
	       opt->nranks, on, w->hosts ? "host" : "node", on == 1 ? "" : "s",
	       perf_pattern_name(opt->pattern), opt->channels, opt->inflight,
	       opt->group);
	printf("#%11s %11s %10s %8s %8s %8s %9s %9s", "size", "count", "time",
	       "algbw", "busbw", "#wrong", "cpu-ranks", "cpu-proxy");
	printf(" %9s %9s", "p50", "p99");
	printf("\n#%11s %11s %10s %8s %8s %8s %9s %9s", "(B)", "(elements)",
	       "(us)", "(GB/s)", "(GB/s)", "(B)", "(s/GB)", "(s/GB)");
	printf(" %9s %9s", "(us)", "(us)");
	printf("\n");
	fflush(stdout);
}

static void print_cpu(double cpu)
{
	if (cpu < 0)
		printf(" %9s", "-");
	else
		printf(" %9.3f", cpu);
}

static void print_latency(double us)
{
	if (us < 0)
		printf(" %9s", "-");
	else
		printf(" %9.2f", us);
}

static void print_row(const struct perf_world *w, const struct perf_row *row)
{
	printf(" %11llu %11llu %10.2f %8.3f %8.3f",
	       (unsigned long long)row->size, (unsigned long long)row->count,
	       row->seconds * 1e6, row->algbw, row->busbw);
	if (w->opt.check)
		printf(" %8llu", (unsigned long long)row->wrong);
	else
		printf(" %8s", "N/A");
	print_cpu(row->cpu_ranks);
	print_cpu(row->cpu_proxies);
	print_latency(row->p50);
	print_latency(row->p99);
	printf("\n");
}

/* Return `n`, or null if this run compares no data. */
static json_t *count_of(const struct perf_world *w, uint64_t n)
{
	return w->opt.check ? json_integer((json_int_t)n) : json_null();
}

/* Return a measured value, or null if it was not measured. */
static json_t *measured(double n)
{
	return n < 0 ? json_null() : json_real(n);
}

/* Add the results of the data checks to the JSON of a row or of the whole
 * run. */
static void add_checks(const struct perf_world *w, json_t *to,
		       const struct perf_row *row)
{
	json_t *more =
		json_pack("{s:o,s:o,s:o,s:o,s:f,s:b}", "checked_messages",
			  count_of(w, row->messages), "checked_bytes",
			  count_of(w, row->bytes), "wrong_messages",
			  count_of(w, row->wrong_messages), "wrong",
			  count_of(w, row->wrong), "checking_s", row->checking,
			  "checking_in_time",
			  w->opt.check && perf_checks_within(&w->opt));

	json_object_update(to, more);
	json_decref(more);
}

static json_t *json_of(const struct perf_world *w, const struct perf_row *row)
{
	json_t *o = json_pack(
		"{s:I,s:I,s:I,s:f,s:f,s:f,s:o,s:o,s:o,s:o,s:o,s:o}", "size",
		(json_int_t)row->size, "count", (json_int_t)row->count, "iters",
		(json_int_t)row->iters, "time_us", row->seconds * 1e6, "algbw",
		row->algbw, "busbw", row->busbw, "cpu_ranks_s_per_gb",
		measured(row->cpu_ranks), "cpu_proxies_s_per_gb",
		measured(row->cpu_proxies), "p50_us", measured(row->p50),
		"p90_us", measured(row->p90), "p99_us", measured(row->p99),
		"p999_us", measured(row->p999));

	add_checks(w, o, row);
	return o;
}

static void print_checks(const struct perf_world *w, const struct perf_row *sum)
{
	if (!w->opt.check) {
		printf("# checked : nothing (--check 0)\n# wrong : N/A\n");
		return;
	}
	printf("# checked : %llu messages, %llu bytes, in %.3f s %s the time\n",
	       (unsigned long long)sum->messages,
	       (unsigned long long)sum->bytes, sum->checking,
	       perf_checks_within(&w->opt) ? "within" : "beside");
	printf("# wrong : %llu", (unsigned long long)sum->wrong);
	if (sum->wrong_messages)
		printf(" bytes in %llu messages",
		       (unsigned long long)sum->wrong_messages);
	printf("\n");
}

/* The values when the last line of progress was printed. */
static struct {
	int row; /* plus 1 */
	double at, seconds, moved;
} last;

void perf_report_progress(const struct perf_world *w, int i,
			  const struct perf_sums *now)
{
	double moved = now->senders ? (double)now->sent / now->senders : 0;
	double clock = perf_now(), spent;

	if (last.row != i + 1) {
		last.row = i + 1;
		last.at = clock;
		last.seconds = last.moved = 0;
		return;
	}
	if (clock - last.at < 1)
		return;
	spent = perf_one_way(&w->opt, now->seconds - last.seconds);
	if (spent > 0)
		printf("# %8.1f s of %llu bytes: %8.3f GB/s, %llu wrong\n",
		       now->seconds, (unsigned long long)w->size[i],
		       (moved - last.moved) / spent / 1e9,
		       (unsigned long long)now->wrong);
	fflush(stdout);
	last.at = clock;
	last.seconds = now->seconds;
	last.moved = moved;
}

void perf_report_row(const struct perf_world *w, int i)
{
	struct perf_row row = perf_row_make(w, i);

	print_row(w, &row);
	fflush(stdout);
}

static void add_up(struct perf_row *sum, const struct perf_row *row)
{
	sum->messages += row->messages;
	sum->bytes += row->bytes;
	sum->wrong_messages += row->wrong_messages;
	sum->wrong += row->wrong;
	sum->checking += row->checking;
	sum->busbw += row->busbw;
}

static json_t *json_all(const struct perf_world *w, json_t *rows, double avg)
{
	return json_pack("{s:s,s:i,s:s,s:i,s:i,s:s,s:i,s:i,s:o,s:f}", "plugin",
			 w->plugin_name, "abi", w->abi, "device", w->dev_name,
			 "nodes", w->hosts ? w->hosts : w->opt.nnodes, "ranks",
			 w->opt.nranks, "pattern",
			 perf_pattern_name(w->opt.pattern), "channels",
			 w->opt.channels, "inflight", w->opt.inflight, "rows",
			 rows, "avg_busbw", avg);
}

bool perf_report(const struct perf_world *w)
{
	json_t *rows = json_array(), *all;
	struct perf_row sum = { 0 };
	bool ok;

	for (int i = 0; i < w->rows; i++) {
		struct perf_row row = perf_row_make(w, i);

		json_array_append_new(rows, json_of(w, &row));
		add_up(&sum, &row);
	}
	printf("# Avg bus bandwidth : %.4f GB/s\n", sum.busbw / w->rows);
	print_checks(w, &sum);
	all = json_all(w, rows, sum.busbw / w->rows);
	add_checks(w, all, &sum);
	ok = !w->opt.json || perf_save_json(w->opt.json, all);
	json_decref(all);
	if (fflush(stdout) != 0 || ferror(stdout))
		ok = perf_bad(
			     "standard output: %s (check the file or pipe that it is redirected to)",
			     strerror(errno)) == 0;
	return ok && sum.wrong_messages == 0;
}
