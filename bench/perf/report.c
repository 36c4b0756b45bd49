/* SPDX-License-Identifier: Apache-2.0 */
/* The results of all ranks as rows of text and as JSON. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "perf/world.h"

/* The results of one row over all ranks. */
struct row {
	uint64_t size, count, wrong, wrong_messages;
	uint64_t messages, bytes; /* that were compared */
	double checking; /* s of the rank that compared longest */
	double seconds; /* of one iteration, slowest rank */
	double algbw, busbw; /* GB/s */
	double cpu_ranks, cpu_proxies; /* s/GB sent, < 0 unknown */
	double p50, p90, p99, p999; /* us, < 0 where not measured */
};

void perf_report_header(const struct perf_world *w)
{
	const struct perf_options *opt = &w->opt;

	printf("# mpib-perf: plugin %s (v%d), device %s, %d Mb/s\n",
	       w->plugin_name, w->abi, w->dev_name, w->speed);
	printf("# %d ranks on %d nodes, pattern %s, %d channels, %d in flight, "
	       "group %d\n",
	       opt->nranks, opt->nnodes, perf_pattern_name(opt->pattern),
	       opt->channels, opt->inflight, opt->group);
	printf("#%11s %11s %10s %8s %8s %8s %9s %9s", "size", "count",
	       "time(us)", "algbw", "busbw", "#wrong", "cpu-ranks",
	       "cpu-proxy");
	if (opt->pattern == PERF_PINGPONG)
		printf(" %9s %9s", "p50(us)", "p99(us)");
	printf("\n");
	fflush(stdout);
}

static double bus_factor(const struct perf_options *opt)
{
	double n = opt->nranks;

	if (opt->pattern == PERF_RING)
		return 2 * (n - 1) / n;
	return opt->pattern == PERF_ALLTOALL ? (n - 1) / n : 1;
}

static struct row make_row(const struct perf_world *w, int i)
{
	const struct perf_options *opt = &w->opt;
	struct row row = { .size = w->size[i],
			   .count = w->size[i] / sizeof(float),
			   .cpu_proxies = -1,
			   .p50 = -1,
			   .p90 = -1,
			   .p99 = -1,
			   .p999 = -1 };
	double slowest = 0, cpu = 0, gb, moved;
	int senders = 0;
	static struct perf_hist hist;
	uint64_t sent = 0;

	memset(&hist, 0, sizeof(hist));
	for (int r = 0; r < opt->nranks; r++) {
		const struct perf_result *res = &w->result[i * opt->nranks + r];

		slowest = res->seconds > slowest ? res->seconds : slowest;
		cpu += res->cpu;
		sent += res->sent;
		senders += res->sent > 0;
		row.wrong += res->wrong;
		row.wrong_messages += res->wrong_messages;
		row.messages += res->messages;
		row.bytes += res->bytes;
		row.checking = res->checking > row.checking ? res->checking
							    : row.checking;
		perf_hist_merge(&hist, &res->hist);
	}
	gb = (double)sent / 1e9;
	row.cpu_ranks = gb > 0 ? cpu / gb : -1;
	if (gb > 0 && w->result[i * opt->nranks].proxies >= 0)
		row.cpu_proxies = w->result[i * opt->nranks].proxies / gb;
	if (opt->random_sizes || perf_is_steady(opt)) {
		row.seconds = slowest;
		moved = senders ? (double)sent / senders : 0;
		row.algbw = slowest > 0 ? moved / slowest / 1e9 : 0;
		row.busbw = row.algbw;
	} else {
		row.seconds = slowest / (double)opt->iters;
		if (opt->pattern == PERF_PINGPONG)
			row.seconds /= 2;
		row.algbw = row.seconds > 0
				    ? (double)row.size / row.seconds / 1e9
				    : 0;
		row.busbw = row.algbw * bus_factor(opt);
	}
	if (opt->pattern == PERF_PINGPONG) {
		row.p50 = perf_hist_quantile(&hist, 0.5) / 1e3;
		row.p90 = perf_hist_quantile(&hist, 0.9) / 1e3;
		row.p99 = perf_hist_quantile(&hist, 0.99) / 1e3;
		row.p999 = perf_hist_quantile(&hist, 0.999) / 1e3;
	}
	return row;
}

static void print_cpu(double cpu)
{
	if (cpu < 0)
		printf(" %9s", "-");
	else
		printf(" %9.3f", cpu);
}

static void print_row(const struct perf_world *w, const struct row *row)
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
	if (w->opt.pattern == PERF_PINGPONG)
		printf(" %9.2f %9.2f", row->p50, row->p99);
	printf("\n");
}

/* n, or -1 if this run compares nothing. */
static json_int_t count_of(const struct perf_world *w, uint64_t n)
{
	return w->opt.check ? (json_int_t)n : -1;
}

/* Add the results of comparing to the JSON of a row or of the whole run. */
static void add_checks(const struct perf_world *w, json_t *to,
		       const struct row *row)
{
	json_t *more =
		json_pack("{s:I,s:I,s:I,s:I,s:f,s:b}", "checked_messages",
			  count_of(w, row->messages), "checked_bytes",
			  count_of(w, row->bytes), "wrong_messages",
			  count_of(w, row->wrong_messages), "wrong",
			  count_of(w, row->wrong), "checking_s", row->checking,
			  "checking_in_time",
			  w->opt.check && perf_checks_within(&w->opt));

	json_object_update(to, more);
	json_decref(more);
}

static json_t *json_of(const struct perf_world *w, const struct row *row)
{
	json_t *o = json_pack(
		"{s:I,s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "size",
		(json_int_t)row->size, "count", (json_int_t)row->count,
		"time_us", row->seconds * 1e6, "algbw", row->algbw, "busbw",
		row->busbw, "cpu_ranks_s_per_gb", row->cpu_ranks,
		"cpu_proxies_s_per_gb", row->cpu_proxies, "p50_us", row->p50,
		"p90_us", row->p90, "p99_us", row->p99, "p999_us", row->p999);

	add_checks(w, o, row);
	return o;
}

/* False after a line on stderr. */
static bool write_json(const struct perf_world *w, json_t *all)
{
	bool own = strcmp(w->opt.json, "-") != 0, ok;
	FILE *f = own ? fopen(w->opt.json, "we") : stdout;

	ok = f && json_dumpf(all, f, JSON_INDENT(1)) == 0 &&
	     fputc('\n', f) != EOF;
	/* A full disk may be reported only by fclose(). */
	if (f && own)
		ok = fclose(f) == 0 && ok;
	if (!ok)
		perf_bad(
			"--json %s: it cannot be written: %s (give a file in a folder that has room and that you may write to)",
			w->opt.json, strerror(errno));
	return ok;
}

static void print_checks(const struct perf_world *w, const struct row *sum)
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

void perf_report_row(const struct perf_world *w, int i)
{
	struct row row = make_row(w, i);

	print_row(w, &row);
	fflush(stdout);
}

static void add_up(struct row *sum, const struct row *row)
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
			 "nodes", w->opt.nnodes, "ranks", w->opt.nranks,
			 "pattern", perf_pattern_name(w->opt.pattern),
			 "channels", w->opt.channels, "inflight",
			 w->opt.inflight, "rows", rows, "avg_busbw", avg);
}

bool perf_report(const struct perf_world *w)
{
	json_t *rows = json_array(), *all;
	struct row sum = { 0 };
	bool ok;

	for (int i = 0; i < w->rows; i++) {
		struct row row = make_row(w, i);

		json_array_append_new(rows, json_of(w, &row));
		add_up(&sum, &row);
	}
	printf("# Avg bus bandwidth : %.4f GB/s\n", sum.busbw / w->rows);
	print_checks(w, &sum);
	all = json_all(w, rows, sum.busbw / w->rows);
	add_checks(w, all, &sum);
	ok = !w->opt.json || write_json(w, all);
	json_decref(all);
	if (fflush(stdout) != 0 || ferror(stdout))
		ok = perf_bad("standard output: %s (see where it leads)",
			      strerror(errno)) == 0;
	return ok && sum.wrong_messages == 0;
}
