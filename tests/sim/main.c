/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim: the real code under a simulated kernel, network and HCA, see
 * docs/simulator.md.
 *
 *   sim [--seeds N] [--from S | --fresh] [--seed S] [-v] [--messages N]
 *       [--jobs N] [--seconds N] [--first] [--minimise] [--suspect FAULT]
 */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
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

#include "sim_report.h"
#include "sim_task.h"
#include "sim_wrap.h"

/* Seconds of one seed: it hangs. */
#ifdef __SANITIZE_ADDRESS__
#define CPU_S 300
#else
#define CPU_S 60
#endif

struct options {
	uint64_t from, seeds; /* from 0: half of them each from SIM_NEW_FROM and
				 from SIM_PATIENT_FROM */
	unsigned messages, jobs;
	double until; /* no seed begins after it; 0: whenever */
	bool one, minimise, first;
	const char *suspect; /* a fault that counts as a failure; NULL: none */
};

#define JOBS 256

struct slot {
	pid_t pid;
	uint64_t seed;
};

/* Of so many children at once, who share them. All that there may be, as nothing
 * in a child is to depend on how many there are. */
static struct sim_result *results;

/* Of a build that counts lines, see coverage. */
void sim_gcov_dump(void) __asm__("__gcov_dump") __attribute__((weak));

static double seconds(void)
{
	struct timespec ts;

	__real_clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void on_crash(int signo)
{
	fprintf(stderr, "FOUND: %s\n", strsignal(signo));
	sim_trace_dump(60);
	signal(signo, SIG_DFL);
	raise(signo);
}

static void child(const struct options *o, uint64_t seed,
		  const struct sim_smaller *s, struct sim_result *result)
{
	static char stack[1 << 16];
	const stack_t alt = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction act = { .sa_handler = on_crash,
				 .sa_flags = SA_ONSTACK };
	const struct rlimit cpu = { CPU_S, CPU_S };
	struct sim_plan plan;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigaltstack(&alt, NULL);
	__real_sigaction(SIGABRT, &act, NULL);
#ifndef __SANITIZE_ADDRESS__
	__real_sigaction(SIGSEGV, &act, NULL);
	__real_sigaction(SIGBUS, &act, NULL);
#endif
	setrlimit(RLIMIT_CPU, &cpu);
	sim_plan_draw(&plan, seed, o->messages);
	if (s)
		sim_plan_shrink(&plan, s);
	if (sim_verbose)
		sim_plan_print(&plan);
	sim_seed_run(&plan, result);
	for (unsigned i = 0; o->suspect && i < SIM_FAULT_KINDS; i++) {
		if (result->fault[i] &&
		    !strcmp(o->suspect, sim_fault_name((enum sim_fault_kind)i)))
			sim_fail("%s happened", o->suspect);
	}
	if (sim_gcov_dump)
		sim_gcov_dump();
	__real__exit(0);
}

static pid_t start(const struct options *o, uint64_t seed,
		   const struct sim_smaller *s, struct sim_result *result,
		   bool quiet)
{
	pid_t pid;

	memset(result, 0, sizeof(*result));
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		if (quiet && !freopen("/dev/null", "w", stderr))
			__real__exit(2);
		if (quiet)
			sim_addresses_move();
		child(o, seed, s, result);
	}
	if (pid < 0) {
		perror("sim: fork");
		exit(2);
	}
	return pid;
}

/* The exit status, or 128 + the signal. */
static int ended_by(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int run_child(const struct options *o, uint64_t seed,
		     const struct sim_smaller *s, bool quiet)
{
	pid_t pid = start(o, seed, s, results, quiet);
	int status;

	while (__real_waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	sim_seed_clean(results);
	return ended_by(status);
}

/* It ended for want of something: by the kernel, for want of memory, too. */
static bool is_unrun(int status)
{
	return status == SIM_LACKS || status == 128 + SIGKILL;
}

static void get_results(void)
{
	results = __real_mmap(NULL, JOBS * sizeof(*results),
			      PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (results == MAP_FAILED) {
		perror("sim: mmap");
		exit(2);
	}
}

static bool still_fails(const struct options *o, uint64_t seed,
			const struct sim_smaller *s)
{
	int status = run_child(o, seed, s, true);

	return status != 0 && !is_unrun(status);
}

/* Leave out what is not needed for it to fail, as long as anything is. 0: done;
 * 1: it does not fail. */
static int minimise(const struct options *o, uint64_t seed)
{
	struct sim_smaller best = { 0 };
	struct sim_plan plan;
	bool smaller = true;

	sim_plan_draw(&plan, seed, o->messages);
	if (!still_fails(o, seed, &best)) {
		fprintf(stderr, "seed %llu does not fail\n",
			(unsigned long long)seed);
		return 1;
	}
	while (smaller) {
		smaller = false;
		for (unsigned i = 0; i < plan.faults + plan.lines + 2; i++) {
			struct sim_smaller s = best;

			if (i < plan.faults)
				s.faults_off |= 1u << i;
			else if (i < plan.faults + plan.lines)
				s.lines_off |= 1u << (i - plan.faults);
			else if (i == plan.faults + plan.lines)
				s.calm = true;
			else
				s.halvings++;
			if ((s.faults_off == best.faults_off &&
			     s.lines_off == best.lines_off &&
			     s.calm == best.calm &&
			     s.halvings == best.halvings) ||
			    s.halvings > 12 || !still_fails(o, seed, &s))
				continue;
			best = s;
			smaller = true;
		}
	}
	sim_plan_shrink(&plan, &best);
	fprintf(stderr, "the smallest that fails:\n");
	sim_plan_print(&plan);
	run_child(o, seed, &best, false);
	return 0;
}

static void end_one(const struct slot *s, struct sim_result *result, int status,
		    struct sim_total *all)
{
	unsigned long long seed = s->seed;

	sim_seed_clean(result);
	sim_total_add(all, result, seed);
	if (status == 0)
		return;
	if (is_unrun(status)) {
		all->unrun++;
		fprintf(stderr,
			"seed %llu was not run to its end (%d), for want of "
			"something that this machine has no more of\n\n",
			seed, status);
		return;
	}
	all->failed++;
	fprintf(stderr,
		"seed %llu failed (%d%s): tests/sim/run --seed %llu -v, or "
		"--minimise\n\n",
		seed, status,
		status == 128 + SIGXCPU ? ", it takes too long" : "", seed);
}

static uint64_t seed_of(const struct options *o, uint64_t n)
{
	if (o->from)
		return o->from + n;
	return (n % 2 ? SIM_PATIENT_FROM : SIM_NEW_FROM) + n / 2;
}

static bool another(const struct options *o, uint64_t next, uint64_t failed)
{
	return next < o->seeds && !(o->first && failed) &&
	       (o->until == 0 || seconds() < o->until);
}

static int run_all(const struct options *o)
{
	static struct slot slot[JOBS];
	struct sim_total all = { .from = seed_of(o, 0),
				 .also = o->from ? 0 : SIM_PATIENT_FROM };
	unsigned running = 0;
	double began = seconds();

	while (another(o, all.seeds, all.failed) || running) {
		int status;
		pid_t pid;

		for (unsigned i = 0;
		     i < o->jobs && another(o, all.seeds, all.failed); i++) {
			if (slot[i].pid)
				continue;
			slot[i].seed = seed_of(o, all.seeds++);
			slot[i].pid = start(o, slot[i].seed, NULL, &results[i],
					    false);
			running++;
		}
		pid = __real_waitpid(-1, &status, 0);
		for (unsigned i = 0; i < o->jobs; i++) {
			if (slot[i].pid != pid)
				continue;
			running--;
			slot[i].pid = 0;
			end_one(&slot[i], &results[i], ended_by(status), &all);
		}
	}
	sim_report(&all, seconds() - began);
	return all.failed ? 1 : all.unrun ? 2 : 0;
}

/* The same twice: else it could not be replayed. */
static int run_one(const struct options *o)
{
	const struct sim_result *result = results;
	struct sim_result first;
	int rc = run_child(o, o->from, NULL, false);

	if (rc) {
		fprintf(stderr, "seed %llu failed (%d)\n",
			(unsigned long long)o->from, rc);
		return is_unrun(rc) ? 2 : 1;
	}
	first = *result;
	run_child(o, o->from, NULL, true);
	printf("seed %llu: %llu messages, %llu connections failed, %u "
	       "hand-overs, %.3f s of virtual time, trace %016llx\n",
	       (unsigned long long)o->from, (unsigned long long)first.messages,
	       (unsigned long long)first.failures, first.upgrades,
	       (double)first.virtual_ns / 1e9, (unsigned long long)first.hash);
	if (first.hash == result->hash)
		return 0;
	fprintf(stderr, "seed %llu is not the same twice\n",
		(unsigned long long)o->from);
	return 1;
}

static void usage(void)
{
	fprintf(stderr,
		"usage: sim [--seeds N] [--from S | --fresh] [--seed S] "
		"[-v] [--messages N] [--jobs N] [--seconds N] [--first] "
		"[--minimise] [--suspect FAULT]\n");
	exit(2);
}

static unsigned jobs_of(uint64_t wanted)
{
	return wanted < JOBS ? (unsigned)wanted : JOBS;
}

static struct options read_options(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "seeds", required_argument, NULL, 'n' },
		{ "from", required_argument, NULL, 'f' },
		{ "seed", required_argument, NULL, 's' },
		{ "messages", required_argument, NULL, 'm' },
		{ "jobs", required_argument, NULL, 'j' },
		{ "seconds", required_argument, NULL, 't' },
		{ "minimise", no_argument, NULL, 'i' },
		{ "first", no_argument, NULL, 'o' },
		{ "suspect", required_argument, NULL, 'p' },
		{ "fresh", no_argument, NULL, 'r' },
		{ 0 },
	};
	struct options o = { .seeds = 20, .messages = 1000 };
	int opt;

	o.jobs = jobs_of((uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
	while ((opt = getopt_long(argc, argv, "v", longs, NULL)) != -1) {
		uint64_t n = optarg ? strtoull(optarg, NULL, 10) : 0;

		if (opt == 'n')
			o.seeds = n;
		else if (opt == 'f' || opt == 's')
			o.from = n;
		else if (opt == 'm')
			o.messages = (unsigned)n;
		else if (opt == 'j' && n)
			o.jobs = jobs_of(n);
		else if (opt == 't')
			o.until = seconds() + (double)n;
		else if (opt == 'r')
			o.from = (uint64_t)time(NULL) * 1000;
		else if (opt == 'i')
			o.minimise = true;
		else if (opt == 'o')
			o.first = true;
		else if (opt == 'p')
			o.suspect = optarg;
		else if (opt == 'v')
			sim_verbose = true;
		else
			usage();
		o.one |= opt == 's';
	}
	return o;
}

int main(int argc, char **argv)
{
	struct options o = read_options(argc, argv);
	struct rlimit files;

	sim_addresses_fix(argv);
	clearenv(); /* MPIB_*, and whatever else somebody reads */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur =
			files.rlim_max < 65536 ? files.rlim_max : 65536;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	sim_memory_stays();
	/* Else by chance, and with it which freed memory is given out again. */
	json_object_seed(1);
	get_results();
	if (o.minimise)
		return minimise(&o, o.from);
	return o.one ? run_one(&o) : run_all(&o);
}
