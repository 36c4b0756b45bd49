/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank. Its main thread acts as NCCL's Service thread, which connects,
 * registers and closes; a second thread acts as NCCL's Progress thread and runs
 * the rows.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "perf/batch.h"
#include "perf/data.h"
#include "perf/pin.h"
#include "perf/rank.h"

static bool verbose;

static void log_line(enum nccl_log_level level, unsigned long flags,
		     const char *where, int line, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

static void log_line(enum nccl_log_level level, unsigned long flags,
		     const char *where, int line, const char *fmt, ...)
{
	char text[600];
	va_list ap;

	(void)flags;
	(void)where;
	(void)line;
	if (level != NCCL_LOG_WARN && !(verbose && level == NCCL_LOG_INFO))
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, "%s %s\n", level == NCCL_LOG_WARN ? "WARN" : "INFO",
		text);
}

bool perf_rank_check(struct perf_rank *r, const char *call,
		     enum nccl_result res)
{
	if (res == NCCL_SUCCESS)
		return true;
	perf_world_fail(r->w, r->rank, "%s: %s (%d; its WARN line says more)",
			call, perf_result_name(res), (int)res);
	return false;
}

static void set_environment(const struct perf_options *opt, int rank)
{
	int node = perf_rank_node(opt, rank);

	if (opt->nodes[node])
		setenv("MPIB_RUN_DIR", opt->nodes[node], 1);
	for (int i = 0; i < opt->nenv; i++) {
		if (opt->env[i].node < 0 || opt->env[i].node == node)
			setenv(opt->env[i].name, opt->env[i].value, 1);
	}
}

static bool pin(const struct perf_options *opt, int rank)
{
	/* Other nodes have other CPUs, but each rank of a launcher is a
	 * node. */
	bool several = opt->role != PERF_LOCAL;
	int node =
		several ? opt->place % opt->places : perf_rank_node(opt, rank);
	int nodes = several ? opt->places : opt->nnodes;
	int rc = perf_pin(node * opt->ranks_per_node +
				  perf_rank_local(opt, rank),
			  nodes * opt->ranks_per_node);

	if (rc < 0)
		perf_bad("--pin: rank %d: %s", rank, strerror(-rc));
	return rc == 0;
}

int perf_rank_device(const struct perf_rank *r, int peer, int channel)
{
	const struct perf_options *opt = &r->w->opt;
	int near = opt->place + perf_rank_local(opt, r->rank);

	if (opt->dev >= 0)
		return opt->dev;
	if (opt->dev == PERF_DEV_ALL)
		near += peer + channel;
	return near % (r->plug.devices > 0 ? r->plug.devices : 1);
}

static bool start_plugin(struct perf_rank *r)
{
	struct perf_world *w = r->w;

	if (perf_plug_load(&r->plug, w->opt.plugin, w->opt.abi) < 0) {
		perf_world_fail(
			w, r->rank,
			"plugin: it cannot be loaded (see the line before)");
		return false;
	}
	if (!perf_rank_check(r, "init", perf_plug_init(&r->plug, log_line)) ||
	    !perf_rank_check(
		    r, "getProperties",
		    perf_plug_properties(&r->plug, perf_rank_device(r, 0, 0))))
		return false;
	if (w->opt.group > r->plug.max_recvs) {
		perf_world_fail(
			w, r->rank,
			"--group %d: the plugin takes fewer (give at most %d)",
			w->opt.group, r->plug.max_recvs);
		return false;
	}
	if (perf_world_leads(w, r->rank)) {
		snprintf(w->plugin_name, sizeof(w->plugin_name), "%s",
			 r->plug.name);
		snprintf(w->dev_name, sizeof(w->dev_name), "%s",
			 r->plug.dev_name);
		w->devices = r->plug.devices;
		w->abi = r->plug.abi;
		w->speed = r->plug.speed;
		w->max_recvs = r->plug.max_recvs;
	}
	return true;
}

/* Whether a steady run continues. Rank 0 decides for all ranks: a rank that
 * continued alone would wait for ever. */
static bool goes_on(struct perf_rank *r, double begun)
{
	struct perf_world *w = r->w;

	/* Nodes without rank 0 learn it from the hub. */
	if (r->rank == 0)
		atomic_store(&w->more, !atomic_load(&w->enough) &&
					       perf_now() - begun <
						       w->opt.steady_seconds);
	return perf_world_barrier(w) && atomic_load(&w->more);
}

/* With several hosts the hub decides. */
static void tell(struct perf_rank *r)
{
	int row = atomic_load(&r->w->row);
	struct perf_sums sums;

	if (r->rank != 0 || r->w->node >= 0)
		return;
	perf_world_sums(r->w, row, &sums);
	perf_report_progress(r->w, row, &sums);
}

/* Run iters iterations. With checking they are cut into batches that fit into
 * the buffers; without, they are one batch. */
static bool run_iters(struct perf_rank *r, struct perf_batch *b, uint64_t iters,
		      struct perf_result *res)
{
	uint64_t most = r->w->opt.check && !perf_checks_within(&r->w->opt)
				? perf_pattern_iters(r, b->size)
				: iters;

	for (; iters; iters -= b->iters, b->first += b->iters) {
		b->iters = iters < most ? iters : most;
		if (!perf_pattern_run(r, b, res))
			return false;
		if (!b->timed)
			continue;
		res->iters += b->iters;
		tell(r);
	}
	return true;
}

static bool one_row(struct perf_rank *r, int row)
{
	const struct perf_options *opt = &r->w->opt;
	struct perf_result *res = perf_world_result(r->w, row, r->rank);
	struct perf_batch b = { .size = r->w->size[row],
				.key = perf_key(opt->seed, (unsigned)row) };
	uint64_t iters = opt->steady_count ? opt->steady_count : opt->iters;
	double begun;

	if (opt->random_sizes)
		iters = 1;
	else if (!perf_is_steady(opt) && !run_iters(r, &b, opt->warmup, res))
		return false;
	/* Run as many iterations at a time as fit in a batch. */
	if (opt->steady_seconds > 0 && opt->check && !perf_checks_within(opt))
		iters = perf_pattern_iters(r, b.size);
	b.timed = true;
	begun = perf_now();
	do {
		if (!run_iters(r, &b, iters, res))
			return false;
	} while (opt->steady_seconds > 0 && goes_on(r, begun));
	return true;
}

static void *progress(void *arg)
{
	struct perf_rank *r = arg;

	for (int row = 0; row < r->w->rows; row++) {
		/* All ranks store the same. */
		atomic_store(&r->w->row, row);
		if (!one_row(r, row))
			return NULL;
		atomic_store(&r->w->ended, row + 1);
		if (!perf_world_barrier(r->w))
			return NULL;
		if (r->rank == 0 && r->w->node < 0)
			perf_report_row(r->w, row);
	}
	return r;
}

/* Until the Progress thread ends, register and deregister unused memory from
 * this thread, as NCCL's Service thread may. */
static void churn(struct perf_rank *r, pthread_t thread, void **out)
{
	static char mem[65536];
	void *mh;

	while (pthread_tryjoin_np(thread, out)) {
		if (!perf_rank_check(r, "regMr",
				     perf_plug_reg(&r->plug, r->stream[0].comm,
						   mem, sizeof(mem), &mh)) ||
		    !perf_rank_check(
			    r, "deregMr",
			    perf_plug_dereg(&r->plug, r->stream[0].comm, mh)))
			break;
		usleep(1000);
	}
}

static bool run_rows(struct perf_rank *r)
{
	pthread_t thread;
	void *out = NULL;

	if (pthread_create(&thread, NULL, progress, r)) {
		perf_world_fail(
			r->w, r->rank,
			"no Progress thread (raise the limit on threads)");
		return false;
	}
	if (r->w->opt.churn && r->nsend)
		churn(r, thread, &out);
	else
		pthread_join(thread, &out);
	return out != NULL;
}

static bool close_all(struct perf_rank *r)
{
	bool ok = perf_world_barrier(r->w);

	for (int i = 0; ok && i < r->nsend + r->nrecv; i++) {
		struct perf_stream *s = &r->stream[i];

		ok = perf_rank_check(
			     r, "deregMr",
			     perf_plug_dereg(&r->plug, s->comm, s->mh)) &&
		     perf_rank_check(
			     r, s->sends ? "closeSend" : "closeRecv",
			     s->sends
				     ? perf_plug_close_send(&r->plug, s->comm)
				     : perf_plug_close_recv(&r->plug, s->comm));
	}
	return ok &&
	       perf_rank_check(r, "finalize", perf_plug_finalize(&r->plug));
}

int perf_rank_main(struct perf_world *w, int rank)
{
	struct perf_rank r = { .w = w, .rank = rank };
	bool ok;

	if (w->opt.pin && !pin(&w->opt, rank))
		return 1;
	verbose = w->opt.verbose;
	set_environment(&w->opt, rank);
	ok = start_plugin(&r) && perf_rank_connect(&r) &&
	     perf_rank_register(&r) && perf_world_barrier(w);
	if (ok && rank == 0 && w->node < 0)
		perf_report_header(w);
	ok = ok && run_rows(&r) && close_all(&r);
	for (int i = 0; i < r.nsend + r.nrecv; i++)
		free(r.stream[i].size);
	free(r.stream);
	return ok ? 0 : 1;
}
