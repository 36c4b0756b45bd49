/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "peers/args.h"

static const char usage[] =
	"Usage: nccl-check --nodes DIR,DIR [OPTION]...\n"
	"Runs NCCL collectives between two ranks on one GPU over the plugin "
	"and\n"
	"compares all data.\n"
	"\n"
	"  --nodes DIR,DIR   run directories of the two proxies\n"
	"  --tests T,T...    allreduce allgather sendrecv alltoall recreate "
	"abort\n"
	"  --algo A          ring or tree, of all-reduce (ring)\n"
	"  --proto P         simple, ll or ll128 (simple)\n"
	"  --plugin NAME     NCCL_NET_PLUGIN: a name or a path (mpib)\n"
	"  --max BYTES       largest message (16777216)\n"
	"  --timeout S       that a wait may take (60)\n"
	"  --gpus N          deal the ranks out over N GPUs (1)\n"
	"  --probe           say which GPU and versions there are\n"
	"  --help, --version\n"
	"\n"
	"Exit status: 0 all right, 1 not, 2 usage, 77 no GPU here.\n";

enum {
	OPT_TESTS = 1,
	OPT_ALGO,
	OPT_PROTO,
	OPT_PLUGIN,
	OPT_NODES,
	OPT_MAX,
	OPT_TIMEOUT,
	OPT_GPUS,
	OPT_PROBE,
	OPT_HELP,
	OPT_VERSION
};

static const struct option options[] = {
	{ "tests", required_argument, NULL, OPT_TESTS },
	{ "algo", required_argument, NULL, OPT_ALGO },
	{ "proto", required_argument, NULL, OPT_PROTO },
	{ "plugin", required_argument, NULL, OPT_PLUGIN },
	{ "nodes", required_argument, NULL, OPT_NODES },
	{ "max", required_argument, NULL, OPT_MAX },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "gpus", required_argument, NULL, OPT_GPUS },
	{ "probe", no_argument, NULL, OPT_PROBE },
	{ "help", no_argument, NULL, OPT_HELP },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static bool one_of(const char *text, const char *const *list)
{
	while (*list && strcmp(*list, text))
		list++;
	return *list != NULL;
}

/* Exits where it is not. */
static void sensible(const struct check_options *o)
{
	static const char *const algos[] = { "ring", "tree", NULL };
	static const char *const protos[] = { "simple", "ll", "ll128", NULL };

	if (!one_of(o->algo, algos))
		peer_wrong("--algo %s is neither ring nor tree", o->algo);
	if (!one_of(o->proto, protos))
		peer_wrong("--proto %s is none of simple, ll, ll128", o->proto);
	if (!o->node[0] || !o->node[1])
		peer_wrong("--nodes wants two directories");
	if (o->max < 4 || o->timeout == 0 || o->gpus < 1)
		peer_wrong("--max, --timeout and --gpus are positive numbers");
}

static void set(struct check_options *o, int opt, char *arg, bool *probe)
{
	switch (opt) {
	case OPT_TESTS:
		o->tests = arg;
		break;
	case OPT_ALGO:
		o->algo = arg;
		break;
	case OPT_PROTO:
		o->proto = arg;
		break;
	case OPT_PLUGIN:
		o->plugin = arg;
		break;
	case OPT_NODES:
		o->node[0] = strsep(&arg, ",");
		o->node[1] = arg;
		break;
	case OPT_MAX:
		o->max = strtoull(arg, NULL, 0);
		break;
	case OPT_TIMEOUT:
		o->timeout = (unsigned)strtoul(arg, NULL, 10);
		break;
	case OPT_GPUS:
		o->gpus = atoi(arg);
		break;
	default:
		*probe = true;
	}
}

/* True: only what is here is wanted. Exits where the line cannot be used. */
static bool parse(struct check_options *o, int argc, char **argv)
{
	bool only_probe = false;
	int opt;

	*o = (struct check_options){
		.tests = "allreduce,allgather,sendrecv,alltoall,recreate,abort",
		.algo = "ring",
		.proto = "simple",
		.plugin = "mpib",
		.max = 16u << 20,
		.timeout = 60,
		.gpus = 1,
	};
	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		if (opt == OPT_HELP || opt == 'h') {
			fputs(usage, stdout);
			exit(0);
		}
		if (opt == OPT_VERSION)
			peer_version();
		if (opt == ':')
			peer_wrong("%s wants a value", argv[optind - 1]);
		if (opt == '?')
			peer_wrong("%s is no option", argv[optind - 1]);
		set(o, opt, optarg, &only_probe);
	}
	if (optind < argc)
		peer_wrong("\"%s\" is not expected", argv[optind]);
	if (!only_probe)
		sensible(o);
	return only_probe;
}

/* In a process of its own, since it starts CUDA. */
static int probe_here(void)
{
	int gpus = 0, cuda = 0, nccl = 0;
	cudaError_t error = cudaGetDeviceCount(&gpus);

	if (error != cudaSuccess || gpus == 0) {
		printf("SKIP: no GPU here (%s)\n", cudaGetErrorString(error));
		return CHECK_SKIP;
	}
	cudaRuntimeGetVersion(&cuda);
	ncclGetVersion(&nccl);
	printf("# %d GPU, CUDA runtime %d, NCCL %d\n", gpus, cuda, nccl);
	return 0;
}

static int probe(void)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		int rc = probe_here();

		fflush(stdout);
		_exit(rc);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0) {
		fprintf(stderr, "nccl-check: %s\n", strerror(errno));
		return 1;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static struct check_world *world_new(const struct check_options *opt)
{
	struct check_world *w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t attr;

	if (w == MAP_FAILED)
		return NULL;
	w->opt = *opt;
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&w->barrier, &attr, CHECK_RANKS);
	return w;
}

static pid_t start(struct check_world *w, int rank)
{
	pid_t parent = getpid(), pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	exit(check_rank_main(w, rank));
}

/* The first that ends badly ends the other, which may wait for it. */
static int watch(const pid_t *pid)
{
	int rc = 0, status;

	for (int left = CHECK_RANKS; left > 0; left--) {
		pid_t gone = wait(&status);

		if (gone > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
			continue;
		if (gone > 0 && WIFSIGNALED(status) && rc == 0)
			printf("FAIL rank %d died of signal %d\n",
			       gone == pid[1], WTERMSIG(status));
		rc = 1;
		for (int i = 0; i < CHECK_RANKS; i++)
			if (pid[i] != gone)
				kill(pid[i], SIGKILL);
	}
	return rc;
}

int main(int argc, char **argv)
{
	struct check_options opt;
	struct check_world *w;
	pid_t pid[CHECK_RANKS];
	bool only_probe = parse(&opt, argc, argv);
	int rc;

	setvbuf(stdout, NULL, _IOLBF, 0);
	rc = probe();
	if (rc || only_probe)
		return rc;
	w = world_new(&opt);
	if (!w) {
		fprintf(stderr, "nccl-check: %s\n", strerror(errno));
		return 1;
	}
	for (int i = 0; i < CHECK_RANKS; i++) {
		pid[i] = start(w, i);
		if (pid[i] < 0) {
			fprintf(stderr, "nccl-check: fork: %s\n",
				strerror(errno));
			return 1; /* the other dies with its parent */
		}
	}
	rc = watch(pid);
	if (atomic_load(&w->failed))
		printf("FAIL %s\n", w->why);
	return rc;
}
