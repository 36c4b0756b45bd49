/* SPDX-License-Identifier: Apache-2.0 */
/* bench-many: options, starting the processes, and printing the results. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "many/many.h"
#include "peers/args.h"
#include "peers/peer.h"
#include "perf/proxy.h"

static const char usage[] =
	"Usage: bench-many --send DIR --recv DIR [OPTION]...\n"
	"Connections between processes of two nodes (or of one), each "
	"streaming\n"
	"on its own for the same time. What arrives is not looked at:\n"
	"mpib-perf does.\n"
	"\n"
	"  --procs N       processes on either side (1)\n"
	"  --conns N       busy connections of each (1); 0: only attached\n"
	"  --idle N        idle connections of each, beside them (0)\n"
	"  --size S        bytes of a message (64K)\n"
	"  --inflight N    messages under way on a connection, 1..32 (8)\n"
	"  --seconds S     how long (2)\n"
	"  --memory M      shared (mpib_mem_alloc) or private (shared)\n"
	"\n"
	"Prints lines \"metric value\": bw (GB/s), messages (1/s), cpu (s/GB)\n"
	"and cpu_us (us per message) of processes and proxies,\n"
	"jain_conns and jain_procs (Jain's index of fairness), lat_p50..\n"
	"(us from isend to completion),\n"
	"connect (s until the slowest process had all its connections),\n"
	"proxy_core (cores' worth of both proxies), proxy_us (us per message),\n"
	"proxy_rss (bytes of both, when all are connected).\n";

enum {
	OPT_SEND = 1,
	OPT_RECV,
	OPT_PROCS,
	OPT_CONNS,
	OPT_IDLE,
	OPT_SIZE,
	OPT_INFLIGHT,
	OPT_SECONDS,
	OPT_MEMORY,
	OPT_HELP,
	OPT_VERSION
};

static const struct option options[] = {
	{ "send", required_argument, NULL, OPT_SEND },
	{ "recv", required_argument, NULL, OPT_RECV },
	{ "procs", required_argument, NULL, OPT_PROCS },
	{ "conns", required_argument, NULL, OPT_CONNS },
	{ "idle", required_argument, NULL, OPT_IDLE },
	{ "size", required_argument, NULL, OPT_SIZE },
	{ "inflight", required_argument, NULL, OPT_INFLIGHT },
	{ "seconds", required_argument, NULL, OPT_SECONDS },
	{ "memory", required_argument, NULL, OPT_MEMORY },
	{ "help", no_argument, NULL, OPT_HELP },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static pid_t child[2 * MANY_PROCS_MAX];

static unsigned number(const char *name, const char *text, uint64_t max)
{
	return (unsigned)peer_size(name, text, 0, max);
}

static void set(struct many_options *o, int opt, const char *arg)
{
	switch (opt) {
	case OPT_SEND:
		o->dir[0] = arg;
		break;
	case OPT_RECV:
		o->dir[1] = arg;
		break;
	case OPT_PROCS:
		o->procs = number("--procs", arg, MANY_PROCS_MAX);
		break;
	case OPT_CONNS:
		o->conns = number("--conns", arg, MANY_CONNS_MAX);
		break;
	case OPT_IDLE:
		o->idle = number("--idle", arg, MANY_CONNS_MAX);
		break;
	case OPT_SIZE:
		o->size = peer_size("--size", arg, 0, UINT32_MAX / 2);
		break;
	case OPT_INFLIGHT:
		o->inflight = number("--inflight", arg, MANY_INFLIGHT_MAX);
		break;
	case OPT_SECONDS:
		o->seconds = peer_number("--seconds", arg);
		break;
	default:
		o->shared = !strcmp(arg, "shared");
		if (!o->shared && strcmp(arg, "private"))
			peer_die("--memory %s: shared or private", arg);
	}
}

static struct many_options parse(int argc, char **argv)
{
	struct many_options o = { .procs = 1,
				  .conns = 1,
				  .inflight = 8,
				  .size = 64 << 10,
				  .seconds = 2,
				  .shared = true };
	int opt;

	opterr = 0;
	while ((opt = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (opt == OPT_HELP || opt == 'h') {
			fputs(usage, stdout);
			exit(0);
		}
		if (opt == OPT_VERSION)
			peer_version();
		if (opt == '?')
			peer_wrong("%s is no option, or lacks its value",
				   argv[optind - 1]);
		set(&o, opt, optarg);
	}
	if (!o.dir[0] || !o.dir[1] || o.procs == 0 || o.inflight == 0 ||
	    o.conns + o.idle > MANY_CONNS_MAX)
		peer_wrong("--send, --recv and sensible numbers are needed");
	return o;
}

static void start_all(struct many_world *w)
{
	pid_t parent = getpid();

	for (unsigned i = 0; i < 2 * w->opt.procs; i++) {
		child[i] = fork();
		if (child[i] < 0)
			peer_die("fork: %s", strerror(errno));
		if (child[i])
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		many_run(w, i / 2, (int)(i % 2));
		exit(0);
	}
}

/* Reap a child; true if there was one. Ends the program, and by that all other
 * children, if the child failed. */
static bool one_ended(int flags)
{
	int status;
	pid_t pid = waitpid(-1, &status, flags);

	if (pid > 0 && status)
		peer_die("process %d failed (status %#x)", (int)pid, status);
	return pid > 0;
}

static double jain(const double *x, unsigned n)
{
	double sum = 0, squares = 0;

	for (unsigned i = 0; i < n; i++) {
		sum += x[i];
		squares += x[i] * x[i];
	}
	return squares > 0 ? sum * sum / (n * squares) : 0;
}

/* The sum of what() over the proxies of both sides, counted once if both sides
 * have the same proxy. */
static double of_proxies(const struct many_options *o,
			 double (*what)(const char *run_dir))
{
	double sum = what(o->dir[0]);

	if (strcmp(o->dir[0], o->dir[1]))
		sum += what(o->dir[1]);
	return sum;
}

struct totals {
	double rank_cpu, proxy_cpu, rss, messages, slowest;
};

static void report_work(const struct many_world *w, const struct totals *t)
{
	static double conn[MANY_PROCS_MAX * MANY_CONNS_MAX];
	static struct perf_hist all;
	double proc[MANY_PROCS_MAX] = { 0 }, cpu = t->rank_cpu + t->proxy_cpu;
	double gb = t->messages * (double)w->opt.size / 1e9;
	unsigned n = 0;

	for (unsigned i = 0; i < w->opt.procs; i++) {
		perf_hist_merge(&all, &w->proc[i].hist);
		for (unsigned c = 0; c < w->opt.conns; c++) {
			conn[n++] = (double)w->proc[i].messages[c];
			proc[i] += (double)w->proc[i].messages[c];
		}
	}
	peer_say("bw", gb / w->opt.seconds);
	peer_say("messages", t->messages / w->opt.seconds);
	if (gb > 0)
		peer_say("cpu", cpu / gb);
	peer_say("cpu_us", cpu / t->messages * 1e6);
	peer_say("proxy_us", t->proxy_cpu / t->messages * 1e6);
	peer_say("jain_conns", jain(conn, n));
	peer_say("jain_procs", jain(proc, w->opt.procs));
	peer_say_latency(&all);
}

static void report(const struct many_world *w, struct totals *t)
{
	for (unsigned i = 0; i < w->opt.procs; i++) {
		const struct many_proc *p = &w->proc[i];

		t->rank_cpu += p->cpu[0] + p->cpu[1];
		if (p->connected > t->slowest)
			t->slowest = p->connected;
		for (unsigned c = 0; c < w->opt.conns; c++)
			t->messages += (double)p->messages[c];
	}
	peer_say("connect", t->slowest);
	peer_say("proxy_core", t->proxy_cpu / w->opt.seconds);
	peer_say("proxy_rss", t->rss);
	if (t->messages > 0)
		report_work(w, t);
}

int main(int argc, char **argv)
{
	struct totals totals = { 0 };
	struct many_options o;
	struct many_world *w;

	o = parse(argc, argv);
	w = peer_shared(sizeof(*w) + o.procs * sizeof(w->proc[0]));
	w->opt = o;
	for (unsigned i = 0; i < o.procs; i++)
		atomic_store(&w->proc[i].sending, 1);
	start_all(w);
	while (atomic_load(&w->arrived) < 2 * o.procs) {
		if (one_ended(WNOHANG))
			peer_die("a process ended early");
		usleep(1000);
	}
	totals.rss = of_proxies(&o, perf_proxy_resident);
	totals.proxy_cpu = -of_proxies(&o, perf_proxy_seconds);
	atomic_store(&w->go, 1);
	usleep((useconds_t)(o.seconds * 1e6));
	totals.proxy_cpu += of_proxies(&o, perf_proxy_seconds);
	for (unsigned i = 0; i < 2 * o.procs; i++)
		one_ended(0);
	report(w, &totals);
	return 0;
}
