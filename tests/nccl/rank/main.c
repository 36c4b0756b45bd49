/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parent of the ranks. The parent forks the ranks before any code of NCCL
 * has run, gives each rank the environment of its node, and causes the events
 * that the options name.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <nccl.h>

#include "perf/pin.h"
#include "rank.h"

_Static_assert(sizeof(ncclUniqueId) == ID_SIZE, "the size of an ID");

static const struct {
	const char *name;
	test_fn *run;
} tests[] = {
	{ "collectives", test_collectives },
	{ "alltoall", test_alltoall },
	{ "queued", test_queued },
	{ "ragged", test_ragged },
	{ "communicators", test_communicators },
	{ "registered", test_registered },
	{ "rerun", test_rerun },
	{ "abort", test_abort },
	{ "loop", test_loop },
	{ "speed", test_speed },
};

static const char usage[] =
	"usage: nccl-rank --nodes DIR,... [OPTION]... TEST\n"
	"  --nodes DIR,...    run directory of the proxy of each node\n"
	"  --ranks N          ranks of each node [1]\n"
	"  --topology FILE    FILE.0.xml is for the first node, and so on\n"
	"  --pin              pin the ranks of a node to a part of the CPUs\n"
	"  --env N:NAME=VALUE environment of the ranks of node N\n"
	"  --min BYTES        smallest message of a collective [0]\n"
	"  --max BYTES        largest message of a collective [1048576]\n"
	"  --times N          repetitions [3]\n"
	"  --limit SECONDS    maximum seconds of a wait [60]\n"
	"  --during COMMAND   run this command when the loop runs\n"
	"  --kill RANK        kill this rank when the loop runs\n"
	"  --expect-error     each remaining rank must get an error\n";

static test_fn *find_test(const char *name)
{
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		if (!strcmp(tests[i].name, name))
			return tests[i].run;
	return NULL;
}

static void set_nodes(struct options *opt, char *list)
{
	for (char *dir; (dir = strsep(&list, ","));) {
		if (opt->nodes == RANKS_MAX)
			break;
		opt->dirs[opt->nodes++] = dir;
	}
}

static int take(struct options *opt, int c)
{
	switch (c) {
	case 'n':
		set_nodes(opt, optarg);
		break;
	case 'r':
		opt->per_node = atoi(optarg);
		break;
	case 't':
		opt->topology = optarg;
		break;
	case 'p':
		opt->pin = true;
		break;
	case 'v':
		if (opt->envs == ENVS_MAX)
			return -EINVAL;
		opt->env[opt->envs++] = optarg;
		break;
	case 'M':
		opt->min = strtoull(optarg, NULL, 0);
		break;
	case 'm':
		opt->max = strtoull(optarg, NULL, 0);
		break;
	case 'i':
		opt->times = atoi(optarg);
		break;
	case 'l':
		opt->limit = atof(optarg);
		break;
	case 'd':
		opt->during = optarg;
		break;
	case 'k':
		opt->kill = atoi(optarg);
		break;
	case 'e':
		opt->expect_error = true;
		break;
	default:
		return -EINVAL;
	}
	return 0;
}

static int parse(int argc, char **argv, struct options *opt)
{
	static const struct option known[] = {
		{ "nodes", required_argument, NULL, 'n' },
		{ "ranks", required_argument, NULL, 'r' },
		{ "topology", required_argument, NULL, 't' },
		{ "pin", no_argument, NULL, 'p' },
		{ "env", required_argument, NULL, 'v' },
		{ "min", required_argument, NULL, 'M' },
		{ "max", required_argument, NULL, 'm' },
		{ "times", required_argument, NULL, 'i' },
		{ "limit", required_argument, NULL, 'l' },
		{ "during", required_argument, NULL, 'd' },
		{ "kill", required_argument, NULL, 'k' },
		{ "expect-error", no_argument, NULL, 'e' },
		{ 0 },
	};

	for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;)
		if (take(opt, c) < 0)
			return -EINVAL;
	if (argc - optind != 1 || !find_test(argv[optind]) || !opt->nodes ||
	    opt->per_node < 1 || opt->nodes * opt->per_node > RANKS_MAX)
		return -EINVAL;
	opt->test = argv[optind];
	return 0;
}

/* Set the environment of a rank. A rank sees only its own GPU, but the topology
 * file has all GPUs of the node. */
static void set_environment(const struct options *opt, int rank)
{
	int node = rank / opt->per_node;
	char text[300];

	snprintf(text, sizeof(text), "0000:%02x:00.0",
		 0x10 + rank % opt->per_node);
	setenv("STANDIN_GPUS", text, 1);
	snprintf(text, sizeof(text), "mpib-node-%d", node);
	setenv("NCCL_HOSTID", text, 1);
	setenv("MPIB_RUN_DIR", opt->dirs[node], 1);
	for (int i = 0; i < opt->envs; i++) {
		char *pair;

		/* putenv() does not copy the string. The string belongs to the
		 * parent and does not change. */
		if (strtol(opt->env[i], &pair, 10) == node && *pair == ':')
			putenv(pair + 1);
	}
	if (opt->topology) {
		snprintf(text, sizeof(text), "%s.%d.xml", opt->topology, node);
		setenv("NCCL_TOPO_FILE", text, 1);
	}
}

static _Noreturn void run_rank(const struct options *opt, struct world *world,
			       int rank)
{
	struct rank r = { .opt = opt,
			  .world = world,
			  .rank = rank,
			  .n = opt->nodes * opt->per_node };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (opt->pin && perf_pin(rank / opt->per_node, opt->nodes) < 0)
		fail(&r, "--pin: %s", strerror(errno));
	set_environment(opt, rank);
	r.stream = stream_new(&r);
	r.comm = comm_new(&r);
	find_test(opt->test)(&r);
	if (r.comm) {
		NCCL(&r, ncclCommFinalize(r.comm));
		NCCL(&r, ncclCommDestroy(r.comm));
	}
	fflush(NULL);
	/* Do not run exit handlers: threads of streams may still run. */
	_exit(0);
}

static struct world *world_new(int ranks)
{
	struct world *world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t attr;

	if (world == MAP_FAILED) {
		perror("nccl-rank: mmap");
		exit(1);
	}
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&world->barrier, &attr, (unsigned)ranks);
	pthread_barrierattr_destroy(&attr);
	return world;
}

/* After a few rounds of the loop, cause the event and wait until it has ended.
 * Return false if too few rounds have run. */
static bool meddle(const struct options *opt, struct world *world,
		   const pid_t *pid)
{
	if (atomic_load(&world->rounds) < 3)
		return false;
	atomic_store(&world->begun, now());
	atomic_store(&world->during, 1);
	if (opt->kill >= 0)
		kill(pid[opt->kill], SIGKILL);
	if (opt->during && system(opt->during) != 0) {
		fprintf(stderr, "nccl-rank: \"%s\" failed\n", opt->during);
		exit(1);
	}
	atomic_store(&world->during_rounds, atomic_load(&world->rounds));
	atomic_store(&world->during, 2);
	return true;
}

/* Wait for all ranks. If one fails, kill the others. */
static int wait_all(const struct options *opt, struct world *world, pid_t *pid,
		    int n)
{
	bool done = !opt->during && opt->kill < 0;
	int left = n, failed = 0;

	while (left) {
		int status = 0;
		pid_t ended = waitpid(-1, &status, WNOHANG);

		if (!done)
			done = meddle(opt, world, pid);
		if (ended <= 0) {
			nanosleep(&(struct timespec){ 0, 5000000 }, NULL);
			continue;
		}
		left--;
		for (int i = 0; i < n; i++) {
			if (pid[i] != ended)
				continue;
			pid[i] = 0;
			if (status && i != opt->kill && !failed++)
				fprintf(stderr,
					"nccl-rank: rank %d ended with %#x\n",
					i, (unsigned)status);
		}
		for (int i = 0; failed == 1 && i < n; i++)
			if (pid[i])
				kill(pid[i], SIGKILL);
		failed += failed != 0;
	}
	if (!done)
		fprintf(stderr, "nccl-rank: the test ended before the event\n");
	return failed || !done;
}

/* For bench/nccl, print the CPU seconds and the minor page faults of all
 * ranks. */
static void say_cpu(void)
{
	struct rusage u;

	getrusage(RUSAGE_CHILDREN, &u);
	printf("cpu %.3f\nfaults %ld\n",
	       (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
		       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6,
	       u.ru_minflt);
}

int main(int argc, char **argv)
{
	struct options opt = { .per_node = 1,
			       .max = 1 << 20,
			       .times = 3,
			       .limit = 60,
			       .kill = -1 };
	struct world *world;
	pid_t pid[RANKS_MAX] = { 0 };
	int n, rc;

	if (parse(argc, argv, &opt) < 0) {
		fputs(usage, stderr);
		return 2;
	}
	n = opt.nodes * opt.per_node;
	world = world_new(n);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 0; i < n; i++) {
		pid[i] = fork();
		if (pid[i] == 0)
			run_rank(&opt, world, i);
	}
	rc = wait_all(&opt, world, pid, n);
	say_cpu();
	munmap(world, sizeof(*world));
	return rc;
}
