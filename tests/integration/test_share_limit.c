/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Check which rates the settings share.limit and share.rules set in the
 * engine's limiters (proxy/client/quota.c). test_shares tests the limiters
 * themselves.
 */
#include "client/client.h"
#include "engine/conn/conn.h"
#include "engine_pair.h"
#include "test.h"

#define UID 1000

static struct pair pair, more;
static struct mpib_config cfg;
static struct proxy_clients all;
static struct proxy_client client[2];

/* Add a client of the user to the proxy's list. The client is on shard `shard`
 * of node 0. */
static void add(struct proxy_client *s, const struct pair *p, unsigned shard)
{
	*s = (struct proxy_client){
		.all = &all,
		.uid = UID,
		.state = PROXY_CLIENT_LIVE,
		.peer_client = { .tenant = p->node[0].tenant,
				 .engine_client = p->node[0].engine_client,
				 .shard = shard },
	};
	TAILQ_INSERT_TAIL(&all.list, s, link);
}

static int setup(void **state)
{
	struct mpib_engine_config engine;

	mpib_engine_config_init(&engine);
	engine.shards = 2;
	pair_open(&pair, &engine, MPIB_IMM_V2);
	pair_join_on(&pair, &more, 1, 1, 1);
	mpib_config_init(&cfg);
	all = (struct proxy_clients){ .cfg = &cfg };
	TAILQ_INIT(&all.list);
	add(&client[0], &pair, 0);
	return 0;
}

static int teardown(void **state)
{
	pair_close(&pair);
	pair_leave(&more);
	return 0;
}

static uint64_t rate_of(const struct pair *p)
{
	mpib_shares_apply(&all);
	return atomic_load(&p->node[0].tenant->drr.rate);
}

static void set_limit(const char *mbits)
{
	char why[MPIB_WHY_MAX];

	assert_int_equal(mpib_config_set(&cfg,
					 mpib_config_find("share", "limit"),
					 mbits, "test", why),
			 0);
}

fixture_test(a_limit_sets_the_engines_rate)
{
	assert_int_equal(rate_of(&pair), 0);
	set_limit("1");
	assert_int_equal(rate_of(&pair), 125000);
	set_limit("10000000");
	assert_int_equal(rate_of(&pair), 1250000000000);
	set_limit("0");
	assert_int_equal(rate_of(&pair), 0);
}

fixture_test(shards_share_a_users_limit)
{
	set_limit("1");
	add(&client[1], &more, 1);
	assert_int_equal(rate_of(&pair), 62500);
	assert_int_equal(rate_of(&more), 62500);
	client[1].peer_client.shard = 0;
	assert_int_equal(rate_of(&pair), 125000);
}

/* If a rule matches the user but gives no limit, the user has no limit. */
fixture_test(a_rule_overrides_the_limit)
{
	char why[100];

	set_limit("7");
	assert_int_equal(mpib_share_parse(&cfg.shares, "uid=1000:limit=3", why,
					  sizeof(why)),
			 0);
	assert_int_equal(rate_of(&pair), 375000);
	assert_int_equal(mpib_share_parse(&cfg.shares, "uid=1000:weight=3", why,
					  sizeof(why)),
			 0);
	assert_int_equal(rate_of(&pair), 0);
	assert_int_equal(mpib_share_parse(&cfg.shares, "uid=1001:limit=3", why,
					  sizeof(why)),
			 0);
	assert_int_equal(rate_of(&pair), 875000);
}
