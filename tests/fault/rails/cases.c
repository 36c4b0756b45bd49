/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a storm does not show: a link that flaps, a rail that is drained, and
 * no rail at all for longer than the grace.
 *
 *   cases [-a net]
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "traffic.h"

#define MS 1000000ull
#define HOLD_MS 400
#define GRACE_MS 500

static struct nodes nodes;
static struct traffic traffic;

static void run_for(uint64_t ns)
{
	uint64_t end = now_ns() + ns;

	while (now_ns() < end)
		traffic_turn(&traffic, true);
}

static void set_link(unsigned end, unsigned rail, bool up)
{
	struct mpib_soft_fault fault = { .link_down = !up };

	node_fault(&nodes.node[end], rail, &fault);
}

static void until_live(void)
{
	uint64_t end = now_ns() + 20000 * MS;

	while (node_live(&nodes.node[0]) != 3 ||
	       node_live(&nodes.node[1]) != 3) {
		run_for(5 * MS);
		if (now_ns() > end)
			die("a rail does not come back");
	}
}

static uint64_t failbacks(unsigned end, unsigned rail)
{
	struct mpib_snapshot *s = node_snapshot(&nodes.node[end]);
	uint64_t n = s->rail[rail].failover.failbacks;

	mpib_snapshot_free(s);
	return n;
}

static uint64_t sent(unsigned end, unsigned rail)
{
	struct mpib_snapshot *s = node_snapshot(&nodes.node[end]);
	uint64_t n = s->rail[rail].n.tx_wrs;

	mpib_snapshot_free(s);
	return n;
}

/* Down and up ten times, never up for as long as the hold-down. */
static void a_flapping_link_gets_no_traffic_until_it_is_calm(void)
{
	uint64_t before = failbacks(0, 1);

	for (int i = 0; i < 10; i++) {
		set_link(1, 1, false);
		run_for(HOLD_MS / 4 * MS);
		set_link(1, 1, true);
		run_for(HOLD_MS / 4 * MS);
		if (failbacks(0, 1) != before)
			die("flapping: the rail was used while its link was "
			    "not calm");
	}
	until_live();
	if (failbacks(0, 1) != before + 1)
		die("flapping: the rail came back %llu times",
		    (unsigned long long)(failbacks(0, 1) - before));
	printf("flapping: 10 times down, traffic came back once, 0 errors\n");
}

static void drain(struct node *node, void *arg)
{
	mpib_engine_drain(node->engine, MPIB_RAIL_SOUT, arg != NULL);
}

static void a_drained_rail_carries_nothing_from_either_end(void)
{
	uint64_t before[2], after[2];

	node_call(&nodes.node[0], drain, &nodes);
	run_for(100 * MS);
	for (unsigned i = 0; i < 2; i++)
		before[i] = sent(i, 0);
	traffic_mark(&traffic);
	run_for(200 * MS);
	for (unsigned i = 0; i < 2; i++)
		after[i] = sent(i, 0);
	if (!traffic_marked(&traffic))
		die("drained: traffic stands still");
	if (before[0] != after[0] || before[1] != after[1])
		die("drained: something still goes over the rail");
	node_call(&nodes.node[0], drain, NULL);
	run_for(200 * MS);
	if (sent(0, 0) == after[0] || sent(1, 0) == after[1])
		die("resumed: nothing goes over the rail");
	printf("drain and resume: nothing on the rail, then again, 0 errors\n");
}

static bool all_failed(const struct end *e)
{
	for (uint64_t n = e->done; n < e->posted; n++) {
		const struct mpib_completion *c =
			&e->node->reply
				 ->completion[e->index][n % TRAFFIC_WINDOW];
		int32_t result;

		if (!mpib_completion_poll(c, (uint32_t)n + 1, &result))
			return false;
	}
	return atomic_load(&e->node->reply->conn[e->index].broken) < 0;
}

static void take_why(struct node *node, void *arg)
{
	snprintf(arg, 256, "%s", mpib_broker_why(&node->owner, 0));
}

static void without_any_rail_both_ends_fail_after_the_grace(void)
{
	uint64_t start, took = 0;
	unsigned done = 0;

	for (unsigned r = 0; r < 2; r++)
		set_link(r, r, false);
	start = now_ns();
	while (done < traffic.conns) {
		done = 0;
		for (unsigned i = 0; i < traffic.conns; i++)
			done += all_failed(&traffic.conn[i].tx) &&
				all_failed(&traffic.conn[i].rx);
		took = (now_ns() - start) / MS;
		if (took > GRACE_MS + 3000)
			die("no rail: %u of %u connections failed after "
			    "%llu ms",
			    done, traffic.conns, (unsigned long long)took);
		usleep(1000);
	}
	if (took + 50 < GRACE_MS)
		die("no rail: failed after %llu ms already",
		    (unsigned long long)took);
	for (unsigned i = 0; i < 2; i++) {
		char why[256];

		node_call(&nodes.node[i], take_why, why);
		printf("no rail: node %u after %llu ms: %s\n", i,
		       (unsigned long long)took, why);
		if (!strstr(why, "no rail"))
			die("no rail: node %u has another reason", i);
	}
}

int main(int argc, char **argv)
{
	unsigned net = 120 + (unsigned)getpid() % 20;
	struct mpib_engine_config cfg;
	int opt;

	while ((opt = getopt(argc, argv, "a:")) != -1) {
		if (opt != 'a')
			return 2;
		net = (unsigned)atoi(optarg);
	}
	mpib_engine_config_init(&cfg);
	cfg.hold_ms = HOLD_MS;
	cfg.grace_ms = GRACE_MS;
	nodes_open(&nodes, &cfg, net, TRAFFIC_MEM, false);
	traffic_open(&traffic, &nodes, 2);
	nodes_start(&nodes);
	run_for(50 * MS);
	a_flapping_link_gets_no_traffic_until_it_is_calm();
	a_drained_rail_carries_nothing_from_either_end();
	without_any_rail_both_ends_fail_after_the_grace();
	nodes_close(&nodes);
	return 0;
}
