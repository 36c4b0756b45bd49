/* SPDX-License-Identifier: Apache-2.0 */
/*
 * readopt [N [HOLD_MS]]: two proxies, N times the device of a rail of one of them is lost
 * under checked traffic and comes back. No call fails, nothing is lost, doubled
 * or changed, and the rail carries again.
 */
#include <stdio.h>
#include <unistd.h>

#include "arg.h"
#include "gone.h"
#include "test.h"

static struct node node[2];
static struct moving moving;
static unsigned times = 2;
static const char *hold_ms = "200";

static int start(void **state)
{
	gone_begin();
	moving_start(&moving, node, 7,
		     (const char *[]){ "--failover-hold-down", hold_ms, NULL });
	return 0;
}

static int stop(void **state)
{
	moving_end(&moving, node);
	gone_end();
	return 0;
}

static void a_device_that_comes_back_carries_again(void **state)
{
	for (unsigned i = 0; i < times; i++) {
		/* Either node, either rail. */
		const struct node *n = &node[i & 1];
		unsigned r = !(i & 2);
		const char *name = r ? n->sup : n->sout;
		unsigned long long since;

		gone_take(name);
		gone_until_down(&moving, n, r);
		moving_by(&moving, 3);
		assert_int_equal(gone_readopted(&moving, n), i / 2);
		gone_return(name);
		since = node_ms();
		gone_until_readopted(&moving, n, i / 2 + 1);
		printf("%s of node %u: taken back after %llu ms\n",
		       r ? "SUP" : "SOUT", i & 1, node_ms() - since);
		gone_until_used(&moving, n, r);
		moving_by(&moving, 3);
	}
	printf("%u devices lost and taken back: 0 errors, 0 wrong\n", times);
}

static void an_operator_may_keep_it_for_himself(void **state)
{
	const struct node *n = &node[0];
	json_int_t before = gone_readopted(&moving, n);
	json_int_t count = gone_upgrades(&moving, n);
	struct run run;

	json_decref(node_ask(n, "set failover.readopt no"));
	gone_take(n->sup);
	gone_until_down(&moving, n, 1);
	gone_return(n->sup);
	gone_until_told(&moving, n,
			"SUP: the device stays unused, for "
			"failover.readopt is no");
	assert_int_equal(gone_upgrades(&moving, n), count);
	moving_upgrade_begin(&run, n, NULL);
	moving_until(&moving, &run, 1);
	if (run.status)
		fail_msg("%s", run.err);
	assert_int_equal(gone_upgrades(&moving, n), count + 1);
	assert_int_equal(gone_readopted(&moving, n), before + 1);
	gone_until_used(&moving, n, 1);
	moving_by(&moving, 3);
}

/* By a configuration that the new process would not take. */
static void a_takeover_that_is_refused_is_told(void **state)
{
	const struct node *n = &node[1];
	json_int_t before = gone_readopted(&moving, n);
	FILE *conf = fopen(n->conf, "a");
	long size = ftell(conf);
	struct run run;

	fprintf(conf, "[failover]\nnothing = 1\n");
	fflush(conf);
	gone_take(n->sup);
	gone_until_down(&moving, n, 1);
	gone_return(n->sup);
	gone_until_told(&moving, n,
			"SUP: the device stays unused, tried again in 30 s: ");
	moving_by(&moving, 3);
	assert_int_equal(gone_readopted(&moving, n), before);
	assert_int_equal(ftruncate(fileno(conf), size), 0);
	fclose(conf);
	/* An operator need not wait. */
	moving_upgrade_begin(&run, n, NULL);
	moving_until(&moving, &run, 1);
	if (run.status)
		fail_msg("%s", run.err);
	assert_int_equal(gone_readopted(&moving, n), before + 1);
	gone_until_used(&moving, n, 1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_device_that_comes_back_carries_again),
		cmocka_unit_test(an_operator_may_keep_it_for_himself),
		cmocka_unit_test(a_takeover_that_is_refused_is_told),
	};

	if (argc > 1)
		times = arg_count(argv[1]);
	if (argc > 2)
		hold_ms = argv[2];
	if (times == 0)
		return 2;
	return cmocka_run_group_tests(tests, start, stop);
}
