/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What mpibctl why says of a connection is what its next messages do: in every
 * mode, with both rails, with one that failed, that an operator drained here or
 * at the peer, or both, and while an agent's hints come, change and go. Each
 * statement is compared with the rails' counters, and its age with the clock.
 * Every thread is played here; hold-downs, of hours, are ended by hand.
 */
#include <mpib/agent.h>
#include <stdio.h>
#include <string.h>

#include "engine/lane/lane.h"
#include "peer/internal.h"
#include "statement.h"

#define HOUR_MS 3600000u
#define SLOT 7u
#define STATIC MPIB_MODE_STATIC
#define VANILLA MPIB_MODE_VANILLA
#define ADVANCED MPIB_MODE_ADVANCED
#define ADAPTIVE MPIB_MODE_ADAPTIVE

struct row {
	const char *name;
	enum mpib_mode mode;
	enum mpib_path path;
	bool agent;
	uint32_t hint;
	uint32_t sup_bw;
};

static struct mpib_hint_shm hints;
static const struct row *row;

/* Who says so while both rails are in use. */
static enum mpib_split_source usual(void)
{
	static const enum mpib_split_source of[] = {
		[VANILLA] = MPIB_SPLIT_ISOLATION,
		[ADVANCED] = MPIB_SPLIT_HINT,
		[ADAPTIVE] = MPIB_SPLIT_ADAPTIVE,
		[STATIC] = MPIB_SPLIT_STATIC,
	};

	return row->agent ? MPIB_SPLIT_HINT : of[row->mode];
}

static struct mpib_lane *lane_of(unsigned end)
{
	return TAILQ_FIRST(&nodes.node[end].engine->lanes);
}

static bool is_held(unsigned rail)
{
	for (unsigned i = 0; i < 2; i++) {
		const struct mpib_rail_control *c = &lane_of(i)->ctl.rail[rail];

		if (c->fence.state != MPIB_FENCE_DOWN || !c->hold_until ||
		    lane_of(i)->use >> rail & 1)
			return false;
	}
	return true;
}

static bool is_up(unsigned rail)
{
	return nodes.node[0].engine->shard[0].rail[rail].up;
}

static bool is_used(unsigned rail)
{
	return lane_of(0)->use >> rail & 1 && lane_of(1)->use >> rail & 1;
}

static bool is_left(unsigned rail)
{
	return !(lane_of(0)->use >> rail & 1) && !(lane_of(1)->use >> rail & 1);
}

/* Put back what the control thread thinks of it: the port is up for long. */
static void end_hold(unsigned rail)
{
	for (unsigned i = 0; i < 2; i++) {
		lane_of(i)->ctl.rail[rail].hold_until = 1;
		mpib_rail_arm(nodes.node[i].engine, 1);
	}
}

static void set_link(unsigned rail, bool up)
{
	struct mpib_soft_fault fault = { .link_down = !up };

	node_fault(&nodes.node[0], rail, &fault);
}

static void drain(unsigned end, unsigned rail, bool on)
{
	if (mpib_engine_drain(nodes.node[end].engine, rail, on) < 0)
		die("rail %u cannot be drained", rail);
}

static void fail_and_come_back(unsigned rail)
{
	change_of(rail, "failed");
	set_link(rail, false);
	until(is_held, rail);
	expect(MPIB_SPLIT_FAILOVER);
	/* The one that is left is drained: there is no other. */
	drain(0, !rail, true);
	expect(MPIB_SPLIT_FAILOVER);
	drain(0, !rail, false);
	expect(MPIB_SPLIT_FAILOVER);
	set_link(rail, true);
	until(is_up, rail);
	change_of(rail, "is back");
	end_hold(rail);
	until(is_used, rail);
	expect(usual());
}

static void drain_and_resume(unsigned end, unsigned rail)
{
	change_of(rail, end ? "is drained by the peer" : "is drained here");
	drain(end, rail, true);
	until(is_left, rail);
	expect(MPIB_SPLIT_DRAIN);
	change_of(rail, "is resumed");
	drain(end, rail, false);
	until(is_used, rail);
	expect(usual());
}

/* What an agent does: hints change, and it goes and comes. */
static void follow_hints(struct engine_conn *f)
{
	static const uint32_t hint[] = { 900, 0, 1024, 128 };

	for (unsigned i = 0; i < sizeof(hint) / sizeof(hint[0]); i++) {
		change("the hint is another");
		mpib_hint_write(&hints.entries[SLOT], hint[i]);
		expect(MPIB_SPLIT_HINT);
	}
	change("the agent is gone");
	engine_conn_set_hint(f, UINT32_MAX);
	expect(row->mode == ADAPTIVE ? MPIB_SPLIT_ADAPTIVE : MPIB_SPLIT_HINT);
	change("the agent is back");
	engine_conn_set_hint(f, SLOT);
	mpib_hint_write(&hints.entries[SLOT], row->hint);
	expect(MPIB_SPLIT_HINT);
	if (row->mode != ADAPTIVE)
		return;
	change("the agent has no reason any more");
	mpib_hint_write(&hints.entries[SLOT], MPIB_HINT_OWN);
	expect(MPIB_SPLIT_ADAPTIVE);
	change("the agent steers again");
	mpib_hint_write(&hints.entries[SLOT], row->hint);
	expect(MPIB_SPLIT_HINT);
}

static void tune(uint32_t sup_bw)
{
	struct mpib_engine_config cfg = nodes.node[0].engine->cfg;

	cfg.sup_bw = sup_bw;
	change("the share is set anew");
	mpib_engine_tune(nodes.node[0].engine, &cfg);
	expect(MPIB_SPLIT_STATIC);
}

static void open_row(void)
{
	static struct mpib_islands islands;
	struct mpib_engine_config cfg;

	mpib_engine_config_init(&cfg);
	cfg.mode = (uint8_t)row->mode;
	cfg.sup_bw = row->sup_bw;
	cfg.hold_ms = cfg.grace_ms = HOUR_MS;
	cfg.shards = 1;
	memset(&hints, 0, sizeof(hints));
	/* All of 127/8 is an island, or each address is one. */
	islands = (struct mpib_islands){
		.prefix = row->path == MPIB_PATH_INTRA	 ? 8
			  : row->path == MPIB_PATH_INTER ? 32
							 : 0,
	};
	change("before the first send");
	nodes_open(&nodes, &cfg, TRAFFIC_MEM, false);
	for (unsigned i = 0; i < 2; i++) {
		nodes.node[i].broker->islands = &islands;
		mpib_loop_advance(&nodes.node[i].loop, 0);
	}
	mpib_engine_set_hints(nodes.node[0].engine, &hints);
	traffic_open(&traffic, &nodes, 1);
	for (unsigned i = 0; i < 2; i++)
		mpib_engine_halt(nodes.node[i].engine);
}

static void play(void)
{
	struct engine_conn *f;

	state.mode = row->name;
	open_row();
	f = TAILQ_FIRST(&lane_of(0)->conns);
	if (row->agent) {
		mpib_hint_write(&hints.entries[SLOT], row->hint);
		engine_conn_set_hint(f, SLOT);
	}
	expect(usual());
	state.name = "after some sends";
	expect(usual());
	if (lane_of(0)->rails == MPIB_RAILS) {
		for (unsigned r = 0; r < MPIB_RAILS; r++) {
			fail_and_come_back(r);
			drain_and_resume(0, r);
			drain_and_resume(1, r);
		}
	}
	if (row->agent)
		follow_hints(f);
	if (row->mode == MPIB_MODE_STATIC)
		tune(row->sup_bw / 2 + 64);
	traffic_run_dry(&traffic, &nodes);
	nodes_start(&nodes); /* for those who close them */
	nodes_close(&nodes);
}

int main(void)
{
	static const struct row rows[] = {
		{ "static", STATIC, .sup_bw = 256 },
		{ "SUP in reserve", STATIC, .sup_bw = 0 },
		{ "static, all on SUP", STATIC, .sup_bw = 1024 },
		{ "vanilla, one island", VANILLA, .path = MPIB_PATH_INTRA },
		{ "vanilla, two islands", VANILLA, .path = MPIB_PATH_INTER },
		{ "advanced, no agent", ADVANCED, .agent = false },
		{ "advanced", ADVANCED, .agent = true, .hint = 300 },
		{ "advanced, two islands", ADVANCED, MPIB_PATH_INTER,
		  .agent = true, .hint = 1024 },
		{ "adaptive", ADAPTIVE, .agent = false },
		{ "adaptive, a share", ADAPTIVE, .agent = true, .hint = 256 },
		{ "maintenance of SUP", ADAPTIVE, .agent = true, .hint = 0 },
		{ "maintenance of SOUT", ADAPTIVE, .agent = true,
		  .hint = 1024 },
	};
	unsigned n = sizeof(rows) / sizeof(rows[0]);

	for (row = rows; row < rows + n; row++)
		play();
	printf("%u modes, %u states: the next messages did what why said\n", n,
	       state.count);
	return 0;
}
