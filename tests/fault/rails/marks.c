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

void traffic_run_for(struct traffic *t, uint64_t ns)
{
	uint64_t end = now_ns() + ns;

	do
		traffic_turn(t, true);
	while (now_ns() < end);
}

void traffic_until_live(struct traffic *t, struct nodes *n)
{
	uint64_t end = now_ns() + HANG_MS * MS;

	while (node_live(&n->node[0]) != 3 || node_live(&n->node[1]) != 3) {
		traffic_run_for(t, MS);
		if (now_ns() > end)
			die("a rail does not come back");
	}
}

void traffic_run_dry(struct traffic *t, struct nodes *n)
{
	uint64_t end = now_ns() + HANG_MS * MS;

	while (!traffic_dry(t)) {
		traffic_turn(t, false);
		for (unsigned i = 0; n && i < 2; i++) {
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

uint64_t traffic_until_marked(struct traffic *t, const char *what)
{
	uint64_t end = now_ns() + HANG_MS * MS;

	while (!traffic_marked(t) && !t->failed) {
		traffic_turn(t, true);
		if (now_ns() > end)
			die("%s: traffic stands still", what);
	}
	return traffic_marked(t);
}
