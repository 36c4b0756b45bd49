/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upgrade_ways [N [CASES]]: proxies of each kind are replaced under checked
 * traffic, one after the other and then both at once, N times each; and clients
 * are killed while they are handed over. CASES is a pattern of tests' names.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "arg.h"
#include "moving.h"
#include "test.h"

#define ARGS 9 /* with a NULL */
#define VICTIMS 4

static struct node node[2];
static struct moving moving;
static unsigned rounds = 1;
static unsigned upgraded, both, killed; /* what was done, for the report */

static void start(const char *const *args)
{
	const char *all[ARGS + 2] = { "--failover-grace", MOVING_GRACE_MS };

	memcpy(&all[2], args, ARGS * sizeof(*args));
	moving_start(&moving, node, 3, all);
}

/* The first n of these, at once. */
static void upgrade(const struct node *first, unsigned n)
{
	struct run run[2];

	for (unsigned i = 0; i < n; i++)
		moving_upgrade_begin(&run[i], &first[i], NULL);
	moving_until(&moving, run, n);
	upgraded += n;
	both += n == 2;
	for (unsigned i = 0; i < n; i++) {
		if (run[i].status)
			fail_msg("%s", run[i].err);
	}
	moving_by(&moving, 2);
}

static void upgrades_of(const char *const *args)
{
	start(args);
	for (unsigned i = 0; i < rounds; i++) {
		upgrade(&node[0], 1);
		upgrade(&node[1], 1);
		upgrade(&node[0], 2);
	}
	moving_end(&moving, node);
}

static void of_a_rail_of_one_qp(void **state)
{
	static const char *const args[ARGS] = { "--sout-qp", "1", "--sup-qp",
						"1" };

	upgrades_of(args);
}

static void of_lanes_that_are_spread(void **state)
{
	static const char *const mode[] = { "split", "spray", "dqplb", "auto" };

	for (unsigned i = 0; i < 4; i++) {
		const char *const args[ARGS] = { "--lane-spread", mode[i],
						 "--lane-frag",	  "4096",
						 "--sout-qp",	  "4",
						 "--sup-qp",	  "4" };

		upgrades_of(args);
	}
}

static void of_memory_that_is_flushed(void **state)
{
	static const char *const args[ARGS] = { "--dmabuf", "yes" };
	uint64_t flushes = 0;

	start(args);
	for (unsigned i = 0; i < rounds; i++)
		upgrade(&node[0], 2);
	for (unsigned i = 0; i < MOVING_SINGLE; i++)
		flushes += moving.single[i].flushes;
	assert_true(flushes > 0);
	moving_end(&moving, node);
}

static void of_private_lanes(void **state)
{
	static const char *const args[ARGS] = { "--lanes", "private" };

	upgrades_of(args);
}

static void of_two_shards(void **state)
{
	static const char *const args[ARGS] = { "--threads", "2" };

	upgrades_of(args);
}

static void of_a_cluster_with_a_key(void **state)
{
	char path[] = "/tmp/mpib-key-XXXXXX";
	const char *const args[ARGS] = { "--peer-key-file", path };
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "of one cluster, and no other", 28), 28);
	close(fd);
	upgrades_of(args);
	unlink(path);
}

/* Until it is killed. Not from the test's process: that lives on. */
static void live(unsigned seed, int ready)
{
	struct mover m;
	int rc = mover_begin(&m, node[seed & 1].dir, node[1 - (seed & 1)].dir,
			     100000, seed & 2, seed);

	if (rc == 0 && write(ready, "r", 1) == 1) {
		do
			rc = mover_step(&m);
		while (rc >= 0 && !m.wrong);
	}
	fprintf(stderr, "victim: %s\n", rc < 0 ? mover_why(rc) : "wrong");
	_exit(1);
}

static pid_t bear(unsigned seed)
{
	int ready[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		live(seed, ready[1]);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

/* One after the other, at moments that differ from round to round. */
static void upgrade_and_kill(const struct node *n, pid_t *victim,
			     unsigned turns)
{
	struct run run;

	moving_upgrade_begin(&run, n, NULL);
	for (unsigned i = 0; i < VICTIMS; i++) {
		for (unsigned t = 0; t < turns; t++)
			moving_turn(&moving);
		child_kill(victim[i]);
		killed++;
	}
	moving_until(&moving, &run, 1);
	upgraded++;
	if (run.status)
		fail_msg("%s", run.err);
	moving_by(&moving, 2);
}

static void clients_may_be_killed_meanwhile(void **state)
{
	static const char *const args[ARGS] = { NULL };
	json_int_t clients;

	start(args);
	clients = node_usage(&node[0], "clients");
	for (unsigned i = 0; i < 6 * rounds; i++) {
		pid_t victim[VICTIMS];

		for (unsigned v = 0; v < VICTIMS; v++)
			victim[v] = bear(i * VICTIMS + v);
		upgrade_and_kill(&node[i & 1], victim, 5u << i % 6);
		node_until_usage(&node[0], "clients", clients);
		node_until_usage(&node[1], "clients", clients);
	}
	moving_end(&moving, node);
}

/* Between the two nodes and within each, whichever of them is replaced. */
static void connects_that_nobody_accepts_go_on(void **state)
{
	static const char *const args[ARGS] = { NULL };
	unsigned long long since = node_ms();
	struct mover m[4];
	int ready = 0;

	start(args);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(mover_call(&m[i], node[i & 1].dir,
					    node[i >> 1].dir, 100000, i & 1, i),
				 0);
	upgrade(&node[0], 1);
	upgrade(&node[1], 1);
	upgrade(&node[0], 2);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(mpib_ready(m[i].tx), 0);
		assert_int_equal(mover_answer(&m[i]), 0);
		while ((ready = mover_ready(&m[i])) == 0 &&
		       node_ms() - since < MOVING_HANG_MS)
			moving_turn(&moving);
		if (ready != 1)
			fail_msg("connect %u: %s", i, mpib_strerror());
		mover_must(mover_move(&m[i], 3));
	}
	for (unsigned i = 0; i < 4; i++)
		mover_close(&m[i]);
	moving_end(&moving, node);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_a_rail_of_one_qp),
		cmocka_unit_test(of_lanes_that_are_spread),
		cmocka_unit_test(of_memory_that_is_flushed),
		cmocka_unit_test(of_private_lanes),
		cmocka_unit_test(of_two_shards),
		cmocka_unit_test(of_a_cluster_with_a_key),
		cmocka_unit_test(clients_may_be_killed_meanwhile),
		cmocka_unit_test(connects_that_nobody_accepts_go_on),
	};
	int failed;

	if (argc > 1)
		rounds = arg_count(argv[1]);
	if (argc > 2)
		cmocka_set_test_filter(argv[2]);
	if (!rounds)
		return 2;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	printf("%u proxies upgraded, %u times both nodes at once, %u clients "
	       "killed meanwhile: %s\n",
	       upgraded, both, killed, failed ? "FAILED" : "0 errors, 0 wrong");
	return failed;
}
