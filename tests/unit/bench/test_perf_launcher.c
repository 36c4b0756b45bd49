/* SPDX-License-Identifier: Apache-2.0 */
/* bench/perf/hosts/launcher.c: a rank of mpib-perf finds its number in the
 * environment of its launcher. */
#include <errno.h>

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

static void assert_rank(const struct perf_options *opt, int rank, int size,
			const char *where)
{
	assert_int_equal(opt->role, PERF_LAUNCHED);
	assert_int_equal(opt->rank, rank);
	assert_int_equal(opt->nnodes, size);
	assert_int_equal(opt->ranks_per_node, 1);
	assert_string_equal(opt->rendezvous, where);
	assert_in_range(opt->port, 20000, 29999);
}

TEST(each_launcher_gives_the_rank_the_size_and_the_host_of_rank_0)
{
	struct perf_options opt;

	assert_int_equal(find(&opt, "RANK=3 WORLD_SIZE=8 LOCAL_RANK=3 "
				    "MASTER_ADDR=n7"),
			 0);
	assert_rank(&opt, 3, 8, "n7");
	assert_false(opt.leads);
	assert_int_equal(find(&opt, "SLURM_PROCID=4 SLURM_STEP_NUM_TASKS=5 "
				    "SLURM_LOCALID=0 SLURM_JOB_ID=9 "
				    "SLURM_STEP_NODELIST=gpu[007-009,11],x2"),
			 0);
	assert_rank(&opt, 4, 5, "gpu007");
	assert_true(opt.leads);
	assert_int_equal(find(&opt, "OMPI_COMM_WORLD_RANK=1 "
				    "OMPI_COMM_WORLD_SIZE=2 "
				    "OMPI_COMM_WORLD_LOCAL_SIZE=2 "
				    "OMPI_COMM_WORLD_LOCAL_RANK=1"),
			 0);
	assert_rank(&opt, 1, 2, "127.0.0.1");
	assert_int_equal(find(&opt, "PMI_RANK=1 PMI_SIZE=2 MASTER_ADDR=h"), 0);
	assert_rank(&opt, 1, 2, "h");
}

TEST(a_launcher_gives_the_number_of_the_rank_on_its_host)
{
	static const struct {
		const char *env;
		int place, places;
	} is[] = {
		{ "RANK=5 WORLD_SIZE=8 MASTER_ADDR=a LOCAL_RANK=1 "
		  "LOCAL_WORLD_SIZE=4",
		  1, 4 },
		/* The job's third host, on which srun started mpirun's
		 * daemon. */
		{ "OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8 "
		  "OMPI_COMM_WORLD_LOCAL_RANK=1 MASTER_ADDR=a "
		  "OMPI_COMM_WORLD_LOCAL_SIZE=2 SLURM_NODEID=2",
		  1, 2 },
		{ "PMI_RANK=5 PMI_SIZE=8 MASTER_ADDR=a MPI_LOCALRANKID=2 "
		  "MPI_LOCALNRANKS=3",
		  2, 3 },
		{ "SLURM_PROCID=5 SLURM_STEP_NUM_TASKS=9 MASTER_ADDR=a "
		  "SLURM_LOCALID=1 SLURM_NODEID=1 "
		  "SLURM_STEP_TASKS_PER_NODE=4(x2),1",
		  1, 4 },
		{ "SLURM_PROCID=8 SLURM_STEP_NUM_TASKS=9 MASTER_ADDR=a "
		  "SLURM_LOCALID=0 SLURM_NODEID=2 "
		  "SLURM_STEP_TASKS_PER_NODE=4(x2),1",
		  0, 1 },
		/* In these cases the variables are missing or invalid. */
		{ "RANK=5 WORLD_SIZE=8 MASTER_ADDR=a LOCAL_RANK=1", 1, 1 },
		{ "RANK=5 WORLD_SIZE=8 MASTER_ADDR=a LOCAL_RANK=1 "
		  "LOCAL_WORLD_SIZE=1",
		  1, 1 },
		{ "SLURM_PROCID=8 SLURM_STEP_NUM_TASKS=9 MASTER_ADDR=a "
		  "SLURM_LOCALID=3 SLURM_NODEID=9 "
		  "SLURM_STEP_TASKS_PER_NODE=4(x,1",
		  3, 1 },
		{ "RANK=5 WORLD_SIZE=8 MASTER_ADDR=a LOCAL_RANK=x "
		  "LOCAL_WORLD_SIZE=4",
		  0, 4 },
	};
	struct perf_options opt;

	for (size_t i = 0; i < sizeof(is) / sizeof(is[0]); i++) {
		assert_int_equal(find(&opt, is[i].env), 0);
		assert_int_equal(opt.place, is[i].place);
		assert_int_equal(opt.places, is[i].places);
	}
}

TEST(ranks_of_mpirun_and_torchrun_inherit_sruns_variables)
{
	static const char srun[] = "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 "
				   "SLURM_JOB_NODELIST=a1,a2 ";
	char env[400];
	struct perf_options opt;

	strcpy(env, srun);
	strcat(env, "OMPI_COMM_WORLD_RANK=9 OMPI_COMM_WORLD_SIZE=16");
	assert_int_equal(find(&opt, env), 0);
	assert_rank(&opt, 9, 16, "a1");
	strcpy(env, srun);
	strcat(env, "RANK=9 WORLD_SIZE=16 MASTER_ADDR=a2");
	assert_int_equal(find(&opt, env), 0);
	assert_rank(&opt, 9, 16, "a2");
}

TEST(jobs_on_the_same_host_use_different_ports)
{
	struct perf_options one, other;

	find(&one, "RANK=0 WORLD_SIZE=2 MASTER_ADDR=a TORCHELASTIC_RUN_ID=1");
	find(&other, "RANK=0 WORLD_SIZE=2 MASTER_ADDR=a TORCHELASTIC_RUN_ID=2");
	assert_int_not_equal(one.port, other.port);
	assert_true(one.job != other.job);
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

TEST(a_bad_rank_is_refused)
{
	static const char *const bad[] = {
		"RANK=2 WORLD_SIZE=2 MASTER_ADDR=a",
		"RANK=-1 WORLD_SIZE=2 MASTER_ADDR=a",
		"RANK=x WORLD_SIZE=2 MASTER_ADDR=a",
		"RANK=1 WORLD_SIZE=99999999999999999999 MASTER_ADDR=a",
		"RANK=1 WORLD_SIZE=257 MASTER_ADDR=a",
		"RANK=1 WORLD_SIZE=2",
		("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 "
		 "OMPI_COMM_WORLD_LOCAL_SIZE=2"),
	};
	struct perf_options opt;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(find(&opt, bad[i]), -EINVAL);
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
