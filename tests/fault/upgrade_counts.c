/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upgrade_counts: what a proxy tells of itself after it was replaced under
 * traffic. Totals go on, and it is told from a start and from a failure.
 */
#include <stdio.h>

#include "moving.h"
#include "test.h"

static struct node node[2];
static struct moving moving;

static void upgrade(const struct node *n)
{
	struct run run;

	moving_upgrade_begin(&run, n, NULL);
	moving_until(&moving, &run, 1);
	if (run.status)
		fail_msg("%s", run.err);
}

static int start(void **state)
{
	static const char *const args[] = { "--failover-grace", MOVING_GRACE_MS,
					    NULL };

	moving_start(&moving, node, 7, args);
	/* There has to be a failover to be kept. */
	upgrade(&node[1]);
	moving_by(&moving, 3);
	return 0;
}

static int stop(void **state)
{
	moving_close(&moving);
	node_stop(&node[0]);
	node_stop(&node[1]);
	return 0;
}

static const struct {
	const char *command, *list, *key;
} totals[] = {
	{ "rails", NULL, "tx_bytes" },	 { "rails", NULL, "rx_bytes" },
	{ "rails", NULL, "failovers" },	 { "lanes", NULL, "messages" },
	{ "conns", "open", "messages" }, { "conns", "open", "tx_wrs" },
	{ "hist", NULL, "count" },	 { "hist", NULL, "sum_ns" },
};

#define TOTALS (sizeof(totals) / sizeof(totals[0]))

/* The sum over all that the first node lists. */
static json_int_t total(unsigned which)
{
	json_t *data = node_ask(&node[0], totals[which].command);
	const json_t *o, *list = data;
	json_int_t sum = 0;
	size_t i;

	if (totals[which].list)
		list = json_object_get(data, totals[which].list);
	json_array_foreach(list, i, o)
	{
		o = json_object_get(o, totals[which].key);
		assert_true(json_is_integer(o));
		sum += json_integer_value(o);
	}
	json_decref(data);
	return sum;
}

static void totals_do_not_drop(void **state)
{
	json_int_t before[TOTALS];

	for (unsigned i = 0; i < TOTALS; i++) {
		before[i] = total(i);
		assert_true(before[i] > 0);
	}
	upgrade(&node[0]);
	for (unsigned i = 0; i < TOTALS; i++) {
		json_int_t now = total(i);

		if (now < before[i])
			fail_msg("%s of %s fell from %lld to %lld",
				 totals[i].key, totals[i].command,
				 (long long)before[i], (long long)now);
	}
	moving_by(&moving, 2);
}

/* Of the metrics: how many sends of a client of the first node are over. */
static long sends_of(uint32_t client)
{
	const char *argv[] = { "mpibctl", "-s", node[0].dir, "metrics", NULL };
	static struct run run;
	const char *at;
	char name[80];

	run_wait(&run, argv);
	assert_int_equal(run.status, 0);
	snprintf(name, sizeof(name),
		 "\nmpib_client_request_seconds_count{client=\"%u\",", client);
	at = strstr(run.out, name);
	assert_non_null(at);
	at = strchr(at, '}');
	assert_non_null(at);
	return strtol(at + 1, NULL, 10);
}

/* A client's requests count for it, those of closed connections, too, and on
 * over an upgrade. */
static void times_of_a_client_do_not_drop(void **state)
{
	struct mpib_node_info info;
	struct mover one;
	long sends;
	int rc;

	assert_int_equal(
		mover_open(&one, node[0].dir, node[1].dir, 4096, true, 5), 0);
	while ((rc = mover_ready(&one)) == 0)
		moving_turn(&moving);
	assert_int_equal(rc, 1);
	while (one.messages < 10) {
		moving_turn(&moving);
		assert_true(mover_step(&one) >= 0);
	}
	mpib_query(one.from, &info);
	sends = sends_of(info.client);
	assert_in_range(sends, 10, 11);
	mpib_close(one.tx);
	mpib_close(one.rx);
	one.tx = one.rx = NULL;
	assert_int_equal(sends_of(info.client), sends);
	upgrade(&node[0]);
	assert_int_equal(sends_of(info.client), sends);
	mover_close(&one);
	moving_by(&moving, 2);
}

static void expect_metric(const struct node *n, const char *name)
{
	const char *argv[] = { "mpibctl", "-s", n->dir, "metrics", NULL };
	static struct run run;
	const char *at;

	run_wait(&run, argv);
	assert_int_equal(run.status, 0);
	at = strstr(run.out, name);
	if (!at || atoi(at + strlen(name)) <= 0)
		fail_msg("no %s", name);
}

static void it_is_told_from_a_start_and_from_a_failure(void **state)
{
	for (unsigned i = 0; i < 2; i++) {
		expect_metric(&node[i], "\nmpib_upgrades_total ");
		expect_metric(&node[i], "\nmpib_rail_failovers_total{rail="
					"\"SUP\",cause=\"upgrade\"} ");
	}
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(totals_do_not_drop),
	cmocka_unit_test(times_of_a_client_do_not_drop),
	cmocka_unit_test(it_is_told_from_a_start_and_from_a_failure),
	{ 0 },
};
struct test_group test_group = { start, stop };
