/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device acknowledges writes, loses them before they are in memory, and dies:
 * checked traffic between two real nodes, at a random rail of a random end.
 * Where a send ends when it is delivered nothing may be lost and no client may
 * see an error.
 *
 *   acked [-n losses] [-s seed] [-c connections] [-p] [-w]
 *
 * With -w sends end when they are acknowledged. Then the first loss that
 * matters has to end its connection with an error, and no byte may be wrong.
 *
 * What counts are chunks that were acknowledged and not seen, so it goes on
 * until there was that many faults with some.
 */
#include <stdio.h>

#include "draw.h"
#include "drawn.h"
#include "traffic.h"

/* A rail may have nothing to lose just then. */
#define TRIES 20

static struct nodes nodes;
static struct traffic traffic;
static uint64_t rng;

/* Stripes of both ends that were acknowledged and asked for again. */
static uint64_t acked_stripes(void)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < 2; i++) {
		struct mpib_snapshot *s = node_snapshot(&nodes.node[i]);

		for (unsigned r = 0; r < 2; r++)
			n += s->rail[r].failover.acked_stripes;
		mpib_snapshot_free(s);
	}
	return n;
}

static void lose(void)
{
	static const struct mpib_soft_fault none;
	struct mpib_soft_fault fault = { .forgets = 1 };
	struct node *node = &nodes.node[draw(&rng, 2)];
	unsigned rail = (unsigned)draw(&rng, 2);
	uint64_t before = node_forgotten(node, rail), start = now_ns();
	uint64_t some = 1 + draw(&rng, 8);

	node_fault(node, rail, &fault);
	while (node_forgotten(node, rail) - before < some &&
	       now_ns() - start < 20 * MS)
		traffic_turn(&traffic, true);
	traffic_run_for(&traffic,
			draw(&rng, 500) *
				1000); /* for the acknowledgements to leave */
	fault.link_down = 1;
	node_fault(node, rail, &fault);
	traffic_mark(&traffic);
	traffic_until_marked(&traffic, "a rail is lost");
	if (traffic.failed)
		return;
	node_fault(node, rail, &none);
	traffic_until_live(&traffic, &nodes);
}

/* How many faults had something to lose, of at least so many. */
static unsigned lose_until(unsigned losses, unsigned *faults)
{
	unsigned lost = 0;

	while (lost < losses && *faults < TRIES * losses && !traffic.failed) {
		uint64_t before = acked_stripes();

		traffic_run_for(&traffic, draw(&rng, 3000) * 1000);
		lose();
		(*faults)++;
		lost += acked_stripes() > before;
	}
	return lost;
}

static void open_nodes(struct drawn *d, bool wire)
{
	rng = d->seed;
	d->cfg.hold_ms = 1;
	nodes_open(&nodes, &d->cfg, TRAFFIC_MEM, d->private_lanes);
	traffic_open(&traffic, &nodes, d->conns);
	traffic.seed = rng;
	traffic.aligned = true;
	traffic.may_fail = wire;
	nodes_start(&nodes);
	traffic_run_for(&traffic, 20 * MS);
}

static void report(unsigned lost, unsigned faults, bool wire)
{
	if (wire && !traffic.failed)
		die("%u faults, and no connection ended", faults);
	if (wire) {
		printf("completion = wire: fault %u ended a connection with "
		       "an error, 0 bytes wrong\n",
		       faults);
		return;
	}
	traffic_run_dry(&traffic, NULL);
	printf("%u devices of %u died with what they had acknowledged, %llu "
	       "chunks; %llu messages, %llu bytes: 0 lost, 0 changed, 0 "
	       "errors\n",
	       lost, faults, (unsigned long long)acked_stripes(),
	       (unsigned long long)traffic.messages,
	       (unsigned long long)traffic.bytes);
}

int main(int argc, char **argv)
{
	unsigned faults = 0, lost;
	struct drawn d;
	bool wire;

	if (!drawn_args(&d, 8, argc, argv))
		return 2;
	wire = d.cfg.completion == MPIB_COMPLETION_WIRE;
	open_nodes(&d, wire);
	lost = lose_until(d.rounds, &faults);
	if (lost < d.rounds && !wire)
		die("only %u of %u faults lost something", lost, faults);
	report(lost, faults, wire);
	nodes_close(&nodes);
	return 0;
}
