/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for traffic: for all of it, or for some of each connection. */
#include "traffic.h"

bool traffic_dry(const struct traffic *t)
{
	for (unsigned i = 0; i < t->conns; i++) {
		const struct conn *c = &t->conn[i];

		/* Receives beyond the last send stay posted. */
		if (c->tx.done != c->tx.posted || c->rx.done < c->tx.posted)
			return false;
	}
	return true;
}

void traffic_run_dry(struct traffic *t, struct nodes *n)
{
	uint64_t end = now_ns() + 60000000000ull;

	while (!traffic_dry(t)) {
		traffic_turn(t, false);
		for (unsigned i = 0; i < 2; i++) {
			mpib_shard_turn(&n->node[i].engine->shard[0]);
			mpib_loop_turn(&n->node[i].loop, 0);
		}
		if (now_ns() > end)
			die("what was posted does not end");
	}
}

void traffic_mark(struct traffic *t)
{
	for (unsigned i = 0; i < t->conns; i++) {
		t->conn[i].last_ns = 0;
		t->conn[i].mark = t->conn[i].tx.posted;
	}
}

uint64_t traffic_marked(const struct traffic *t)
{
	uint64_t last = 0;

	for (unsigned i = 0; i < t->conns; i++) {
		if (!t->conn[i].last_ns)
			return 0;
		if (t->conn[i].last_ns > last)
			last = t->conn[i].last_ns;
	}
	return last;
}
