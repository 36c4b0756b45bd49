/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a storm does not show: a link that flaps, a rail that is drained, a
 * device that dies, and no rail at all, for less and for longer than the grace.
 * The hold-down is an hour, and so is the grace but in the last case: they end
 * when the test says so, whatever the machine does.
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/lane/lane.h"
#include "peer/internal.h"
#include "traffic.h"

#define HOUR_MS 3600000u
#define GRACE_MS 500

static struct nodes nodes;
static struct traffic traffic;

/* Run until fn() of each node holds. */
static void until(bool (*fn)(struct node *node, unsigned rail), unsigned rail,
		  const char *what)
{
	uint64_t end = now_ns() + HANG_MS * MS;

	while (!fn(&nodes.node[0], rail) || !fn(&nodes.node[1], rail)) {
		traffic_run_for(&traffic, MS);
		if (now_ns() > end)
			die("%s: it does not come to that", what);
	}
}

static bool is_live(struct node *node, unsigned rail)
{
	return node_live(node) >> rail & 1;
}

struct look {
	unsigned rail;
	bool yes;
};

static void look_held(struct node *node, void *arg)
{
	struct look *l = arg;
	struct mpib_rail_control *ctl =
		&TAILQ_FIRST(&node->engine->lanes)->ctl.rail[l->rail];

	l->yes = ctl->fence.state == MPIB_FENCE_DOWN && ctl->hold_until;
}

/* Fenced at this end; only the hold-down keeps it from coming back. */
static bool is_held(struct node *node, unsigned rail)
{
	struct look l = { .rail = rail };

	node_call(node, look_held, &l);
	return l.yes;
}

static void look_up(struct node *node, void *arg)
{
	struct look *l = arg;

	l->yes = node->engine->shard[0].rail[l->rail].up;
}

static bool port_is(unsigned end, unsigned rail, bool up)
{
	struct look l = { .rail = rail };

	node_call(&nodes.node[end], look_up, &l);
	return l.yes == up;
}

/* Returns when the node's control thread has heard of it. */
static void set_link(unsigned end, unsigned rail, bool up)
{
	struct mpib_soft_fault fault = { .link_down = !up };
	uint64_t limit = now_ns() + HANG_MS * MS;

	node_fault(&nodes.node[end], rail, &fault);
	while (!port_is(end, rail, up)) {
		traffic_run_for(&traffic, MS);
		if (now_ns() > limit)
			die("a port's event does not come");
	}
}

static void end_hold(struct node *node, void *arg)
{
	unsigned rail = *(unsigned *)arg;
	struct mpib_lane *lane = TAILQ_FIRST(&node->engine->lanes);

	if (lane->ctl.rail[rail].hold_until)
		lane->ctl.rail[rail].hold_until = 1;
	mpib_rail_arm(node->engine, 1);
}

static void back_to_life(unsigned rail)
{
	for (unsigned i = 0; i < 2; i++)
		node_call(&nodes.node[i], end_hold, &rail);
	until(is_live, rail, "back to life");
}

static uint64_t failbacks(unsigned end, unsigned rail)
{
	struct mpib_snapshot *s = node_snapshot(&nodes.node[end]);
	uint64_t n = s->rail[rail].failover.failbacks;

	mpib_snapshot_free(s);
	return n;
}

/* Down and up ten times within one hold-down. */
static void a_flapping_link_gets_no_traffic_until_it_is_calm(void)
{
	uint64_t before = failbacks(0, 1);

	for (int i = 0; i < 10; i++) {
		set_link(1, 1, false);
		traffic_until_moved(&traffic, "flapping");
		set_link(1, 1, true);
		until(is_held, 1, "flapping");
		traffic_until_moved(&traffic, "flapping");
	}
	if (failbacks(0, 1) != before)
		die("flapping: the rail was used before its hold-down ended");
	back_to_life(1);
	traffic_until_moved(&traffic, "flapping");
	if (failbacks(0, 1) != before + 1)
		die("flapping: the rail came back %llu times",
		    (unsigned long long)(failbacks(0, 1) - before));
	printf("flapping: 10 times down, traffic came back once, 0 errors\n");
}

static void drain(struct node *node, void *arg)
{
	mpib_engine_drain(node->engine, MPIB_RAIL_SOUT, arg != NULL);
}

static void look_idle(struct mpib_shard *s, void *arg)
{
	struct mpib_lane *lane = TAILQ_FIRST(&s->lanes);
	struct look *l = arg;

	l->yes = !(lane->use & 1u << l->rail) &&
		 lane->track[l->rail].inflight == 0;
}

/* Nothing new goes over it, and what was in flight has ended. */
static bool is_left_alone(struct node *node, unsigned rail)
{
	struct look l = { .rail = rail };

	node_shard_call(node, look_idle, &l);
	return l.yes;
}

static bool is_used(struct node *node, unsigned rail)
{
	return !is_left_alone(node, rail);
}

static uint64_t bytes_sent(unsigned end, unsigned rail)
{
	struct mpib_snapshot *s = node_snapshot(&nodes.node[end]);
	uint64_t n = s->rail[rail].n.tx_bytes + s->rail[rail].n.cts;

	mpib_snapshot_free(s);
	return n;
}

static void a_drained_rail_carries_nothing_from_either_end(void)
{
	uint64_t before[2];

	node_call(&nodes.node[0], drain, &nodes);
	until(is_left_alone, 0, "drained");
	for (unsigned i = 0; i < 2; i++)
		before[i] = bytes_sent(i, 0);
	traffic_until_moved(&traffic, "drained");
	traffic_until_moved(&traffic, "drained");
	for (unsigned i = 0; i < 2; i++) {
		if (bytes_sent(i, 0) != before[i])
			die("drained: something still goes over the rail");
	}
	node_call(&nodes.node[0], drain, NULL);
	until(is_used, 0, "resumed");
	traffic_until_moved(&traffic, "resumed");
	traffic_until_moved(&traffic, "resumed");
	for (unsigned i = 0; i < 2; i++) {
		if (bytes_sent(i, 0) == before[i])
			die("resumed: nothing goes over the rail");
	}
	printf("drain and resume: nothing on the rail, then again, 0 errors\n");
}

static bool is_down(struct node *node, unsigned rail)
{
	return !is_live(node, rail);
}

static void without_any_rail_state_is_kept_for_the_grace(void)
{
	for (unsigned r = 0; r < 2; r++)
		set_link(r, r, false);
	for (unsigned r = 0; r < 2; r++)
		until(is_down, r, "kept");
	set_link(1, 1, true);
	until(is_live, 1, "kept");
	traffic_until_moved(&traffic, "kept");
	printf("no rail within the grace: traffic goes on, 0 errors\n");
}

/* Rail r's port goes at node r here; the other end had no rail when it began. */
static bool is_held_where_it_failed(struct node *node, unsigned rail)
{
	return node != &nodes.node[rail] || is_held(node, rail);
}

/* The case before left the first rail down. */
static void a_held_rail_comes_back_when_there_is_no_other(void)
{
	set_link(0, 0, true);
	until(is_held_where_it_failed, 0, "the last");
	set_link(1, 1, false);
	until(is_live, 0, "the last");
	traffic_until_moved(&traffic, "the last");
	set_link(1, 1, true);
	until(is_held_where_it_failed, 1, "the last");
	back_to_life(1);
	traffic_until_moved(&traffic, "the last");
	printf("a rail in hold-down: back when the other one failed\n");
}

static void cut_links(struct node *node, void *arg)
{
	struct mpib_peer *p;

	(void)arg;
	TAILQ_FOREACH(p, &node->broker->peers, entry)
	{
		if (p->link)
			shutdown(p->link->fd, SHUT_RDWR);
	}
}

/* Alone, and just when a fence has to be told of. */
static void the_link_between_the_proxies_may_break(void)
{
	for (unsigned i = 0; i < 20; i++) {
		node_call(&nodes.node[i & 1], cut_links, NULL);
		traffic_until_moved(&traffic, "link broken");
	}
	for (unsigned i = 0; i < 8; i++) {
		unsigned end = i & 1, rail = i >> 1 & 1;

		node_call(&nodes.node[i >> 2], cut_links, NULL);
		set_link(end, rail, false);
		traffic_until_moved(&traffic, "link and rail broken");
		set_link(end, rail, true);
		until(is_held, rail, "link and rail broken");
		node_call(&nodes.node[!(i >> 2)], cut_links, NULL);
		back_to_life(rail);
		traffic_until_moved(&traffic, "link and rail broken");
	}
	printf("peer link broken 20 times alone, 16 times beside a rail's "
	       "fence: 0 errors\n");
}

/* It flushes nothing and tells nothing but that. */
static void a_device_that_dies_is_done_without(void)
{
	struct mpib_soft_fault gone = { .gone = 1 };

	for (unsigned i = 0; i < 20; i++)
		traffic_until_moved(&traffic, "device dies");
	node_fault(&nodes.node[1], 1, &gone);
	until(is_down, 1, "device dies");
	for (unsigned i = 0; i < 20; i++)
		traffic_until_moved(&traffic, "device dies");
	printf("a device died: the other rail carries on, 0 errors\n");
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
	snprintf(arg, 256, "%s", mpib_broker_why(&node->client, 0));
}

static void set_grace(struct node *node, void *arg)
{
	(void)arg;
	node->engine->cfg.grace_ms = GRACE_MS;
}

static void without_any_rail_both_ends_fail_after_the_grace(void)
{
	uint64_t start, took = 0;
	unsigned done = 0;

	for (unsigned i = 0; i < 2; i++)
		node_call(&nodes.node[i], set_grace, NULL);
	start = now_ns();
	for (unsigned r = 0; r < 2; r++) {
		struct mpib_soft_fault down = { .link_down = 1 };

		node_fault(&nodes.node[r], r, &down);
	}
	while (done < traffic.conns) {
		done = 0;
		for (unsigned i = 0; i < traffic.conns; i++)
			done += all_failed(&traffic.conn[i].tx) &&
				all_failed(&traffic.conn[i].rx);
		took = (now_ns() - start) / MS;
		if (took > GRACE_MS + HANG_MS)
			die("no rail: %u of %u connections failed after "
			    "%llu ms",
			    done, traffic.conns, (unsigned long long)took);
		usleep(1000);
	}
	if (took < GRACE_MS)
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

int main(void)
{
	struct mpib_engine_config cfg;

	mpib_engine_config_init(&cfg);
	cfg.hold_ms = HOUR_MS;
	cfg.grace_ms = HOUR_MS;
	nodes_open(&nodes, &cfg, TRAFFIC_MEM, false);
	traffic_open(&traffic, &nodes, 2);
	nodes_start(&nodes);
	traffic_until_moved(&traffic, "start");
	a_flapping_link_gets_no_traffic_until_it_is_calm();
	a_drained_rail_carries_nothing_from_either_end();
	without_any_rail_state_is_kept_for_the_grace();
	a_held_rail_comes_back_when_there_is_no_other();
	the_link_between_the_proxies_may_break();
	a_device_that_dies_is_done_without();
	without_any_rail_both_ends_fail_after_the_grace();
	nodes_close(&nodes);
	return 0;
}
