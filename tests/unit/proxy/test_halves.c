/* SPDX-License-Identifier: Apache-2.0 */
/* Without configured quotas, two users together get at most half of each
 * resource. */

#include "client/quota.h"
#include "config/config.h"
#include "engine/shard.h"
#include "metrics/gather.h"
#include "peer/internal.h"
#include "test.h"

#define LIMIT_NOFILE 131072u /* the value in mpib-proxy.service */
#define MEMORY (1ull << 34)

static struct mpib_config cfg;
static char why[MPIB_WHY_MAX];

static int fresh(void **state)
{
	mpib_config_init(&cfg);
	return 0;
}

static void given(const char *section, const char *key, const char *value)
{
	const struct mpib_setting *s = mpib_config_find(section, key);

	assert_int_equal(mpib_config_set(&cfg, s, value, "here", why), 0);
}

static uint64_t share_of(enum mpib_quota q, uint64_t memory,
			 uint64_t descriptors)
{
	return mpib_quota_most(&cfg, q, memory, descriptors);
}

static uint64_t share(enum mpib_quota q)
{
	return share_of(q, MEMORY, LIMIT_NOFILE);
}

/* Return the number of regions that all clients together may have. */
static uint64_t regions_of_all(void)
{
	return (uint64_t)MPIB_MRS_MAX * cfg.max_clients;
}

#define CASE(name) TEST_OF(name, fresh, NULL)

CASE(two_users_together_get_at_most_half_of_each_table)
{
	const uint64_t lanes = share(MPIB_QUOTA_LANES);
	const struct {
		const char *what;
		uint64_t share, of;
	} each[] = {
		{ "clients", share(MPIB_QUOTA_CLIENTS), cfg.max_clients },
		/* The worst case: both users are on the same shard. */
		{ "connections", share(MPIB_QUOTA_CONNECTIONS),
		  ENGINE_CONNS_MAX },
		{ "listeners", share(MPIB_QUOTA_LISTENERS),
		  MPIB_LISTENERS_MAX },
		{ "lanes to a peer", MPIB_LANES_OF_ONE_MAX, MPIB_LANES_MAX },
		{ "regions", share(MPIB_QUOTA_REGIONS), regions_of_all() },
		{ "memory", share(MPIB_QUOTA_MEMORY), MEMORY },
		/* With software rails, each QP needs a socket. Here a lane has
		 * one QP per rail. */
		{ "descriptors", share(MPIB_QUOTA_FDS) + MPIB_RAILS * lanes,
		  LIMIT_NOFILE },
	};

	for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
		if (each[i].share == 0 || 4 * each[i].share > each[i].of)
			fail_msg("%s: a user may have %llu of %llu",
				 each[i].what,
				 (unsigned long long)each[i].share,
				 (unsigned long long)each[i].of);
	}
}

/* Try several sizes of memory and limits of descriptors, down to values with
 * which only one or two processes can run. */
CASE(two_users_together_get_at_most_half_of_memory_and_descriptors)
{
	for (uint64_t i = 512ull << 20; i <= 1ull << 42; i *= 2) {
		const uint64_t conns = share_of(MPIB_QUOTA_CONNECTIONS, i, 0);
		const uint64_t bytes = share_of(MPIB_QUOTA_MEMORY, i, 0);

		assert_in_range(conns * MPIB_CONNECTION_BYTES, 1, i / 16);
		assert_in_range(bytes, i / 8, i / 4);
		assert_in_range(conns * MPIB_CONNECTION_BYTES + bytes, 1,
				i / 4);
	}
	assert_in_range(share_of(MPIB_QUOTA_MEMORY, 16 << 20, 0), 1 << 20,
			4 << 20);
	cfg.engine.qps[MPIB_RAIL_SOUT] = cfg.engine.qps[MPIB_RAIL_SUP] = 1;
	for (uint64_t i = 2048; i <= 1u << 20; i *= 2) {
		const uint64_t lanes = share_of(MPIB_QUOTA_LANES, 0, i);

		assert_in_range(share_of(MPIB_QUOTA_FDS, 0, i) +
					MPIB_RAILS * lanes,
				1, i / 4);
	}
	/* Lanes of RDMA rails need no descriptors. */
	cfg.engine.rail[MPIB_RAIL_SOUT].provider = MPIB_PROVIDER_RDMA;
	cfg.engine.rail[MPIB_RAIL_SUP].provider = MPIB_PROVIDER_RDMA;
	assert_int_equal(share_of(MPIB_QUOTA_LANES, 0, 2048), 2048);
	/* A configured quota applies even if there is little memory. */
	given("quota", "connections", "5000");
	assert_int_equal(share_of(MPIB_QUOTA_CONNECTIONS, 1 << 20, 0), 5000);
}

CASE(two_users_together_get_at_most_half_of_the_readers)
{
	unsigned own = 0;

	while (mpib_reader_fits(1, own, own, cfg.max_readers, 0))
		own++;
	assert_in_range(4 * own, 1, cfg.max_readers);
	assert_true(mpib_reader_fits(2, 0, 2 * own, cfg.max_readers, 0));
}

CASE(shares_depend_on_limits_and_quotas)
{
	given("limit", "clients", "64");
	assert_int_equal(share(MPIB_QUOTA_CLIENTS), 16);
	given("limit", "clients", "1");
	assert_int_equal(share(MPIB_QUOTA_CLIENTS), 1);
	/* 256 descriptors are enough for a job with a process per core and one
	 * or two regions per process. */
	assert_true(mpib_quota_most(&cfg, MPIB_QUOTA_FDS, 0, 1024) >= 256);
	assert_true(mpib_quota_most(&cfg, MPIB_QUOTA_FDS, 0, 20) >= 256);
	assert_int_equal(mpib_quota_most(&cfg, MPIB_QUOTA_FDS, 0, 1ull << 30),
			 16384);
	/* A configured quota takes precedence, even if it is 0. */
	given("quota", "clients", "1000");
	assert_int_equal(share(MPIB_QUOTA_CLIENTS), 1000);
	given("quota", "clients", "0");
	assert_int_equal(share(MPIB_QUOTA_CLIENTS), 0);
	given("quota", "fds", "16384");
	assert_int_equal(mpib_quota_most(&cfg, MPIB_QUOTA_FDS, 0, 1024), 16384);
	/* If quota.lanes is configured, a tenant may use more than a quarter of
	 * a CQ. */
	mpib_config_share_cqs(&cfg);
	assert_false(cfg.engine.cq_whole);
	given("quota", "lanes", "2048");
	mpib_config_share_cqs(&cfg);
	assert_true(cfg.engine.cq_whole);
}
