/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim: run the real code under a simulated kernel, network and HCA, see
 * docs/simulator.md.
 *
 *   sim [--seeds N] [--from S | --fresh] [--seed S] [-v] [--messages N]
 *       [--jobs N] [--seconds N] [--first] [--minimise] [--suspect FAULT]
 *       [--twice N]
 */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "arg.h"
#include "sim_child.h"
#include "sim_report.h"
#include "sim_task.h"
#include "sim_wrap.h"

struct options {
	/* First seed. If `from` is 0, the first half of the seeds starts at
	 * SIM_NEW_FROM, and the second half at SIM_STAGED_FROM. */
	uint64_t from, seeds;
	unsigned jobs;
	double until; /* no seed starts after this time; 0 means no limit */
	/* Every seed that is a multiple of `twice` runs a second time. 0 means
	 * that no seed does. */
	uint64_t twice;
	bool one, minimise, first;
	struct sim_ask ask;
};

#define JOBS 256

struct slot {
	pid_t pid;
	uint64_t seed;
	/* If `again` is set, this is the second run of the seed, and `hash` is
	 * the result of the first run. */
	bool again;
	uint64_t hash;
};

/* The results of all possible children, in shared memory. The memory has a
 * fixed size, so that the run of a child does not depend on the number of
 * children. */
static struct sim_result *results;

static double seconds(void)
{
	struct timespec ts;

	__real_clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int run_child(const struct options *o, uint64_t seed,
		     const struct sim_smaller *s, bool quiet)
{
	pid_t pid = sim_child_start(&o->ask, seed, s, results, quiet);
	int status;

	while (__real_waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	sim_seed_clean(results);
	return sim_child_status(status);
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

	return status != 0 && !sim_child_unrun(status);
}

/* Remove every part of the plan that is not needed to make the seed fail, and
 * print the rest. Return 0 on success, or 1 if the seed does not fail. */
static int minimise(const struct options *o, uint64_t seed)
{
	struct sim_smaller best = { 0 };
	struct sim_plan plan;
	bool smaller = true;

	sim_plan_draw(&plan, seed, o->ask.messages);
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
	fprintf(stderr, "the smallest plan that fails:\n");
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
	if (sim_child_unrun(status)) {
		all->unrun++;
		fprintf(stderr,
			"seed %llu did not run to completion (%d): this machine "
			"lacks a resource\n\n",
			seed, status);
		return;
	}
	all->failed++;
	fprintf(stderr,
		"seed %llu failed (%d%s): tests/sim/run --seed %llu -v, or "
		"--minimise\n\n",
		seed, status,
		status == 128 + SIGXCPU ? ", too much CPU time" : "", seed);
}

static uint64_t seed_of(const struct options *o, uint64_t n)
{
	if (o->from)
		return o->from + n;
	return (n % 2 ? SIM_STAGED_FROM : SIM_NEW_FROM) + n / 2;
}

static bool another(const struct options *o, uint64_t next, uint64_t failed)
{
	return next < o->seeds && !(o->first && failed) &&
	       (o->until == 0 || seconds() < o->until);
}

/* Return whether the slot's seed must run a second time. The two runs must be
 * equal, because a failure must be reproducible from its seed. */
static bool is_again(const struct options *o, const struct slot *s, int status)
{
	return status == 0 && !s->again && o->twice && s->seed % o->twice == 0;
}

/* Handle the result of a seed's last run, which is its only run or its second
 * run. */
static void end_slot(const struct slot *s, struct sim_result *result,
		     int status, struct sim_total *all)
{
	bool same = status == 0 && result->hash == s->hash;

	if (!s->again || sim_child_unrun(status)) {
		end_one(s, result, status, all);
		return;
	}
	if (!same)
		fprintf(stderr, "FOUND: the second run differs\n");
	end_one(s, result, same ? 0 : 1, all);
}

static void end_child(const struct options *o, struct slot *s,
		      struct sim_result *result, int status,
		      struct sim_total *all)
{
	s->pid = 0;
	if (!is_again(o, s, status)) {
		end_slot(s, result, status, all);
		return;
	}
	s->again = true;
	s->hash = result->hash;
	s->pid = sim_child_start(&o->ask, s->seed, NULL, result, true);
}

static unsigned fill_slots(const struct options *o, struct slot *slot,
			   struct sim_total *all)
{
	unsigned running = 0;

	for (unsigned i = 0; i < o->jobs; i++) {
		struct slot *s = &slot[i];

		if (!s->pid && another(o, all->seeds, all->failed)) {
			*s = (struct slot){ .seed = seed_of(o, all->seeds++) };
			s->pid = sim_child_start(&o->ask, s->seed, NULL,
						 &results[i], false);
		}
		running += s->pid != 0;
	}
	return running;
}

static int run_all(const struct options *o)
{
	static struct slot slot[JOBS];
	struct sim_total all = { .from = seed_of(o, 0),
				 .also = o->from ? 0 : SIM_STAGED_FROM };
	double began = seconds();

	while (fill_slots(o, slot, &all)) {
		int status;
		pid_t pid = __real_waitpid(-1, &status, 0);

		for (unsigned i = 0; i < o->jobs; i++) {
			if (slot[i].pid == pid)
				end_child(o, &slot[i], &results[i],
					  sim_child_status(status), &all);
		}
	}
	sim_report(&all, seconds() - began);
	return all.failed ? 1 : all.unrun ? 2 : 0;
}

/* Run one seed twice, and check that both runs are equal, because a failure
 * must be reproducible from its seed. */
static int run_one(const struct options *o)
{
	const struct sim_result *result = results;
	struct sim_result first;
	int rc = run_child(o, o->from, NULL, false);

	if (rc) {
		fprintf(stderr, "seed %llu failed (%d)\n",
			(unsigned long long)o->from, rc);
		return sim_child_unrun(rc) ? 2 : 1;
	}
	first = *result;
	run_child(o, o->from, NULL, true);
	printf("seed %llu: %llu messages, %llu connections failed, %.3f s of "
	       "virtual time, trace %016llx\n",
	       (unsigned long long)o->from, (unsigned long long)first.messages,
	       (unsigned long long)first.failures,
	       (double)first.virtual_ns / 1e9, (unsigned long long)first.hash);
	if (first.hash == result->hash)
		return 0;
	fprintf(stderr, "seed %llu: the second run differs\n",
		(unsigned long long)o->from);
	return 1;
}

static void usage(void)
{
	fprintf(stderr,
		"usage: sim [--seeds N] [--from S | --fresh] [--seed S] "
		"[-v] [--messages N] [--jobs N] [--seconds N] [--first] "
		"[--minimise] [--suspect FAULT] [--twice N]\n");
	exit(2);
}

static unsigned jobs_of(uint64_t wanted)
{
	return wanted < JOBS ? (unsigned)wanted : JOBS;
}

/* Return the number after an option, or 0 if the option has none. */
static uint64_t number_of(int opt, const char *text)
{
	if (!text || opt == 'p')
		return 0;
	return arg_number(text, opt == 'm' ? UINT32_MAX : UINT64_MAX);
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
		{ "twice", required_argument, NULL, 'w' },
		{ "fresh", no_argument, NULL, 'r' },
		{ 0 },
	};
	struct options o = { .seeds = 20, .ask = { .messages = 1000 } };
	int opt;

	o.jobs = jobs_of((uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
	while ((opt = getopt_long(argc, argv, "v", longs, NULL)) != -1) {
		uint64_t n = number_of(opt, optarg);

		if (opt == 'n')
			o.seeds = n;
		else if (opt == 'f' || opt == 's')
			o.from = n;
		else if (opt == 'm')
			o.ask.messages = (unsigned)n;
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
		else if (opt == 'w')
			o.twice = n;
		else if (opt == 'p')
			o.ask.suspect = optarg;
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
	/* remove MPIB_* and other variables that the code would read */
	clearenv();
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur =
			files.rlim_max < 65536 ? files.rlim_max : 65536;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	sim_memory_stays();
	/* Set a fixed seed for jansson's hash tables. With a random seed, runs
	 * would reuse freed memory in different orders. */
	json_object_seed(1);
	get_results();
	sim_pools_make();
	if (o.minimise)
		return minimise(&o, o.from);
	return o.one ? run_one(&o) : run_all(&o);
}
