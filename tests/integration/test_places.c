/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test how much of a rail's CQ a user may reserve (rail/budget.h). Some users
 * reserve as many entries as they can, and other users must still be able to
 * work.
 */
#include <errno.h>

#include "engine/lane/lane.h"
#include "engine_pair.h"
#include "test.h"

static struct pair pair;
static struct pair_end tx, rx;

static void open_pair(void)
{
	struct mpib_engine_config cfg;

	mpib_engine_config_init(&cfg);
	pair_open(&pair, &cfg, MPIB_IMM_V2);
	pair_connect(&pair, 5, 0, &tx, &rx);
}

/* Return the budget of SUP, on which a lane has four QPs. */
static const struct mpib_budget *budget(void)
{
	return &pair.node[0].engine->shard[0].rail[MPIB_RAIL_SUP].budget;
}

enum {
	USERS = 4,
	LANES_OF_ONE = 2048, /* the default of quota.lanes */
	CONNS_OF_ONE = 1024
};

static struct greedy {
	struct mpib_tenant *tenant;
	struct mpib_lane *lane[LANES_OF_ONE];
	unsigned lanes;
} greedy[USERS];

/* Reserve receives, as the connections of a user's processes do. Then create
 * lanes until one is refused, and return the error. If `want` is set, peers
 * open the lanes. Otherwise the user opens them. */
static int take_all_for(struct greedy *g, uid_t uid,
			const struct mpib_lane_info *want)
{
	struct mpib_engine *e = pair.node[0].engine;
	int rc = mpib_tenant_get(e, 0, uid, &g->tenant);

	if (rc < 0)
		return rc;
	for (unsigned i = 0; i < CONNS_OF_ONE; i++)
		mpib_srq_joined(g->tenant);
	while (rc == 0 && g->lanes < LANES_OF_ONE) {
		rc = mpib_lane_create(g->tenant, MPIB_IMM_V2, MPIB_PATH_UNKNOWN,
				      want, &g->lane[g->lanes]);
		g->lanes += rc == 0;
	}
	pair_turns(&pair, 4);
	return rc;
}

static int take_all(struct greedy *g, uid_t uid)
{
	return take_all_for(g, uid, NULL);
}

static void give_all_back(struct greedy *g)
{
	if (!g->tenant)
		return;
	while (g->lanes > 0)
		mpib_lane_free(g->lane[--g->lanes]);
	for (unsigned i = 0; i < CONNS_OF_ONE; i++)
		mpib_srq_left(g->tenant);
	mpib_tenant_put(g->tenant);
	g->tenant = NULL;
}

/* Check that a user without reservations still gets a lane. */
static void assert_served(uid_t uid)
{
	struct mpib_tenant *t;
	struct mpib_lane *lane;

	assert_int_equal(mpib_tenant_get(pair.node[0].engine, 0, uid, &t), 0);
	assert_int_equal(mpib_lane_create(t, MPIB_IMM_V2, MPIB_PATH_UNKNOWN,
					  NULL, &lane),
			 0);
	mpib_lane_free(lane);
	mpib_tenant_put(t);
	pair_turns(&pair, 4);
}

/* Skip the test under ThreadSanitizer, which makes memory mappings for each of
 * 49,152 queues and aborts when it exceeds vm.max_map_count. The test has only
 * one thread, so ThreadSanitizer would find nothing. */
static void skip_under_tsan(void)
{
#ifdef __SANITIZE_THREAD__
	skip_as("it needs more mappings than vm.max_map_count");
#endif
}

/* This was a bug: two users could fill SUP's CQ, since a lane has four QPs on
 * SUP. */
pair_test(two_users_cannot_reserve_more_than_half_of_the_cqes)
{
	const uint32_t most = 65536 / 4 * 3;
	struct mpib_engine *e;

	skip_under_tsan();
	open_pair();
	e = pair.node[0].engine;
	for (unsigned u = 0; u < 2; u++)
		assert_int_equal(take_all(&greedy[u], 1001 + u), -EDQUOT);
	assert_in(mpib_engine_last_error(e, -EDQUOT),
		  "uid 1002 has reserved 122");
	assert_in_range(budget()->promised, 1, most / 2 + 1024);
	/* A user can reserve most of the entries that are for lanes. */
	assert_in_range(greedy[1].lanes, 768, LANES_OF_ONE);
	assert_served(1003);
	assert_served(0);
	for (unsigned u = 2; u < USERS; u++)
		assert_true(take_all(&greedy[u], 1001 + u) < 0);
	/* A part of the entries is reserved for root. */
	assert_served(0);
	give_all_back(&greedy[0]);
	pair_turns(&pair, 4);
	assert_served(1005);
	for (unsigned u = 1; u < USERS; u++)
		give_all_back(&greedy[u]);
	pair_turns(&pair, 4);
	pair_transfer(&pair, &tx, &rx, 1, 4096, 4096, 1);
}

pair_test(lanes_opened_by_peers_leave_room_for_the_users_own_lanes)
{
	struct mpib_lane_info want;

	skip_under_tsan();
	open_pair();
	mpib_lane_local(pair.node[1].lane, &want);
	assert_int_equal(take_all_for(&greedy[0], 1001, &want), -EDQUOT);
	assert_served(1001);
	give_all_back(&greedy[0]);
	pair_turns(&pair, 4);
}

/* If quota.lanes is set, a user may reserve entries for all QPs of as many
 * lanes as this quota allows. */
pair_test(quota_lanes_reserves_the_cqes_of_its_lanes)
{
	struct mpib_engine_config cfg;

	skip_under_tsan();
	open_pair();
	cfg = pair.cfg;
	cfg.cq_whole = true;
	mpib_engine_tune(pair.node[0].engine, &cfg);
	assert_int_equal(take_all(&greedy[0], 1001), 0);
	assert_int_equal(greedy[0].lanes, LANES_OF_ONE);
	give_all_back(&greedy[0]);
	pair_turns(&pair, 4);
}
