/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last rail of a lane stops without an event: packets vanish, or the peer's QP
 * is gone. It is fenced within seconds, long before its device gives up, and
 * traffic goes on with its next QPs.
 */
#include <stdio.h>

#include "traffic.h"

#define HOUR_MS 3600000u
#define WITHIN_MS 15000 /* a busy machine's, of 3 to 5 s */

static struct nodes nodes;
static struct traffic traffic;

static bool is_live(unsigned rail)
{
	return node_live(&nodes.node[0]) >> rail & 1 &&
	       node_live(&nodes.node[1]) >> rail & 1;
}

static uint64_t until(unsigned rail, bool live, const char *what)
{
	uint64_t start = now_ns();

	while (is_live(rail) != live) {
		traffic_run_for(&traffic, MS);
		if (now_ns() - start > WITHIN_MS * MS)
			die("%s: after %d s rail %u is %s", what,
			    WITHIN_MS / 1000, rail, live ? "out" : "live");
	}
	return (now_ns() - start) / MS;
}

static void packets_vanish(unsigned end)
{
	struct mpib_soft_fault fault = { .black_hole = 1 };
	uint64_t ms;

	node_fault(&nodes.node[end], MPIB_RAIL_SOUT, &fault);
	ms = until(MPIB_RAIL_SOUT, false, "black hole");
	fault.black_hole = 0;
	node_fault(&nodes.node[end], MPIB_RAIL_SOUT, &fault);
	until(MPIB_RAIL_SOUT, true, "black hole");
	traffic_until_moved(&traffic, "black hole");
	printf("black hole at node %u: fenced after %llu ms, 0 errors\n", end,
	       (unsigned long long)ms);
}

static void a_qp_is_gone(unsigned end)
{
	uint64_t start = now_ns();

	if (!node_kill_qp(&nodes.node[end], MPIB_RAIL_SOUT, 0))
		die("there is no QP");
	traffic_until_moved(&traffic, "QP gone");
	printf("QP gone at node %u: traffic after %llu ms, 0 errors\n", end,
	       (unsigned long long)((now_ns() - start) / MS));
}

int main(void)
{
	struct mpib_soft_fault down = { .link_down = 1 };
	struct mpib_engine_config cfg;

	mpib_engine_config_init(&cfg);
	cfg.grace_ms = HOUR_MS;
	nodes_open(&nodes, &cfg, TRAFFIC_MEM, false);
	traffic_open(&traffic, &nodes, 4);
	nodes_start(&nodes);
	traffic_until_moved(&traffic, "start");
	node_fault(&nodes.node[1], MPIB_RAIL_SUP, &down);
	until(MPIB_RAIL_SUP, false, "start");
	for (unsigned end = 0; end < 2; end++) {
		packets_vanish(end);
		a_qp_is_gone(end);
	}
	nodes_close(&nodes);
	return 0;
}
