/* SPDX-License-Identifier: Apache-2.0 */
/*
 * readopt [N [HOLD_MS]]: two proxies, N times the device of a rail of one of them is lost
 * under checked traffic and comes back. No call fails, nothing is lost, doubled
 * or changed, and the rail carries again.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "moving.h"

static struct node node[2];
static struct moving moving;
static unsigned times = 2;
static const char *hold_ms = "200";
static char dir[] = "/tmp/mpib-gone-XXXXXX";

static void path_of(const char *rail, char *path, size_t len)
{
	/* "soft:127.24.1.50" */
	snprintf(path, len, "%s/%s", dir, strchr(rail, ':') + 1);
}

static void take_away(const char *rail)
{
	char path[80];

	path_of(rail, path, sizeof(path));
	close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

static void bring_back(const char *rail)
{
	char path[80];

	path_of(rail, path, sizeof(path));
	assert_int_equal(unlink(path), 0);
}

static int start(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(dir));
	setenv("MPIB_SOFT_GONE", dir, 1);
	node_start(&node[0], 7, "--log-level", "error", "--failover-hold-down",
		   hold_ms, NULL);
	node_start(&node[1], 8, "--log-level", "error", "--failover-hold-down",
		   hold_ms, NULL);
	moving_open(&moving, node);
	moving_by(&moving, 3);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	moving_end(&moving, node);
	return rmdir(dir);
}

/* Of what a command of mpibctl -j prints, asked while the traffic goes on: the
 * proxy that would answer may be about to hand over. NULL: nobody answered. */
static json_t *ask(const struct node *n, const char *noun, const char *verb)
{
	const char *argv[] = {
		"mpibctl", "-j", "-s", n->dir, noun, verb, NULL
	};
	struct run run;

	run_begin(&run, argv);
	moving_until(&moving, &run, 1);
	return run.status ? NULL : json_loads(run.out, 0, NULL);
}

static json_int_t readopted(const struct node *n)
{
	json_t *data = ask(n, "upgrade", "show");
	json_int_t value =
		json_integer_value(json_object_get(data, "readopted"));

	json_decref(data);
	return value;
}

static const json_t *rail(const json_t *rails, unsigned r)
{
	return json_array_get(rails, r);
}

static bool is_down(const struct node *n, unsigned r)
{
	json_t *data = ask(n, "rails", NULL);
	const char *state =
		json_string_value(json_object_get(rail(data, r), "state"));
	bool down = state && !strcmp(state, "down");

	json_decref(data);
	return down;
}

static json_int_t sent(const struct node *n, unsigned r)
{
	json_t *data = ask(n, "rails", NULL);
	json_int_t bytes =
		json_integer_value(json_object_get(rail(data, r), "tx_bytes"));

	json_decref(data);
	return bytes;
}

static void until_down(const struct node *n, unsigned r)
{
	unsigned long long since = node_ms();

	while (!is_down(n, r)) {
		if (node_ms() - since > MOVING_HANG_MS)
			fail_msg("the loss of a device is not noticed");
	}
}

static void until_readopted(const struct node *n, json_int_t count)
{
	unsigned long long since = node_ms();

	while (readopted(n) != count) {
		if (node_ms() - since > MOVING_HANG_MS)
			fail_msg("the device is not taken back");
	}
}

static void until_used(const struct node *n, unsigned r)
{
	unsigned long long since = node_ms();
	json_int_t before = sent(n, r);

	while (sent(n, r) <= before) {
		if (node_ms() - since > MOVING_HANG_MS)
			fail_msg("the rail is not used again");
	}
}

static void a_device_that_comes_back_carries_again(void **state)
{
	(void)state;
	for (unsigned i = 0; i < times; i++) {
		/* Either node, either rail. */
		const struct node *n = &node[i & 1];
		unsigned r = !(i & 2);
		const char *name = r ? n->sup : n->sout;
		unsigned long long since;

		take_away(name);
		until_down(n, r);
		moving_by(&moving, 3);
		assert_int_equal(readopted(n), i / 2);
		bring_back(name);
		since = node_ms();
		until_readopted(n, i / 2 + 1);
		printf("%s of node %u: taken back after %llu ms\n",
		       r ? "SUP" : "SOUT", i & 1, node_ms() - since);
		until_used(n, r);
		moving_by(&moving, 3);
	}
	printf("%u devices lost and taken back: 0 errors, 0 wrong\n", times);
}

static void an_operator_may_keep_it_for_himself(void **state)
{
	const struct node *n = &node[0];
	json_int_t before = readopted(n), count;
	struct run run;
	json_t *data;

	(void)state;
	json_decref(node_ask(n, "set failover.readopt no"));
	take_away(n->sup);
	until_down(n, 1);
	bring_back(n->sup);
	data = ask(n, "upgrade", "show");
	count = json_integer_value(json_object_get(data, "count"));
	json_decref(data);
	moving_upgrade_begin(&run, n, NULL);
	moving_until(&moving, &run, 1);
	if (run.status)
		fail_msg("%s", run.err);
	data = ask(n, "upgrade", "show");
	assert_int_equal(json_integer_value(json_object_get(data, "count")),
			 count + 1);
	json_decref(data);
	assert_int_equal(readopted(n), before + 1);
	until_used(n, 1);
	moving_by(&moving, 3);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_device_that_comes_back_carries_again),
		cmocka_unit_test(an_operator_may_keep_it_for_himself),
	};

	if (argc > 1)
		times = (unsigned)atoi(argv[1]);
	if (argc > 2)
		hold_ms = argv[2];
	if (times == 0)
		return 2;
	return cmocka_run_group_tests(tests, start, stop);
}
