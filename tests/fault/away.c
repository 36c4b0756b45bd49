/* SPDX-License-Identifier: Apache-2.0 */
/*
 * away: what nodes are good for while a device that failed is away. Jobs start
 * over the rail that is left, and later ones use both, once the device is there
 * again and the proxy was restarted; where none is left, or none in common, each end
 * is told so once, and nothing hangs.
 */
#include <errno.h>
#include <stdio.h>

#include "gone.h"
#include "test.h"

#define ROOM 400000

static struct node node[2];

static int setup(void **state)
{
	gone_begin();
	return 0;
}

static int teardown(void **state)
{
	gone_end();
	return 0;
}

static void open_ready(struct mover *m, unsigned from, uint64_t seed)
{
	mover_must(mover_begin(m, node[from].dir, node[1 - from].dir, ROOM,
			       seed & 1, seed));
}

/* The device of a rail returns, and the operator does what he is told. */
static void taken_back(struct node *n, const char *rail)
{
	gone_return(rail);
	gone_until_told(NULL, n, "is there again");
	node_kill(n);
	node_again(n);
}

/* One end's request fails, within the time that nothing may hang. */
static void until_error(struct mpib_request *r, const char *text)
{
	unsigned long long since = node_ms();
	int done = 0, rc = 0;

	while (r && rc == 0 && !done) {
		rc = mpib_test(r, &done, NULL);
		if (node_ms() - since > MOVING_HANG_MS)
			fail_msg("a request hangs on a device that is gone");
	}
	if (rc < 0 && !strstr(mpib_strerror(), text))
		fail_msg("%s", mpib_strerror());
}

static void connections_of_one_rail_end_and_new_ones_work_later(void **state)
{
	static const char failed[] = "its device failed or was removed";
	static struct mover m[2], none;

	for (unsigned i = 0; i < 2; i++)
		node_start(&node[i], 7 + i, "--log-level", "error", "--sup",
			   "none", "--failover-hold-down", "200",
			   "--resume-grace", "0", NULL);
	for (unsigned i = 0; i < 2; i++) {
		open_ready(&m[i], i, i);
		mover_must(mover_move(&m[i], 3));
	}
	gone_take(node[0].sout);
	for (unsigned i = 0; i < 2; i++) {
		unsigned long long since = node_ms();
		int rc = 0;

		while (rc >= 0) {
			rc = mover_step(&m[i]);
			if (node_ms() - since > MOVING_HANG_MS)
				fail_msg("nobody says that a device is gone");
		}
		if (!strstr(mpib_strerror(), failed))
			fail_msg("from node %u: %s", i, mpib_strerror());
		until_error(m[i].sent, failed);
		until_error(m[i].received, failed);
	}
	/* There is nothing to register on. */
	assert_true(mover_open(&none, node[0].dir, node[1].dir, ROOM, true, 1) <
		    0);
	if (!strstr(mpib_strerror(), "no rail is left") ||
	    !strstr(mpib_strerror(), node[0].sout + 5))
		fail_msg("%s", mpib_strerror());
	mpib_detach(none.from);
	mpib_detach(none.to);
	for (unsigned i = 0; i < 2; i++)
		mover_close(&m[i]);
	taken_back(&node[0], node[0].sout);
	for (unsigned i = 0; i < 2; i++) {
		open_ready(&m[i], i, i);
		mover_must(mover_move(&m[i], 3));
		mover_close(&m[i]);
	}
	for (unsigned i = 0; i < 2; i++) {
		node_until_usage(&node[i], "clients", 0);
		node_stop(&node[i]);
	}
}

static struct moving moving;

static void start(void)
{
	for (unsigned i = 0; i < 2; i++)
		node_start(&node[i], 7 + i, "--log-level", "error",
			   "--failover-hold-down", "200", "--failover-grace",
			   MOVING_GRACE_MS, NULL);
}

static void stop(void)
{
	for (unsigned i = 0; i < 2; i++)
		node_stop(&node[i]);
}

/* A job that starts while devices are away: it attaches, registers and connects
 * both ways. The next one has all rails. */
static void outlive(const char *const *lost, unsigned r)
{
	start();
	for (unsigned i = 0; i < 2; i++) {
		if (!lost[i])
			continue;
		gone_take(lost[i]);
		gone_until_down(NULL, &node[i], r);
	}
	moving_open(&moving, node);
	moving_by(&moving, 5);
	moving_close(&moving);
	for (unsigned i = 0; i < 2; i++) {
		if (lost[i])
			taken_back(&node[i], lost[i]);
	}
	moving_open(&moving, node);
	for (unsigned i = 0; i < 2; i++) {
		gone_until_used(&moving, &node[i], MPIB_RAIL_SOUT);
		gone_until_used(&moving, &node[i], MPIB_RAIL_SUP);
	}
	moving_by(&moving, 5);
	moving_end(&moving, node);
}

static void a_job_may_start_while_sup_is_away(void **state)
{
	const char *lost[2] = { NULL };

	/* As start() has them. */
	node_rail(node[0].sup, sizeof(node[0].sup), 71);
	lost[0] = node[0].sup;
	outlive(lost, MPIB_RAIL_SUP);
}

static void a_job_may_start_while_sout_is_away_at_the_other_end(void **state)
{
	const char *lost[2] = { NULL };

	node_rail(node[1].sout, sizeof(node[1].sout), 80);
	lost[1] = node[1].sout;
	outlive(lost, MPIB_RAIL_SOUT);
}

static void a_job_may_start_while_both_ends_lack_the_same_rail(void **state)
{
	const char *lost[2];

	for (unsigned i = 0; i < 2; i++) {
		node_rail(node[i].sout, sizeof(node[i].sout), 10 * (7 + i));
		lost[i] = node[i].sout;
	}
	outlive(lost, MPIB_RAIL_SOUT);
}

/* Which has QPs of the lost rail to come, and none to be dirty or stopped. */
static void a_lane_that_is_short_of_a_rail_may_break(void **state)
{
	for (unsigned i = 0; i < 2; i++)
		node_start(&node[i], 7 + i, "--log-level", "error",
			   "--failover-hold-down", "200", "--lane-spread",
			   "spray", "--lane-frag", "4096", NULL);
	gone_take(node[0].sup);
	gone_until_down(NULL, &node[0], MPIB_RAIL_SUP);
	moving_open(&moving, node);
	moving_by(&moving, 3);
	moving_close(&moving);
	node_kill(&node[1]);
	node_again(&node[1]);
	taken_back(&node[0], node[0].sup);
	moving_open(&moving, node);
	moving_by(&moving, 3);
	gone_until_used(&moving, &node[1], MPIB_RAIL_SUP);
	moving_end(&moving, node);
}

/* Until it cannot come to be any more. */
static void until_refused(struct mover *m, const char *const *texts)
{
	unsigned long long since = node_ms();
	int rc = 0;

	while (rc == 0 && node_ms() - since < MOVING_HANG_MS)
		rc = mpib_ready(m->tx);
	assert_int_equal(rc, -ENETDOWN);
	for (; *texts; texts++) {
		if (!strstr(mpib_strerror(), *texts))
			fail_msg("%s", mpib_strerror());
	}
}

static void ends_without_a_common_rail_are_told_so_at_once(void **state)
{
	static struct mover m;
	const char *texts[] = { "no rail is left that both ends have",
				node[1].sout + 5, "SUP at the other end",
				"restart its", NULL };

	start();
	gone_take(node[0].sup);
	gone_take(node[1].sout);
	gone_until_down(NULL, &node[0], MPIB_RAIL_SUP);
	gone_until_down(NULL, &node[1], MPIB_RAIL_SOUT);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(
			mover_open(&m, node[0].dir, node[1].dir, ROOM, i, i),
			0);
		until_refused(&m, texts);
		mover_close(&m);
	}
	/* One that is back is enough. */
	taken_back(&node[1], node[1].sout);
	open_ready(&m, 0, 1);
	mover_must(mover_move(&m, 3));
	mover_close(&m);
	gone_return(node[0].sup);
	stop();
}

static void without_failover_a_lane_needs_both_rails(void **state)
{
	static struct mover m;
	const char *texts[] = { "both ends cannot go without a rail", "SUP (",
				node[0].sup + 5, "failover.enable", NULL };
	FILE *conf;

	start();
	node_kill(&node[1]);
	conf = fopen(node[1].conf, "a");
	fprintf(conf, "[failover]\nenable = no\n");
	fclose(conf);
	node_again(&node[1]);
	gone_take(node[0].sup);
	gone_until_down(NULL, &node[0], MPIB_RAIL_SUP);
	assert_int_equal(
		mover_open(&m, node[1].dir, node[0].dir, ROOM, true, 1), 0);
	until_refused(&m, texts);
	mover_close(&m);
	gone_return(node[0].sup);
	stop();
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(connections_of_one_rail_end_and_new_ones_work_later),
	cmocka_unit_test(a_job_may_start_while_sup_is_away),
	cmocka_unit_test(a_job_may_start_while_sout_is_away_at_the_other_end),
	cmocka_unit_test(a_job_may_start_while_both_ends_lack_the_same_rail),
	cmocka_unit_test(a_lane_that_is_short_of_a_rail_may_break),
	cmocka_unit_test(ends_without_a_common_rail_are_told_so_at_once),
	cmocka_unit_test(without_failover_a_lane_needs_both_rails),
	{ 0 },
};
struct test_group test_group = { setup, teardown };
