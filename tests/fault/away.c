/* SPDX-License-Identifier: Apache-2.0 */
/*
 * away: what the node of a device that failed is good for while it is away. With
 * one rail its connections end, each end told once and alike, and nothing hangs;
 * with the device back all of it works again.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gone.h"

#define ROOM 400000

static struct node node[2];

static int setup(void **state)
{
	(void)state;
	gone_begin();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	gone_end();
	return 0;
}

static void open_ready(struct mover *m, unsigned from, uint64_t seed)
{
	unsigned long long since = node_ms();
	int rc = mover_open(m, node[from].dir, node[1 - from].dir, ROOM,
			    seed & 1, seed);

	while (rc == 0 && node_ms() - since < MOVING_HANG_MS)
		rc = mover_ready(m);
	if (rc != 1)
		fail_msg("from node %u: %s", from, mpib_strerror());
}

static void move(struct mover *m, unsigned messages)
{
	unsigned long long since = node_ms();
	uint64_t goal = m->messages + messages;

	while (m->messages < goal) {
		if (mover_step(m) < 0)
			fail_msg("%s", mpib_strerror());
		if (node_ms() - since > MOVING_HANG_MS)
			fail_msg("a message never arrives");
	}
	assert_int_equal(m->wrong, 0);
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
	static struct mover m[2];

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		node_start(&node[i], 7 + i, "--log-level", "error", "--sup",
			   "none", "--failover-hold-down", "200", NULL);
	for (unsigned i = 0; i < 2; i++) {
		open_ready(&m[i], i, i);
		move(&m[i], 3);
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
	gone_return(node[0].sout);
	gone_until_readopted(NULL, &node[0], 1);
	for (unsigned i = 0; i < 2; i++) {
		mover_close(&m[i]);
		open_ready(&m[i], i, i);
		move(&m[i], 3);
		mover_close(&m[i]);
	}
	for (unsigned i = 0; i < 2; i++) {
		node_until_ledger(&node[i], "sessions", 0);
		node_stop(&node[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			connections_of_one_rail_end_and_new_ones_work_later),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
