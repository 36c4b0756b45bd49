/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outlive [N]: N times under traffic one of two proxies is killed and started again
 * where it was, or both are. No call of their clients fails, and each message comes
 * once and whole, by connections that last from the first kill to the last.
 */
#include <stdio.h>
#include <stdlib.h>

#include "mover.h"
#include "node.h"
#include "test.h"

#define MOVERS 8

static struct node node[2];
static unsigned kills = 4;

static void move(struct mover *m, uint64_t messages)
{
	for (unsigned i = 0; i < MOVERS; i++)
		mover_must(mover_move(&m[i], messages));
}

/* Half of them send from the first node, half to it; half without a copy. */
static void open_movers(struct mover *m)
{
	for (unsigned i = 0; i < MOVERS; i++)
		mover_must(mover_open(&m[i], node[i & 1].dir,
				      node[1 - (i & 1)].dir, 200000, i & 2, i));
	for (unsigned i = 0; i < MOVERS; i++)
		mover_must(mover_wait(&m[i]));
}

/* So that messages are under way. */
static void step(struct mover *m, unsigned times)
{
	while (times-- > 0) {
		for (unsigned i = 0; i < MOVERS; i++) {
			int rc = mover_step(&m[i]);

			mover_must(rc < 0 ? rc : 0);
		}
	}
}

static void a_job_outlives_its_proxies(void **state)
{
	struct mover m[MOVERS];

	node_start(&node[0], 5, "--log-level", "error", "--resume-grace", "30",
		   NULL);
	node_start(&node[1], 6, "--log-level", "error", "--resume-grace", "30",
		   NULL);
	open_movers(m);
	srand(815);
	for (unsigned k = 0; k < kills; k++) {
		bool first = k % 3 != 1, second = k % 3 != 0;

		move(m, (unsigned)rand() % 8);
		step(m, (unsigned)rand() % 200);
		if (first)
			node_kill(&node[0]);
		if (second)
			node_kill(&node[1]);
		step(m, (unsigned)rand() % 200);
		if (first)
			node_again(&node[0]);
		step(m, (unsigned)rand() % 200);
		if (second)
			node_again(&node[1]);
		move(m, 3);
	}
	for (unsigned i = 0; i < MOVERS; i++)
		mover_close(&m[i]);
	node_stop(&node[0]);
	node_stop(&node[1]);
	printf("%u times proxies killed: 0 errors, 0 wrong\n", kills);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(a_job_outlives_its_proxies),
	{ 0 },
};
unsigned *test_times = &kills;
