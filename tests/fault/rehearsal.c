/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rehearsal: each fault of a node's SUP under checked messages. No call fails
 * and no message is wrong. Each fault has the effect that its name says. When
 * the fault ends, the rail is used again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "moving.h"
#include "scratch.h"
#include "test.h"

static struct node node[2];
static struct moving moving;

static int start(void **state)
{
	static const char *const args[] = { "--fault",
					    "yes",
					    "--failover-hold-down",
					    "20",
					    "--failover-grace",
					    MOVING_GRACE_MS,
					    "--qp-timeout",
					    "14",
					    NULL };

	assert_int_equal(scratch_make(NULL), 0);
	setenv("MPIB_SOFT_FAULTS", scratch, 1);
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	moving_start(&moving, node, 7, args);
	return 0;
}

static int stop(void **state)
{
	moving_end(&moving, node);
	return scratch_remove(NULL);
}

/* Give SUP this fault, or end its fault if `fault` is NULL. */
static void set_fault(const char *fault)
{
	const char *name = node[0].sup + strlen("soft:");

	if (fault)
		scratch_write(name, fault);
	else
		assert_int_equal(unlink(scratch_path(name)), 0);
}

/* Break the QPs of a rail. Return NULL if mpibctl succeeds, otherwise its
 * error. */
static const char *play(const char *rail)
{
	const char *argv[] = { "mpibctl", "-s", node[0].dir, "fault",
			       "play",	  rail, NULL };
	static struct run run;

	run_begin(&run, argv);
	moving_until(&moving, &run, 1);
	return run.status ? run.err : NULL;
}

/* Return the number of the newest event. */
static json_int_t newest(void)
{
	json_t *data = node_ask(&node[0], "events 1000000000");
	json_int_t last = json_integer_value(json_object_get(data, "last"));

	json_decref(data);
	return last;
}

/* Wait until node 0 reports an event of this kind on SUP that is newer than
 * event number `since`. */
static void until_told(json_int_t since, const char *kind)
{
	unsigned long long begin = node_ms();
	char command[64];
	bool told = false;

	snprintf(command, sizeof(command), "events %lld", (long long)since);
	while (!told) {
		json_t *data, *event;
		size_t i;

		moving_by(&moving, 1);
		data = node_ask(&node[0], command);
		json_array_foreach(json_object_get(data, "events"), i, event)
		{
			const char *rail = json_string_value(
				json_object_get(event, "rail"));

			told |= rail && !strcmp(rail, "SUP") &&
				!strcmp(json_string_value(
						json_object_get(event, "kind")),
					kind);
		}
		json_decref(data);
		if (node_ms() - begin > MOVING_HANG_MS)
			fail_msg("the proxy reports no event %s", kind);
	}
}

static json_int_t sent(unsigned rail)
{
	json_t *data = node_ask(&node[0], "rails");
	json_int_t bytes = json_integer_value(
		json_object_get(json_array_get(data, rail), "tx_bytes"));

	json_decref(data);
	return bytes;
}

/* Wait until node 0 sends bytes over the rail. */
static void until_used(unsigned rail)
{
	unsigned long long begin = node_ms();
	json_int_t before = sent(rail);

	while (sent(rail) <= before) {
		moving_by(&moving, 1);
		if (node_ms() - begin > MOVING_HANG_MS)
			fail_msg("rail %u is not used again", rail);
	}
}

TEST(jobs_survive_each_fault)
{
	static const struct {
		const char *fault, *kind;
	} row[] = {
		{ "rate=200", NULL },
		{ "delay=1000", NULL },
		{ "link-down", "rail_down" },
		{ "black-hole", "failover" },
	};

	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		json_int_t since = newest();

		set_fault(row[i].fault);
		if (row[i].kind)
			until_told(since, row[i].kind);
		else
			moving_by(&moving, 3);
		set_fault(NULL);
		if (row[i].kind)
			until_told(since, "failback");
		until_used(MPIB_RAIL_SUP);
	}
}

TEST(jobs_survive_a_fault_that_an_operator_plays)
{
	json_int_t since = newest();

	assert_null(play("SUP"));
	until_told(since, "fault");
	until_told(since, "failover");
	until_told(since, "failback");
	until_used(MPIB_RAIL_SUP);
}

TEST(a_fault_that_would_end_jobs_is_refused)
{
	assert_non_null(strstr(play("EAST"), "there is no rail \"EAST\""));
	json_decref(node_ask(&node[0], "drain SUP"));
	assert_non_null(strstr(play("SOUT"), "SOUT is the only rail in use"));
	json_decref(node_ask(&node[0], "resume SUP"));
	until_used(MPIB_RAIL_SUP);
}

/* This must be the last test with these proxies: after the device is lost, the
 * first retry comes only after 30 s. */
TEST(a_lost_device_is_used_again)
{
	json_int_t since = newest();

	set_fault("gone");
	until_told(since, "rail_down");
	set_fault(NULL);
	until_told(since, "device_back");
	node_succeeded(&node[0]);
	until_used(MPIB_RAIL_SUP);
}

TEST(faults_are_refused_unless_enabled)
{
	static struct node quiet;
	const char *argv[] = { "mpibctl", "-s",	 quiet.dir, "fault",
			       "play",	  "SUP", NULL };
	struct run run;

	node_start(&quiet, 5, "--log-level", "error", NULL);
	run_wait(&run, argv);
	assert_int_equal(run.status, 1);
	assert_non_null(strstr(run.err, "faults are not enabled on this node"));
	node_stop(&quiet);
}

struct test_group test_group = { start, stop };
