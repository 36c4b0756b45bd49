/* SPDX-License-Identifier: Apache-2.0 */
/*
 * If a rail fails repeatedly, each hold-down is four times as long as the one
 * before, up to 64 times the first. A fence may take a long time, even if the
 * other rail carries many messages before the fence ends. The test itself makes
 * the turns of all threads. Hold-downs are set to hours, and the test ends each
 * of them.
 */
#include <stdio.h>

#include "engine/lane/lane.h"
#include "traffic.h"

#define HOUR_MS 3600000u
#define TIMES 3

static struct nodes nodes;
static struct traffic traffic;

static struct mpib_rail_control *ctl(unsigned end, unsigned rail)
{
	return &TAILQ_FIRST(&nodes.node[end].engine->lanes)->ctl.rail[rail];
}

static void turn(void)
{
	traffic_turn(&traffic, true);
	for (unsigned i = 0; i < 2; i++) {
		mpib_shard_turn(&nodes.node[i].engine->shard[0]);
		mpib_loop_turn(&nodes.node[i].loop, 0);
	}
}

static bool is_live(unsigned end, unsigned rail)
{
	return ctl(end, rail)->fence.state == MPIB_FENCE_LIVE;
}

static bool is_held(unsigned end, unsigned rail)
{
	return ctl(end, rail)->fence.state == MPIB_FENCE_DOWN &&
	       ctl(end, rail)->due;
}

static void until(bool (*is)(unsigned end, unsigned rail), unsigned rail,
		  const char *what)
{
	uint64_t end = now_ns() + HANG_MS * MS;

	while (!is(0, rail) || !is(1, rail)) {
		turn();
		if (now_ns() > end)
			die("rail %u is not %s", rail, what);
	}
}

static void kill_qp(unsigned rail)
{
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };
	struct mpib_lane *lane = TAILQ_FIRST(&nodes.node[0].engine->lanes);

	lane->shard->rail[rail].verbs->modify_qp(lane->qp[rail][0].qp, &err,
						 IBV_QP_STATE);
}

/* Fail the rail. This is failure number `times` in a row. Both ends must hold
 * the rail down for as long as this number of failures requires. */
static void fail(unsigned rail, unsigned times)
{
	uint64_t most = (HOUR_MS * MS) << 2 * (times < 4 ? times - 1 : 3),
		 before = now_ns();

	kill_qp(rail);
	until(is_held, rail, "held");
	for (unsigned i = 0; i < 2; i++) {
		uint64_t at = ctl(i, rail)->due;

		if (at < before + most || at > now_ns() + most)
			die("node %u holds rail %u down for %llu ms after failure %u "
			    "time",
			    i, rail, (unsigned long long)(at - before) / MS,
			    times);
	}
}

static void end_hold(unsigned rail)
{
	for (unsigned i = 0; i < 2; i++) {
		ctl(i, rail)->due = 1;
		mpib_rail_arm(nodes.node[i].engine, 1);
	}
	until(is_live, rail, "live");
}

static bool is_tried_again(unsigned end, unsigned rail)
{
	return is_held(end, rail) && ctl(end, rail)->cause == MPIB_CAUSE_PROBE;
}

/* Return how many nanoseconds this end still waits before it continues without
 * the peer. 0 means that this end waits for the peer without a limit. */
static uint64_t wait_of(unsigned end, unsigned rail)
{
	uint64_t at = ctl(end, rail)->due, now = now_ns();

	return at > now ? at - now : 0;
}

/* A failed probe does not count as flapping. The next probe comes so soon that
 * a repaired rail is used within 2 s. In this test the hold-down is an hour,
 * and the test ends it. */
static void fail_probe(unsigned rail)
{
	struct mpib_soft_fault hole = { .black_hole = 1 }, none = { 0 };
	uint32_t failures = ctl(0, rail)->failures;
	uint64_t probe = 0, again = 0, end = now_ns() + HANG_MS * MS;

	node_fault(&nodes.node[0], rail, &hole);
	for (unsigned i = 0; i < 2; i++) {
		ctl(i, rail)->due = 1;
		mpib_rail_arm(nodes.node[i].engine, 1);
	}
	while (!is_tried_again(0, rail) || !is_tried_again(1, rail)) {
		turn();
		if (ctl(0, rail)->fence.state == MPIB_FENCE_PROBING &&
		    wait_of(0, rail) > probe)
			probe = wait_of(0, rail);
		if (now_ns() > end)
			die("the probes of rail %u do not fail", rail);
	}
	again = wait_of(0, rail);
	if (probe == 0 || probe + again > 1900 * MS)
		die("probes of %llu ms, then %llu ms idle",
		    (unsigned long long)(probe / MS),
		    (unsigned long long)(again / MS));
	for (unsigned i = 0; i < 2; i++) {
		if (ctl(i, rail)->failures != failures)
			die("node %u counts a failed probe as a failure of the rail",
			    i);
	}
	node_fault(&nodes.node[0], rail, &none);
	until(is_live, rail, "live after a probe");
}

static bool all_are_past(uint64_t messages)
{
	for (unsigned i = 0; i < traffic.conns; i++) {
		if (traffic.conn[i].tx.done < messages)
			return false;
	}
	return true;
}

/* Let node 0 handle the peer's messages late: by that time, the slots that they
 * name have been used again. */
static void hear_late(unsigned rail)
{
	struct node *deaf = &nodes.node[0], *other = &nodes.node[1];
	uint64_t end = now_ns() + HANG_MS * MS, goal = 2 * MPIB_SLOTS;

	for (unsigned i = 0; i < traffic.conns; i++) {
		if (goal < traffic.conn[i].tx.done + 2 * MPIB_SLOTS)
			goal = traffic.conn[i].tx.done + 2 * MPIB_SLOTS;
	}
	kill_qp(rail);
	/* Post a probe on the QP, so that a WR fails even if the QP is idle. */
	mpib_qp_probe(&TAILQ_FIRST(&deaf->engine->lanes)->qp[rail][0]);
	while (ctl(0, rail)->fence.state != MPIB_FENCE_STOPPED) {
		mpib_shard_turn(&deaf->engine->shard[0]);
		mpib_loop_turn(&deaf->loop, 0);
		if (now_ns() > end)
			die("the fault is not detected");
	}
	while (!is_held(1, rail) || !all_are_past(goal)) {
		traffic_turn(&traffic, true);
		mpib_shard_turn(&deaf->engine->shard[0]);
		mpib_shard_turn(&other->engine->shard[0]);
		mpib_loop_turn(&other->loop, 0);
		if (now_ns() > end)
			die("the other rail does not continue");
	}
	until(is_held, rail, "held");
	end_hold(rail);
}

int main(void)
{
	struct mpib_engine_config cfg;

	mpib_engine_config_init(&cfg);
	cfg.hold_ms = cfg.grace_ms = HOUR_MS;
	nodes_open(&nodes, &cfg, TRAFFIC_MEM, false);
	/* Stop the clocks of both loops, so that neither peer times out. */
	for (unsigned i = 0; i < 2; i++)
		mpib_loop_advance(&nodes.node[i].loop, 0);
	traffic_open(&traffic, &nodes, TRAFFIC_CONNS);
	for (unsigned i = 0; i < 2; i++)
		mpib_engine_halt(nodes.node[i].engine);
	for (unsigned i = 1; i <= TIMES; i++) {
		fail(MPIB_RAIL_SUP, i);
		fail_probe(MPIB_RAIL_SUP);
	}
	fail(MPIB_RAIL_SUP, TIMES + 1);
	end_hold(MPIB_RAIL_SUP);
	fail(MPIB_RAIL_SOUT, 1);
	end_hold(MPIB_RAIL_SOUT);
	traffic_run_dry(&traffic, &nodes);
	traffic.fixed = 64;
	hear_late(MPIB_RAIL_SOUT);
	traffic_run_dry(&traffic, &nodes);
	printf("a rail that failed %d times is held down 64 times as long the "
	       "next time\n",
	       TIMES);
	nodes_start(&nodes); /* nodes_close() stops the threads */
	nodes_close(&nodes);
	return 0;
}
