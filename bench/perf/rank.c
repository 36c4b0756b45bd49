/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks of this host. Each is a process. The main thread of a rank acts as
 * NCCL's Service thread, which connects, registers and closes. A second thread
 * acts as NCCL's Progress thread and runs the rows.
 */
#include "perf/rank.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/data.h"
#include "perf/pattern.h"
#include "perf/pin.h"
#include "perf/report.h"

/* Return whether `res` is success. If `res` is an error, report that `call`
 * failed. */
static bool succeeded(struct perf_rank *r, const char *call,
		      enum nccl_result res)
{
	if (res == NCCL_SUCCESS)
		return true;
	perf_world_fail(r->w, r->rank, "%s: %s (%d; its WARN line says more)",
			call, perf_result_name(res), (int)res);
	return false;
}

/* Return the device for a connection of the rank. */
static int device_of(const struct perf_rank *r, int peer, int channel)
{
	const struct perf_options *opt = &r->w->opt;
	int near = opt->place + perf_rank_local(opt, r->rank);

	if (opt->dev >= 0)
		return opt->dev;
	if (opt->dev == PERF_DEV_ALL)
		near += peer + channel;
	return near % (r->plug.devices > 0 ? r->plug.devices : 1);
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
			s->depth = (unsigned)opt->inflight;
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

		if (!succeeded(
			    r, "listen",
			    perf_plug_listen(&r->plug,
					     device_of(r, s->peer, s->channel),
					     h->bytes, &lcomm[i])))
			return false;
		/* Release, pairs with the acquire in connect_one(). */
		atomic_store_explicit(&h->ready, 1, memory_order_release);
	}
	return true;
}

/* A copy of a handle at the rank that connects. NCCL keeps such a copy, too. */
struct copy {
	bool here;
	char bytes[NCCL_NET_HANDLE_MAXSIZE];
};

static bool connect_one(struct perf_rank *r, struct perf_stream *s,
			struct copy *copy)
{
	struct perf_handle *h =
		perf_world_handle(r->w, s->peer, r->rank, s->channel);

	if (!atomic_load_explicit(&h->ready, memory_order_acquire))
		return true;
	/* Keep the copy: NCCL passes the same copy to each call of connect, so
	 * a plugin may keep its state in it. */
	if (!copy->here)
		memcpy(copy->bytes, h->bytes, sizeof(h->bytes));
	copy->here = true;
	return succeeded(r, "connect",
			 perf_plug_connect(&r->plug,
					   device_of(r, s->peer, s->channel),
					   copy->bytes, &s->comm));
}

static bool accept_one(struct perf_rank *r, struct perf_stream *s, void **lcomm)
{
	if (!succeeded(r, "accept",
		       perf_plug_accept(&r->plug, *lcomm, &s->comm)))
		return false;
	if (!s->comm)
		return true;
	return succeeded(r, "closeListen",
			 perf_plug_close_listen(&r->plug, *lcomm));
}

/* Call connect or accept of each pending connection again and again until all
 * are connected, like NCCL's Service thread. */
static bool connect_all(struct perf_rank *r, void **lcomm)
{
	struct copy *copy = calloc((size_t)r->nsend + 1, sizeof(*copy));
	double begun = perf_now();
	int left = r->nsend + r->nrecv;
	bool ok = copy != NULL;

	while (ok && left > 0) {
		left = 0;
		for (int i = 0; ok && i < r->nsend + r->nrecv; i++) {
			struct perf_stream *s = &r->stream[i];

			if (s->comm)
				continue;
			ok = s->sends ? connect_one(r, s, &copy[i])
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
	free(copy);
	return ok;
}

/* Create the rank's streams and connect all of them. The caller frees the list
 * of streams. */
static bool connect_rank(struct perf_rank *r)
{
	size_t most = 2 * (size_t)r->w->opt.nranks * (size_t)r->w->opt.channels;
	void **lcomm = calloc(most, sizeof(*lcomm));
	bool ok;

	r->stream = calloc(most, sizeof(*r->stream));
	if (!lcomm || !r->stream) {
		perf_world_fail(
			r->w, r->rank,
			"no memory for connections (give fewer --channels)");
		free(lcomm);
		return false;
	}
	add_streams(r, true);
	add_streams(r, false);
	ok = listen_all(r, lcomm);
	/* At this barrier the hub also sends the handles of the other nodes. */
	if (ok && r->w->node >= 0)
		ok = perf_world_barrier(r->w);
	ok = ok && connect_all(r, lcomm);
	free(lcomm);
	return ok;
}

/* Map a new buffer. On an error, set errno and return MAP_FAILED. Sets *fd to
 * the memfd, or to -1 for private memory. */
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

/* Allocate and register a buffer for each stream. */
static bool register_rank(struct perf_rank *r)
{
	for (int i = 0; i < r->nsend + r->nrecv; i++) {
		struct perf_stream *s = &r->stream[i];
		int fd;

		s->mem_len = perf_pattern_memory(&r->w->opt, s->sends,
						 r->nsend + r->nrecv);
		s->mem = buffer_new(&r->w->opt, s->mem_len, &fd);
		if (s->mem == MAP_FAILED) {
			perf_world_fail(
				r->w, r->rank,
				"no memory for buffers (give a smaller --max)");
			return false;
		}
		/* Poison the buffer, so that a missing message is not mistaken
		 * for a message of zeros. */
		memset(s->mem, PERF_POISON, s->mem_len);
		if (!succeeded(r, fd < 0 ? "regMr" : "regMrDmaBuf",
			       reg(r, s, fd)))
			return false;
	}
	return true;
}

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
	/* With several hosts, only the nodes of this host share its CPUs. There
	 * can be several, since a launcher makes each rank a node. */
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

static bool start_plugin(struct perf_rank *r)
{
	struct perf_world *w = r->w;

	if (perf_plug_load(&r->plug, w->opt.plugin, w->opt.abi) < 0) {
		perf_world_fail(w, r->rank, "%s", perf_bad_said());
		return false;
	}
	if (!succeeded(r, "init", perf_plug_init(&r->plug, log_line)) ||
	    !succeeded(r, "getProperties",
		       perf_plug_properties(&r->plug, device_of(r, 0, 0))))
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

/* Return whether a steady run continues. Rank 0 decides for all ranks: a rank
 * that continued while the others stopped would wait forever. */
static bool goes_on(struct perf_rank *r, double begun)
{
	struct perf_world *w = r->w;

	/* Other nodes get the decision from the hub. */
	if (r->rank == 0)
		atomic_store(&w->more, !atomic_load(&w->enough) &&
					       perf_now() - begun <
						       w->opt.steady_seconds);
	return perf_world_barrier(w) && atomic_load(&w->more);
}

/* Report the progress of a run on this host. With several hosts, the hub
 * reports the progress. */
static void tell(struct perf_rank *r)
{
	int row = atomic_load(&r->w->row);
	struct perf_sums sums;

	if (r->rank != 0 || r->w->node >= 0)
		return;
	perf_world_sums(r->w, row, &sums);
	perf_report_progress(r->w, row, &sums);
}

/* Run iters iterations. If data is checked after each batch, cut them into
 * batches that fit into the buffers; otherwise run them as one batch. */
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
	/* Between two checks of the time, run as many iterations as fit in a
	 * batch. */
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
		/* All ranks store the same value. */
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

/* Until the Progress thread ends, repeatedly register and deregister unused
 * memory on this thread. NCCL's Service thread may register memory during
 * traffic, too. */
static void churn(struct perf_rank *r, pthread_t thread, void **out)
{
	static char mem[65536];
	void *mh;

	while (pthread_tryjoin_np(thread, out)) {
		if (!succeeded(r, "regMr",
			       perf_plug_reg(&r->plug, r->stream[0].comm, mem,
					     sizeof(mem), &mh)) ||
		    !succeeded(
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

		ok = succeeded(r, "deregMr",
			       perf_plug_dereg(&r->plug, s->comm, s->mh)) &&
		     succeeded(
			     r, s->sends ? "closeSend" : "closeRecv",
			     s->sends
				     ? perf_plug_close_send(&r->plug, s->comm)
				     : perf_plug_close_recv(&r->plug, s->comm));
	}
	return ok && succeeded(r, "finalize", perf_plug_finalize(&r->plug));
}

/* Run a forked rank. Return its exit status. */
static int rank_main(struct perf_world *w, int rank)
{
	struct perf_rank r = { .w = w, .rank = rank };
	bool ok;

	if (w->opt.pin && !pin(&w->opt, rank))
		return 1;
	verbose = w->opt.verbose;
	set_environment(&w->opt, rank);
	ok = start_plugin(&r) && connect_rank(&r) && register_rank(&r) &&
	     perf_world_barrier(w);
	if (ok && rank == 0 && w->node < 0)
		perf_report_header(w);
	ok = ok && run_rows(&r) && close_all(&r);
	for (int i = 0; i < r.nsend + r.nrecv; i++)
		free(r.stream[i].size);
	free(r.stream);
	return ok ? 0 : 1;
}

static struct {
	pid_t pid; /* 0: it ended */
	int rank;
} child[PERF_RANKS_MAX];
static int children;

int perf_ranks_start(struct perf_world *w)
{
	pid_t parent = getpid();

	/* Flush now: otherwise each forked rank would print the buffered text
	 * again. */
	fflush(stdout);
	children = 0;
	for (int i = 0; i < w->opt.nranks; i++) {
		pid_t pid;

		if (w->node >= 0 && perf_rank_node(&w->opt, i) != w->node)
			continue;
		pid = fork();
		if (pid < 0)
			return perf_bad(
				"rank %d: it does not start: %s (run fewer)", i,
				strerror(errno));
		if (pid == 0) {
			/* The kernel ends this rank if the parent ends. */
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() != parent)
				_exit(1);
			signal(SIGINT, SIG_IGN);
			exit(rank_main(w, i));
		}
		child[children].rank = i;
		child[children++].pid = pid;
	}
	return 0;
}

void perf_ranks_kill(void)
{
	for (int i = 0; i < children; i++) {
		if (child[i].pid)
			kill(child[i].pid, SIGKILL);
	}
}

/* Return the rank whose process `pid` has ended, and forget the pid. -1: no
 * rank has this pid. */
static int ended(pid_t pid)
{
	for (int i = 0; i < children; i++) {
		if (child[i].pid != pid)
			continue;
		child[i].pid = 0;
		return child[i].rank;
	}
	return -1;
}

static int still_run(void)
{
	int n = 0;

	for (int i = 0; i < children; i++)
		n += child[i].pid != 0;
	return n;
}

int perf_ranks_reap(struct perf_world *w, bool all)
{
	int status, rank;
	pid_t pid;

	while (still_run() > 0) {
		pid = waitpid(-1, &status, all ? 0 : WNOHANG);
		if (pid < 0 && errno == EINTR)
			continue;
		if (pid <= 0)
			break;
		rank = ended(pid);
		if (rank < 0 || (WIFEXITED(status) && !WEXITSTATUS(status)))
			continue;
		if (WIFSIGNALED(status))
			perf_world_fail(w, rank, "died of signal %d (%s)",
					WTERMSIG(status),
					strsignal(WTERMSIG(status)));
		else
			perf_world_fail(w, rank,
					"it gave up (its last line says why)");
	}
	return still_run();
}
