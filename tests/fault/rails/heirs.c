/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heirs: nodes are taken over while messages go both ways, one or both at once,
 * with every thread of theirs played here, turn by turn in an order drawn by
 * chance: one end runs ahead of the other by any number of turns, so that a
 * fence, a word or a clear-to-send of the one may come at any moment of the
 * other's. Nothing may be lost, doubled or changed, and nothing may hang.
 *
 *   heirs [-n rounds] [-s seed] [-p] [-a] [-m spread]
 */
#include <stdio.h>

#include "drawn.h"
#include "engine/handover/handover.h"
#include "heir.h"
#include "peer/handover/handover.h"
#include "traffic.h"

#define HOUR_MS 3600000u
#define BURST 40 /* turns of one thread in a row, at most */
#define EARLY 400 /* turns until a handover begins, at most */

static struct nodes nodes;
static struct traffic traffic;
static uint64_t chance;
static unsigned moves;

static unsigned draw(unsigned n)
{
	chance = chance * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(chance >> 33) % n;
}

/* One of the four threads, for a while. */
static void turn(void)
{
	unsigned which = draw(5), turns = 1 + draw(draw(BURST) + 1);
	struct node *node = &nodes.node[which & 1];

	if (which == 4) {
		traffic_turn(&traffic, true);
		return;
	}
	while (turns-- > 0) {
		if (which & 2)
			mpib_shard_turn(&node->engine->shard[0]);
		else
			mpib_loop_turn(&node->loop, 0);
	}
}

/* What is to be done with a node in a round. */
struct plan {
	struct node *node;
	unsigned wait; /* turns before it begins */
	bool moved;
};

static void go_on_with(struct plan *p)
{
	char why[200];

	if (p->moved || (p->wait > 0 && p->wait-- > 0))
		return;
	mpib_engine_leave(p->node->engine);
	if (!mpib_engine_left(p->node->engine))
		return;
	mpib_engine_halt(p->node->engine);
	if (!mpib_engine_left(p->node->engine) ||
	    mpib_broker_quiescent(p->node->broker, why, sizeof(why)) < 0)
		return;
	node_hand_over(p->node, nodes.mem);
	p->moved = true;
	moves++;
}

static void round_of(unsigned number)
{
	uint64_t end = now_ns() + HANG_MS * MS;
	unsigned who = draw(3), first = who & 1, n = 1 + (who == 2);
	struct plan plan[2] = {
		{ &nodes.node[first], draw(EARLY), false },
		{ &nodes.node[!first], draw(EARLY), n < 2 },
	};
	char what[32];

	while (!plan[0].moved || !plan[1].moved) {
		for (unsigned i = 0; i < 2; i++)
			go_on_with(&plan[i]);
		turn();
		if (now_ns() > end)
			die("round %u: a handover hangs", number);
	}
	snprintf(what, sizeof(what), "round %u", number);
	traffic_until_moved(&traffic, what);
}

int main(int argc, char **argv)
{
	struct drawn d;

	if (!drawn_args(&d, 20, argc, argv))
		return 2;
	chance = d.seed;
	d.cfg.hold_ms = 1;
	d.cfg.grace_ms = HOUR_MS;
	nodes_open(&nodes, &d.cfg, TRAFFIC_MEM, d.private_lanes);
	traffic_open(&traffic, &nodes, d.private_lanes ? 4 : TRAFFIC_CONNS);
	traffic.seed = d.seed;
	traffic.turn = turn;
	for (unsigned i = 0; i < 2; i++)
		mpib_engine_halt(nodes.node[i].engine);
	for (unsigned i = 0; i < d.rounds; i++)
		round_of(i);
	traffic_run_dry(&traffic, &nodes);
	printf("%u handovers in %u rounds, seed %u: %llu messages, 0 lost, "
	       "doubled or changed\n",
	       moves, d.rounds, d.seed, (unsigned long long)traffic.messages);
	nodes_start(&nodes); /* for those who close them */
	nodes_close(&nodes);
	return 0;
}
