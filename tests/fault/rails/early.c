/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices that fail early: at a drawn moment of two nodes' getting memory and
 * connections, one end loses the device of a rail, at times the other end its own
 * of the same rail. Half of them are told of it by an event before they ask the
 * device for anything, the others by the call that fails. All connections come
 * up, those already begun and those that begin then, and checked traffic goes
 * over the other rail.
 *
 *   early [-n rounds] [-s seed] [-p] [-a] [-m spread]
 */
#include <stdio.h>
#include <stdlib.h>

#include "drawn.h"
#include "traffic.h"

#define MOMENTS 32
#define MESSAGES 16 /* of each connection */

static struct nodes nodes;
static struct traffic traffic;

/* Of one round. */
struct losses {
	unsigned rail;
	unsigned at[2]; /* by end: the turn; UINT32_MAX: never */
	bool told;
	unsigned turns;
};

static void lose(struct node *node, unsigned rail, bool told)
{
	const struct mpib_soft_fault gone = { .gone = 1 };
	struct mpib_shard *s = &node->engine->shard[0];

	node_fault(node, rail, &gone);
	while (told && !s->rail[rail].dead)
		mpib_async_turn(s);
}

static void on_turn(struct nodes *n, void *arg)
{
	struct losses *l = arg;

	for (unsigned i = 0; i < 2; i++) {
		if (n->node[i].engine && l->turns >= l->at[i]) {
			l->at[i] = UINT32_MAX;
			lose(&n->node[i], l->rail, l->told);
		}
	}
	l->turns++;
}

static void move(void)
{
	uint64_t end = now_ns() + HANG_MS * MS;
	uint64_t goal = traffic.messages + MESSAGES * traffic.conns;

	while (traffic.messages < goal || !traffic_dry(&traffic)) {
		traffic_turn(&traffic, traffic.messages < goal);
		if (now_ns() > end)
			die("traffic hangs");
	}
}

/* Either end has the lost rail fenced, and the other one not. */
static void until_fenced(unsigned rail)
{
	uint64_t end = now_ns() + HANG_MS * MS;

	for (unsigned i = 0; i < 2; i++) {
		while (node_live(&nodes.node[i]) != (3 & ~(1u << rail))) {
			if (now_ns() > end)
				die("node %u: the lost rail is not fenced", i);
		}
	}
}

static void play(const struct mpib_engine_config *cfg, bool private_lanes)
{
	struct losses l = { .rail = (unsigned)rand() % 2 };
	unsigned first = (unsigned)rand() % 2;

	l.at[first] = (unsigned)rand() % MOMENTS;
	l.at[!first] = rand() % 4 ? UINT32_MAX : (unsigned)rand() % MOMENTS;
	l.told = rand() % 2;
	nodes_each_turn(on_turn, &l);
	nodes_open(&nodes, cfg, TRAFFIC_MEM, private_lanes);
	traffic_open(&traffic, &nodes, TRAFFIC_CONNS);
	/* Fewer turns than that were enough. */
	l.turns = MOMENTS;
	on_turn(&nodes, &l);
	nodes_start(&nodes);
	move();
	until_fenced(l.rail);
	move();
	nodes_close(&nodes);
}

int main(int argc, char **argv)
{
	struct drawn d;
	uint64_t messages = 0;

	if (!drawn_args(&d, 20, argc, argv))
		return 2;
	if (d.cfg.spread)
		d.cfg.frag = MPIB_FRAG_MIN;
	for (unsigned i = 0; i < d.rounds; i++) {
		srand(d.seed + i);
		printf("seed %u\n", d.seed + i);
		fflush(stdout);
		play(&d.cfg, d.private_lanes);
		messages += traffic.messages;
	}
	printf("%u devices failed while connections came up: %llu messages, "
	       "0 lost, doubled or changed, 0 errors\n",
	       d.rounds, (unsigned long long)messages);
	return 0;
}
