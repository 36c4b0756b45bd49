/* SPDX-License-Identifier: Apache-2.0 */
/* Where a shard runs, and where its memory is. hwloc simulates the machine's
 * NUMA nodes, and the engine runs on fake HCAs. */
#include <dirent.h>
#include <errno.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/thread.h"
#include "engine/engine.h"
#include "fake_ibv.h"
#include "rails/discover.h"
#include "scratch.h"
#include "test.h"

/* Return the first CPU that this process may use. */
static unsigned first_cpu(void)
{
	cpu_set_t own;
	unsigned i = 0;

	sched_getaffinity(0, sizeof(own), &own);
	while (!CPU_ISSET(i, &own))
		i++;
	return i;
}

/* Simulate two NUMA nodes. The first node has only the first of the CPUs that
 * this process may use. */
static void play_two_nodes(void)
{
	char text[64];

	snprintf(text, sizeof(text), "numa:2 pu:%u", first_cpu() + 1);
	setenv("HWLOC_SYNTHETIC", text, 1);
	mpib_numa_forget();
}

static int end_play(void **state)
{
	unsetenv("HWLOC_SYNTHETIC");
	mpib_numa_forget();
	return 0;
}

#define CASE(name) TEST_OF(name, NULL, end_play)

CASE(only_cpus_that_the_process_may_use_count_for_a_node)
{
	char text[64];
	cpu_set_t cpus;

	play_two_nodes();
	assert_true(mpib_numa_cpus(0, &cpus));
	assert_int_equal(CPU_COUNT(&cpus), 1);
	assert_true(CPU_ISSET(first_cpu(), &cpus));
	assert_false(mpib_numa_cpus(-1, &cpus));
	assert_false(mpib_numa_cpus(2, &cpus));
	/* Simulate a node 1 with CPUs that this process may not use. */
	snprintf(text, sizeof(text), "numa:2 pu:%ld",
		 sysconf(_SC_NPROCESSORS_CONF));
	setenv("HWLOC_SYNTHETIC", text, 1);
	mpib_numa_forget();
	assert_false(mpib_numa_cpus(1, &cpus));
}

CASE(with_one_numa_node_no_thread_is_pinned)
{
	cpu_set_t cpus;

	setenv("HWLOC_SYNTHETIC", "numa:1 pu:8", 1);
	mpib_numa_forget();
	assert_false(mpib_numa_cpus(0, &cpus));
}

/* Get the CPUs on which this process's thread with this name may run. */
static void cpus_of(const char *thread, cpu_set_t *cpus)
{
	DIR *all = opendir("/proc/self/task");
	const struct dirent *e;
	char path[300], name[32];
	bool found = false;

	assert_non_null(all);
	while ((e = readdir(all))) {
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm",
			 e->d_name);
		f = e->d_name[0] == '.' ? NULL : fopen(path, "re");
		if (!f)
			continue;
		if (fgets(name, sizeof(name), f) &&
		    !strncmp(name, thread, strlen(thread))) {
			pid_t tid = (pid_t)strtol(e->d_name, NULL, 10);

			found = sched_getaffinity(tid, sizeof(*cpus), cpus) ==
				0;
		}
		fclose(f);
	}
	closedir(all);
	assert_true(found);
}

static unsigned shards = 1;

static struct mpib_engine *open_on(const char *node,
				   bool (*cpus_near)(int, cpu_set_t *))
{
	static char name[2][8] = { "fake_0", "fake_1" };
	struct mpib_engine_config cfg;
	struct mpib_engine *engine;
	char why[256], path[128];

	fake_ibv_reset();
	mpib_engine_config_init(&cfg);
	scratch_write("device/numa_node", node);
	for (unsigned i = 0; i < 2; i++) {
		struct fake_device *d =
			fake_ibv_add(name[i], i ? "127.41.5.2" : "127.41.5.1");

		snprintf(path, sizeof(path), "%s", scratch_path(""));
		snprintf(d->ibv.ibdev_path, sizeof(d->ibv.ibdev_path), "%s",
			 path);
		cfg.rail[i].provider = MPIB_PROVIDER_RDMA;
		cfg.rail[i].port = 1;
		snprintf(cfg.rail[i].name, sizeof(cfg.rail[i].name), "%s",
			 name[i]);
	}
	cfg.rails = 2;
	cfg.shards = shards;
	cfg.cpus_near = cpus_near;
	if (mpib_engine_open(&cfg, &(struct mpib_engine_events){ 0 }, NULL,
			     &engine, why, sizeof(why)) < 0)
		fail_msg("%s", why);
	return engine;
}

CASE(a_shard_runs_near_its_hca)
{
	struct mpib_engine *engine;
	cpu_set_t own, cpus;

	play_two_nodes();
	engine = open_on("0\n", mpib_numa_cpus);
	assert_int_equal(mpib_engine_node(engine, 0), 0);
	cpus_of("mpib-shard-0", &cpus);
	assert_int_equal(CPU_COUNT(&cpus), 1);
	assert_true(CPU_ISSET(first_cpu(), &cpus));
	mpib_engine_close(engine);

	/* Without `cpus_near`, or if the node is unknown, threads are not
	 * pinned. */
	sched_getaffinity(0, sizeof(own), &own);
	engine = open_on("0\n", NULL);
	cpus_of("mpib-shard-0", &cpus);
	assert_true(CPU_EQUAL(&cpus, &own));
	mpib_engine_close(engine);
	engine = open_on("-1\n", mpib_numa_cpus);
	cpus_of("mpib-shard-0", &cpus);
	assert_true(CPU_EQUAL(&cpus, &own));
	mpib_engine_close(engine);
}

CASE(if_shards_outnumber_a_nodes_cpus_they_run_anywhere)
{
	struct mpib_engine *engine;
	cpu_set_t own, cpus;

	play_two_nodes();
	shards = 2;
	engine = open_on("0\n", mpib_numa_cpus);
	shards = 1;
	sched_getaffinity(0, sizeof(own), &own);
	cpus_of("mpib-shard-0", &cpus);
	assert_true(CPU_EQUAL(&cpus, &own));
	cpus_of("mpib-shard-1", &cpus);
	assert_true(CPU_EQUAL(&cpus, &own));
	mpib_engine_close(engine);
}

CASE(cqs_use_the_completion_vectors_in_turn)
{
	struct mpib_engine *engine = open_on("-1\n", NULL);

	assert_int_equal(__builtin_popcount(fake_ibv.vectors), 2);
	mpib_engine_close(engine);
}

CASE(memory_is_allocated_on_the_requested_node)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *at = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned long mask[16] = { 0 };
	int mode = -1;

	assert_true(at != MAP_FAILED);
	mpib_numa_prefer(at + page + 1, 1, -1);
	mpib_numa_prefer(at + page + 1, 1, 0);
	if (syscall(SYS_get_mempolicy, &mode, mask, 1025, at + page,
		    MPOL_F_ADDR) < 0) {
		print_message("SKIPPED: %s\n", strerror(errno));
		munmap(at, 4 * page);
		skip();
	}
	assert_int_equal(mode, MPOL_PREFERRED);
	assert_int_equal(mask[0], 1);
	/* Other pages are not affected. */
	syscall(SYS_get_mempolicy, &mode, mask, 1025, at + 2 * page,
		MPOL_F_ADDR);
	assert_int_equal(mode, MPOL_DEFAULT);
	munmap(at, 4 * page);
}

struct test_group test_group = { scratch_make, scratch_remove };
