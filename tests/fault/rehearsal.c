/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rehearsal: an operator injects each fault on a node's SUP under checked
 * messages. No call fails and no message is wrong. Each fault has the effect
 * that its name says and ends on time. Then the rail is used again.
 */
#include <stdio.h>
#include <sys/prctl.h>

#include "moving.h"
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

	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	moving_start(&moving, node, 7, args);
	return 0;
}

static int stop(void **state)
{
	moving_end(&moving, node);
	return 0;
}

/* Run mpibctl fault. Return NULL if it succeeds, otherwise its error. */
static const char *fault(const char *verb, const char *a, const char *b,
			 const char *c)
{
	const char *argv[] = { "mpibctl", "-s", node[0].dir, "fault", verb,
			       a,	  b,	c,	     NULL };
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

static unsigned played(void)
{
	json_t *data = node_ask(&node[0], "faults");
	unsigned n = (unsigned)json_array_size(data);

	json_decref(data);
	return n;
}

TEST(jobs_survive_each_fault_and_each_fault_ends)
{
	static const struct {
		const char *what, *seconds, *kind;
	} row[] = {
		{ "rate=200", "1", NULL },
		{ "delay=1000", "1", NULL },
		{ "qp-kill", "1", "failover" },
		{ "link-down", "600", "rail_down" },
		{ "black-hole", "600", "failover" },
	};

	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		json_int_t since = newest();
		const char *error =
			fault("play", row[i].what, "SUP", row[i].seconds);

		if (error)
			fail_msg("%s: %s", row[i].what, error);
		until_told(since, "fault");
		if (row[i].kind)
			until_told(since, row[i].kind);
		/* A slow machine may notice the fault late. So the fault has a
		 * long time limit, and the test ends the fault here. */
		if (!strcmp(row[i].seconds, "600"))
			assert_null(fault("end", "SUP", NULL, NULL));
		until_told(since, "fault_end");
		assert_int_equal(played(), 0);
		if (row[i].kind)
			until_told(since, "failback");
		until_used(MPIB_RAIL_SUP);
	}
}

/* A fault of the lanes to a peer acts like a fault of the rail here, since all
 * lanes lead to that peer. */
TEST(a_fault_of_the_lanes_to_a_peer_can_be_ended_by_the_peers_name)
{
	json_t *data = node_ask(&node[0], "peers");
	json_int_t since = newest();
	char on[96], name[96];
	const char *error;

	snprintf(on, sizeof(on), "sup@%s",
		 json_string_value(
			 json_object_get(json_array_get(data, 0), "peer")));
	json_decref(data);
	assert_non_null(strstr(fault("play", "black-hole", "SUP@nobody", "1"),
			       "no lane leads to \"nobody\""));
	assert_non_null(strstr(fault("play", "gone", on, "1"),
			       "cannot be limited to the lanes to a peer"));
	assert_null(fault("play", "delay=1", on, "600"));
	assert_null(fault("end", "SUP", NULL, NULL));
	/* The command omits the port of the peer's name. The report of the
	 * fault includes the port. */
	snprintf(name, sizeof(name), "%s", strchr(on, '@') + 1);
	*strrchr(on, ':') = '\0';
	error = fault("play", "black-hole", on, "600");
	if (error)
		fail_msg("%s", error);
	until_told(since, "failover");
	data = node_ask(&node[0], "faults");
	assert_string_equal(name, json_string_value(json_object_get(
					  json_array_get(data, 0), "peer")));
	json_decref(data);
	assert_null(fault("end", "SUP", NULL, NULL));
	until_told(since, "failback");
	until_used(MPIB_RAIL_SUP);
}

TEST(a_fault_that_would_end_jobs_is_refused)
{
	static const struct {
		const char *what, *on, *seconds, *text;
	} row[] = {
		{ "black-hole", "SOUT", "1", "SUP is out of use" },
		{ "rate=10", "SUP", "1", "is already active on SUP" },
		{ "sleet", "SUP", "1", "there is no fault \"sleet\"" },
		{ "rate=0", "SOUT", "1", "there is no fault \"rate=0\"" },
		{ "rate=x", "SOUT", "1", "is not a whole number" },
		{ "gone", "EAST", "1", "there is no rail \"EAST\"" },
		{ "gone", "SOUT", "3601", "is not a whole number" },
	};

	assert_null(fault("play", "link-down", "SUP", "600"));
	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		const char *error =
			fault("play", row[i].what, row[i].on, row[i].seconds);

		if (!error || !strstr(error, row[i].text))
			fail_msg("%s: %s", row[i].what, error ? error : "");
	}
	assert_null(fault("end", "SUP", NULL, NULL));
	assert_non_null(strstr(fault("end", "SUP", NULL, NULL),
			       "no fault is active on SUP"));
	until_used(MPIB_RAIL_SUP);
}

/* This must be the last test with these proxies: after the device is lost, the
 * first retry comes only after 30 s. */
TEST(a_lost_device_is_used_again)
{
	json_int_t since = newest();
	const char *error = fault("play", "gone", "SUP", "2");

	if (error)
		fail_msg("%s", error);
	until_told(since, "rail_down");
	until_told(since, "fault_end");
	until_told(since, "device_back");
	node_succeeded(&node[0]);
	until_used(MPIB_RAIL_SUP);
}

TEST(faults_are_refused_unless_enabled)
{
	static struct node quiet;
	const char *argv[] = { "mpibctl", "-s",	 quiet.dir, "fault", "play",
			       "gone",	  "SUP", "1",	    NULL };
	struct run run;

	node_start(&quiet, 5, "--log-level", "error", NULL);
	run_wait(&run, argv);
	assert_int_equal(run.status, 1);
	assert_non_null(strstr(run.err, "faults are not enabled on this node"));
	node_stop(&quiet);
}

struct test_group test_group = { start, stop };
