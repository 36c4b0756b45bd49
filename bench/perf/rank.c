/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank: the main thread is NCCL's Service thread and makes, registers and
 * closes connections; the rows run on a Progress thread beside it.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "perf/data.h"
#include "perf/pattern.h"
#include "perf/pin.h"

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

static bool check(struct perf_rank *r, const char *call, enum nccl_result res)
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
	int rc = perf_pin(perf_rank_node(opt, rank) * opt->ranks_per_node +
				  perf_rank_local(opt, rank),
			  opt->nranks);

	if (rc < 0)
		perf_bad("--pin: rank %d: %s", rank, strerror(-rc));
	return rc == 0;
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
	if (!check(r, "init", perf_plug_init(&r->plug, w->opt.dev, log_line)))
		return false;
	if (w->opt.group > r->plug.max_recvs) {
		perf_world_fail(
			w, r->rank,
			"--group %d: the plugin takes fewer (give at most %d)",
			w->opt.group, r->plug.max_recvs);
		return false;
	}
	if (r->rank == 0) {
		snprintf(w->plugin_name, sizeof(w->plugin_name), "%s",
			 r->plug.name);
		snprintf(w->dev_name, sizeof(w->dev_name), "%s",
			 r->plug.dev_name);
		w->abi = r->plug.abi;
		w->speed = r->plug.speed;
		w->max_recvs = r->plug.max_recvs;
	}
	return true;
}

static void add_streams(struct perf_rank *r, bool sends)
{
	const struct perf_options *opt = &r->w->opt;
	int peer[PERF_RANKS_MAX];
	int n = perf_pattern_peers(opt, r->rank, sends, peer);

	for (int i = 0; i < n; i++) {
		for (int c = 0; c < opt->channels; c++) {
			struct perf_stream *s = &r->stream[r->nsend + r->nrecv];

			s->plug = &r->plug;
			s->sends = sends;
			s->self = r->rank;
			s->peer = peer[i];
			s->channel = c;
			s->group = opt->group;
			s->early = opt->early_completion;
			*(sends ? &r->nsend : &r->nrecv) += 1;
		}
	}
}

static bool listen_all(struct perf_rank *r, void **lcomm)
{
	for (int i = 0; i < r->nrecv; i++) {
		struct perf_stream *s = &r->stream[r->nsend + i];
		struct perf_handle *h =
			perf_world_handle(r->w, r->rank, s->peer, s->channel);

		if (!check(r, "listen",
			   perf_plug_listen(&r->plug, r->w->opt.dev, h->bytes,
					    &lcomm[i])))
			return false;
		/* Release pairs with the acquire of who connects. */
		atomic_store_explicit(&h->ready, 1, memory_order_release);
	}
	return true;
}

static bool connect_one(struct perf_rank *r, struct perf_stream *s,
			char *handle)
{
	struct perf_handle *h =
		perf_world_handle(r->w, s->peer, r->rank, s->channel);

	if (!atomic_load_explicit(&h->ready, memory_order_acquire))
		return true;
	/* NCCL passes the same memory each time, a copy of what was sent. */
	if (!*handle)
		memcpy(handle, h->bytes, sizeof(h->bytes));
	return check(
		r, "connect",
		perf_plug_connect(&r->plug, r->w->opt.dev, handle, &s->comm));
}

static bool accept_one(struct perf_rank *r, struct perf_stream *s, void **lcomm)
{
	if (!check(r, "accept", perf_plug_accept(&r->plug, *lcomm, &s->comm)))
		return false;
	if (!s->comm)
		return true;
	return check(r, "closeListen",
		     perf_plug_close_listen(&r->plug, *lcomm));
}

/* As the Service thread does: each pending one again and again. */
static bool connect_all(struct perf_rank *r, void **lcomm)
{
	char(*handle)[NCCL_NET_HANDLE_MAXSIZE] =
		calloc((size_t)r->nsend + 1, sizeof(*handle));
	double begun = perf_now();
	int left = r->nsend + r->nrecv;
	bool ok = handle != NULL;

	while (ok && left > 0) {
		left = 0;
		for (int i = 0; ok && i < r->nsend + r->nrecv; i++) {
			struct perf_stream *s = &r->stream[i];

			if (s->comm)
				continue;
			ok = s->sends ? connect_one(r, s, handle[i])
				      : accept_one(r, s, &lcomm[i - r->nsend]);
			left += !s->comm;
		}
		if (left)
			sched_yield();
		if (perf_world_failed(r->w))
			ok = false;
		if (ok && perf_now() - begun > r->w->opt.timeout) {
			perf_world_fail(
				r->w, r->rank,
				"%d connections are still pending "
				"after %.0f s (mpibctl stuck names them)",
				left, r->w->opt.timeout);
			ok = false;
		}
	}
	free(handle);
	return ok;
}

/* NULL with errno set. *fd is -1 for private memory. */
static void *buffer_new(const struct perf_options *opt, size_t len, int *fd)
{
	void *mem;

	*fd = -1;
	if (!opt->sealed)
		return mmap(NULL, len, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	*fd = memfd_create("mpib-perf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd < 0)
		return MAP_FAILED;
	if (ftruncate(*fd, (off_t)len) < 0 ||
	    fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) <
		    0)
		mem = MAP_FAILED;
	else
		mem = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, *fd,
			   0);
	if (mem == MAP_FAILED)
		close(*fd);
	return mem;
}

static enum nccl_result reg(struct perf_rank *r, struct perf_stream *s, int fd)
{
	enum nccl_result res;

	if (fd < 0)
		return perf_plug_reg(&r->plug, s->comm, s->mem, s->mem_len,
				     &s->mh);
	res = perf_plug_reg_fd(&r->plug, s->comm, s->mem, s->mem_len, fd,
			       &s->mh);
	close(fd);
	return res;
}

static bool register_all(struct perf_rank *r)
{
	for (int i = 0; i < r->nsend + r->nrecv; i++) {
		struct perf_stream *s = &r->stream[i];
		int fd;

		s->mem_len = perf_pattern_memory(&r->w->opt, s->sends);
		s->mem = buffer_new(&r->w->opt, s->mem_len, &fd);
		if (s->mem == MAP_FAILED) {
			perf_world_fail(
				r->w, r->rank,
				"no memory for buffers (give a smaller --max)");
			return false;
		}
		/* A receive that never came must not look like zeros. */
		memset(s->mem, PERF_POISON, s->mem_len);
		if (!check(r, fd < 0 ? "regMr" : "regMrDmaBuf", reg(r, s, fd)))
			return false;
	}
	return true;
}

static bool one_row(struct perf_rank *r, int row)
{
	const struct perf_options *opt = &r->w->opt;
	struct perf_result *res = perf_world_result(r->w, row, r->rank);
	uint64_t size = r->w->size[row], iters = opt->iters;
	uint64_t round = (uint64_t)row * 4;
	double cpu, proxies, begun;

	if (opt->warmup && !perf_is_steady(opt) && !opt->random_sizes &&
	    !perf_pattern_run(r, size, opt->warmup, false, round, res))
		return false;
	if (opt->check && !opt->random_sizes &&
	    !perf_pattern_run(r, size, 1, true, round + 1, res))
		return false;
	if (opt->steady_count)
		iters = opt->steady_count;
	memset(&res->hist, 0, sizeof(res->hist));
	res->sent = 0;
	if (!perf_world_barrier(r->w))
		return false;
	proxies = r->rank == 0 ? perf_proxy_cpu(opt) : 0;
	cpu = perf_cpu();
	begun = perf_now();
	do {
		if (!perf_pattern_run(r, size, iters, false, round + 2, res))
			return false;
	} while (opt->steady_seconds > 0 &&
		 perf_now() - begun < opt->steady_seconds);
	res->seconds = perf_now() - begun;
	res->cpu = perf_cpu() - cpu;
	if (!perf_world_barrier(r->w))
		return false;
	if (r->rank == 0)
		r->w->proxy_cpu[row] =
			proxies < 0 ? -1 : perf_proxy_cpu(opt) - proxies;
	return !opt->check || opt->random_sizes ||
	       perf_pattern_run(r, size, 1, true, round + 3, res);
}

static void *progress(void *arg)
{
	struct perf_rank *r = arg;

	for (int row = 0; row < r->w->rows; row++) {
		if (!one_row(r, row) || !perf_world_barrier(r->w))
			return NULL;
		if (r->rank == 0)
			perf_report_row(r->w, row);
	}
	return r;
}

/* While data flows: memory that nobody uses comes and goes. */
static void churn(struct perf_rank *r, pthread_t thread, void **out)
{
	static char mem[65536];
	void *mh;

	while (pthread_tryjoin_np(thread, out)) {
		if (!check(r, "regMr",
			   perf_plug_reg(&r->plug, r->stream[0].comm, mem,
					 sizeof(mem), &mh)) ||
		    !check(r, "deregMr",
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

		ok = check(r, "deregMr",
			   perf_plug_dereg(&r->plug, s->comm, s->mh)) &&
		     check(r, s->sends ? "closeSend" : "closeRecv",
			   s->sends ? perf_plug_close_send(&r->plug, s->comm)
				    : perf_plug_close_recv(&r->plug, s->comm));
	}
	return ok && check(r, "finalize", perf_plug_finalize(&r->plug));
}

int perf_rank_main(struct perf_world *w, int rank)
{
	struct perf_rank r = { .w = w, .rank = rank };
	size_t most = 2 * (size_t)w->opt.nranks * (size_t)w->opt.channels;
	void **lcomm;
	bool ok;

	if (w->opt.pin && !pin(&w->opt, rank))
		return 1;
	lcomm = calloc(most, sizeof(*lcomm));
	r.stream = calloc(most, sizeof(*r.stream));
	if (!lcomm || !r.stream) {
		perf_world_fail(
			w, rank,
			"no memory for connections (give fewer --channels)");
		free(lcomm);
		free(r.stream);
		return 1;
	}
	verbose = w->opt.verbose;
	set_environment(&w->opt, rank);
	add_streams(&r, true);
	add_streams(&r, false);
	ok = start_plugin(&r) && listen_all(&r, lcomm) &&
	     connect_all(&r, lcomm) && register_all(&r) &&
	     perf_world_barrier(w);
	if (ok && rank == 0)
		perf_report_header(w);
	ok = ok && run_rows(&r) && close_all(&r);
	free(lcomm);
	free(r.stream);
	return ok ? 0 : 1;
}
