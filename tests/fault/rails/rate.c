/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the surviving rail carries after the other one failed, against what it
 * carries alone: the same two nodes, the same traffic, first with the other
 * rail drained, then from 500 ms after its link went down. Each round measures
 * both, so that what else the machine does hits both alike.
 *
 *   rate [-n rounds] [-w ms a window] [-m per cent] [-a net]
 *
 * Fails when the best round is below the mark: the machine is shared, and a
 * round that it disturbed says nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "traffic.h"

#define MS 1000000ull
#define AFTER_MS 500

static struct nodes nodes;
static struct traffic traffic;
static unsigned window_ms = 400;

static void run_for(uint64_t ns)
{
	uint64_t end = now_ns() + ns;

	while (now_ns() < end)
		traffic_turn(&traffic, true);
}

/* MB/s over a window. */
static double measure(void)
{
	uint64_t start = now_ns(), bytes = traffic.bytes;

	run_for(window_ms * MS);
	return (double)(traffic.bytes - bytes) * 1e3 /
	       (double)(now_ns() - start);
}

static void set_drain(struct node *node, void *arg)
{
	mpib_engine_drain(node->engine, MPIB_RAIL_SUP, arg != NULL);
}

static void drain(bool on)
{
	for (unsigned i = 0; i < 2; i++)
		node_call(&nodes.node[i], set_drain, on ? &nodes : NULL);
	run_for(100 * MS);
}

static void until_live(void)
{
	uint64_t end = now_ns() + 15000 * MS;

	while (node_live(&nodes.node[0]) != 3 ||
	       node_live(&nodes.node[1]) != 3) {
		run_for(5 * MS);
		if (now_ns() > end)
			die("the rail does not come back");
	}
}

static double round_of(unsigned end)
{
	struct mpib_soft_fault fault = { .link_down = 1 };
	double solo, left;

	drain(true);
	solo = measure();
	drain(false);
	run_for(100 * MS);
	node_fault(&nodes.node[end], MPIB_RAIL_SUP, &fault);
	run_for(AFTER_MS * MS);
	left = measure();
	fault.link_down = 0;
	node_fault(&nodes.node[end], MPIB_RAIL_SUP, &fault);
	until_live();
	printf("SOUT alone %.0f MB/s, %u ms after SUP failed %.0f MB/s: %.1f "
	       "%%\n",
	       solo, AFTER_MS, left, 100 * left / solo);
	return 100 * left / solo;
}

int main(int argc, char **argv)
{
	unsigned rounds = 4, net = 100 + (unsigned)getpid() % 20;
	struct mpib_engine_config cfg;
	double mark = 95, best = 0;
	int opt;

	while ((opt = getopt(argc, argv, "n:w:m:a:")) != -1) {
		if (opt == 'n')
			rounds = (unsigned)atoi(optarg);
		else if (opt == 'w')
			window_ms = (unsigned)atoi(optarg);
		else if (opt == 'm')
			mark = atof(optarg);
		else if (opt == 'a')
			net = (unsigned)atoi(optarg);
		else
			return 2;
	}
	mpib_engine_config_init(&cfg);
	cfg.hold_ms = 10;
	nodes_open(&nodes, &cfg, net, TRAFFIC_MEM, false);
	traffic_open(&traffic, &nodes, 2);
	traffic.fixed = TRAFFIC_MAX;
	traffic.unchecked = true;
	nodes_start(&nodes);
	run_for(100 * MS);
	for (unsigned i = 0; i < rounds; i++) {
		double now = round_of(i & 1);

		best = now > best ? now : best;
	}
	printf("surviving rail: best of %u rounds %.1f %% of its solo rate "
	       "(mark %.0f)\n",
	       rounds, best, mark);
	nodes_close(&nodes);
	return best < mark;
}
