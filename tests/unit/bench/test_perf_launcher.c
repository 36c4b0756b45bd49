/* SPDX-License-Identifier: Apache-2.0 */
/* bench/perf/hosts/launcher.c: a rank of mpib-perf finds its number in the
 * environment of its launcher. One default of the options, which no output
 * shows, is tested here, too. */
#include "perf/options.h"
#include "test.h"

/* Call perf_launcher_find() with only the variables of "NAME=VALUE NAME=VALUE
 * ..." set. */
static int find(struct perf_options *opt, const char *env)
{
	char text[400];

	clearenv();
	strcpy(text, env);
	for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
		char *value = strchr(word, '=');

		*value = '\0';
		assert_int_equal(setenv(word, value + 1, 1), 0);
	}
	*opt = (struct perf_options){ .port = -1 };
	return perf_launcher_find(opt);
}

TEST(a_launcher_gives_the_number_of_the_rank_on_its_host)
{
	static const struct {
		const char *env;
		int place, places;
		bool leads;
	} is[] = {
		{ "RANK=5 WORLD_SIZE=8 MASTER_ADDR=a LOCAL_RANK=1 "
		  "LOCAL_WORLD_SIZE=4",
		  1, 4, false },
		/* The job's third host, on which srun started mpirun's
		 * daemon. */
		{ "OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8 "
		  "OMPI_COMM_WORLD_LOCAL_RANK=1 MASTER_ADDR=a "
		  "OMPI_COMM_WORLD_LOCAL_SIZE=2 SLURM_NODEID=2",
		  1, 2, false },
		{ "PMI_RANK=5 PMI_SIZE=8 MASTER_ADDR=a MPI_LOCALRANKID=2 "
		  "MPI_LOCALNRANKS=3",
		  2, 3, false },
		{ "SLURM_PROCID=5 SLURM_STEP_NUM_TASKS=9 MASTER_ADDR=a "
		  "SLURM_LOCALID=1 SLURM_NODEID=1 "
		  "SLURM_STEP_TASKS_PER_NODE=4(x2),1",
		  1, 4, false },
		{ "SLURM_PROCID=8 SLURM_STEP_NUM_TASKS=9 MASTER_ADDR=a "
		  "SLURM_LOCALID=0 SLURM_NODEID=2 "
		  "SLURM_STEP_TASKS_PER_NODE=4(x2),1",
		  0, 1, true },
		/* In these cases the variables are missing or invalid. */
		{ "RANK=5 WORLD_SIZE=8 MASTER_ADDR=a LOCAL_RANK=1", 1, 1,
		  false },
		{ "RANK=5 WORLD_SIZE=8 MASTER_ADDR=a LOCAL_RANK=1 "
		  "LOCAL_WORLD_SIZE=1",
		  1, 1, false },
		{ "SLURM_PROCID=8 SLURM_STEP_NUM_TASKS=9 MASTER_ADDR=a "
		  "SLURM_LOCALID=3 SLURM_NODEID=9 "
		  "SLURM_STEP_TASKS_PER_NODE=4(x,1",
		  3, 1, false },
		{ "RANK=5 WORLD_SIZE=8 MASTER_ADDR=a LOCAL_RANK=x "
		  "LOCAL_WORLD_SIZE=4",
		  0, 4, false },
	};
	struct perf_options opt;

	for (size_t i = 0; i < sizeof(is) / sizeof(is[0]); i++) {
		assert_int_equal(find(&opt, is[i].env), 0);
		assert_int_equal(opt.place, is[i].place);
		assert_int_equal(opt.places, is[i].places);
		assert_int_equal(opt.leads, is[i].leads);
	}
}

TEST(jobs_on_the_same_host_use_different_ports)
{
	struct perf_options one, other;

	find(&one, "RANK=0 WORLD_SIZE=2 MASTER_ADDR=a TORCHELASTIC_RUN_ID=1");
	find(&other, "RANK=0 WORLD_SIZE=2 MASTER_ADDR=a TORCHELASTIC_RUN_ID=2");
	assert_int_not_equal(one.port, other.port);
	assert_true(one.job != other.job);
	assert_in_range(one.port, 20000, 29999);
	one = (struct perf_options){ .port = 18600 };
	assert_int_equal(perf_launcher_find(&one), 0);
	assert_int_equal(one.port, 18600);
}

TEST(a_single_process_is_not_a_rank)
{
	/* The last environment is that of a batch job's script, which is not a
	 * rank. */
	static const char *const alone[] = {
		"",
		"RANK=0",
		"WORLD_SIZE=2",
		"RANK=0 WORLD_SIZE=1",
		"SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_JOB_ID=3",
	};
	struct perf_options opt;

	for (size_t i = 0; i < sizeof(alone) / sizeof(alone[0]); i++) {
		assert_int_equal(find(&opt, alone[i]), 0);
		assert_int_equal(opt.role, PERF_LOCAL);
	}
	setenv("RANK", "0", 1);
	setenv("WORLD_SIZE", "2", 1);
	opt = (struct perf_options){ .no_launcher = true };
	assert_int_equal(perf_launcher_find(&opt), 0);
	assert_int_equal(opt.role, PERF_LOCAL);
	opt = (struct perf_options){ .ranks_per_node = 2 };
	assert_int_equal(perf_launcher_find(&opt), 0);
	assert_int_equal(opt.role, PERF_LOCAL);
}

TEST(the_first_host_of_a_list_is_found)
{
	static const char *const list[][2] = {
		{ "a", "a" },
		{ "a,b", "a" },
		{ "a[1-3]", "a1" },
		{ "a[01,03]-x", "a01" },
		{ "gpu-[2],b", "gpu-2" },
	};
	static const char *const bad[] = { "", ",", "a[", "a[-]", "a[x]" };
	char host[8];

	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		assert_true(
			perf_launcher_first(list[i][0], host, sizeof(host)));
		assert_string_equal(host, list[i][1]);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(perf_launcher_first(bad[i], host, sizeof(host)));
	assert_false(perf_launcher_first("longerthan7", host, sizeof(host)));
}

TEST(check_uses_four_channels_by_default)
{
	char text[] = "mpib-perf check a b --plugin none.so";
	struct perf_options opt;
	char *argv[6];
	int argc = 0;

	for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
		argv[argc++] = word;
	assert_int_equal(perf_options_parse(&opt, argc, argv), PERF_PARSE_RUN);
	assert_int_equal(opt.channels, 4);
	perf_options_free(&opt);
}
