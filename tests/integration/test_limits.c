/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test devices with low limits: two engines run turn by turn on software HCAs,
 * whose limits MPIB_SOFT_LIMITS sets.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/shard.h"
#include "engine_pair.h"
#include "test.h"

#define KIB 1024u
#define MIB (1024u * KIB)

static struct pair pair;
static struct pair_end tx, rx;

/* Remove the limits, so that they do not affect the engines of the next
 * test. */
static int teardown(void **state)
{
	unsetenv("MPIB_SOFT_LIMITS");
	return pair_teardown(state);
}

static void open_limited(const char *limits, unsigned rails, uint32_t sup_bw)
{
	struct mpib_engine_config cfg;

	setenv("MPIB_SOFT_LIMITS", limits, 1);
	mpib_engine_config_init(&cfg);
	cfg.mode = MPIB_MODE_STATIC;
	cfg.rails = rails;
	cfg.sup_bw = sup_bw;
	cfg.qps[0] = cfg.qps[1] = 1;
	pair_open(&pair, &cfg, MPIB_IMM_V2);
	pair_connect(&pair, 5, 0, &tx, &rx);
}

teardown_test(a_message_is_split_at_max_msg_sz)
{
	static const uint32_t lens[] = { 0,	    1,	      4095, 4096,
					 4097,	    8191,     8192, 100000,
					 MIB - 128, MIB + 127 };

	for (unsigned rails = 1; rails <= 2; rails++) {
		for (uint32_t sup_bw = 0; sup_bw <= 1024 * (rails - 1);
		     sup_bw += 300) {
			open_limited("max_msg_sz=4096", rails, sup_bw);
			for (unsigned i = 0; i < sizeof(lens) / sizeof(*lens);
			     i++) {
				pair_transfer(&pair, &tx, &rx, (uint8_t)i,
					      lens[i], lens[i], i);
				pair_transfer(&pair, &tx, &rx, (uint8_t)i,
					      lens[i], lens[i] + 5000, i);
			}
			assert_int_equal(pair.node[0].broken, 0);
			assert_int_equal(pair.node[0].lanes_broken, 0);
			pair_close(&pair);
		}
	}
}

/* A message that is not longer than the limit must be sent as one WR. */
teardown_test(a_message_is_split_into_as_few_wrs_as_possible)
{
	struct mpib_snapshot *snap;

	open_limited("max_msg_sz=65536", 1, 0);
	pair_transfer(&pair, &tx, &rx, 0, 65536, 65536, 1);
	snap = pair_snapshot(&pair, 0);
	assert_int_equal(snap->rail[0].n.tx_wrs, 1);
	mpib_snapshot_free(snap);
	pair_transfer(&pair, &tx, &rx, 1, MIB, MIB, 2);
	snap = pair_snapshot(&pair, 0);
	/* Besides the payload WRs, one WR carries the completion record. */
	assert_int_equal(snap->rail[0].n.tx_wrs, 1 + MIB / 65536 + 1);
	mpib_snapshot_free(snap);
}

teardown_test(the_smaller_max_msg_sz_of_both_ends_applies)
{
	static const char *const limits[] = {
		"127.25.0.2/max_msg_sz=4096", /* SOUT of the receiver */
		"127.25.1.2/max_msg_sz=5000", /* SUP of the receiver */
		"127.25.0.1/max_msg_sz=4096", /* SOUT of the sender */
		"127.25.1.1/max_msg_sz=8192,127.25.0.2/max_msg_sz=16384",
	};

	for (unsigned i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		open_limited(limits[i], 2, 512);
		pair_transfer(&pair, &tx, &rx, 0, MIB, MIB, i);
		pair_close(&pair);
	}
}

/* One buffer of the group is longer than the limit, and one is not. */
teardown_test(buffers_of_a_group_are_split_too)
{
	const uint32_t len[2] = { 3000, 300000 };
	const uint64_t at[2] = { 0, MIB };
	uint32_t gen[2];

	open_limited("max_msg_sz=4096", 2, 512);
	for (uint16_t i = 0; i < 2; i++) {
		const struct mpib_desc recv = {
			.op = MPIB_OP_RECV,
			.req = 9,
			.n = 2,
			.idx = i,
			.gen = 1,
			.mr = pair.node[1].mr,
			.tag = i,
			.off = PAIR_RX + at[i],
			.len = len[i],
			.total = len[i],
		};

		pair_fill(pair.node[0].mem + at[i], len[i], i);
		pair_push(&rx, &recv);
		gen[i] = pair_post(&tx, MPIB_OP_SEND, (uint8_t)i,
				   pair.node[0].mr, at[i], len[i], i);
	}
	pair_wait(&pair, &rx, 9, 1);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(pair_wait(&pair, &tx, (uint8_t)i, gen[i]),
				 len[i]);
		assert_int_equal(pair_completion(&rx, 9)->size[i], len[i]);
		assert_memory_equal(pair.node[0].mem + at[i],
				    pair.node[1].mem + PAIR_RX + at[i], len[i]);
	}
}

/* After a region was refused, the other region must still work. */
teardown_test(only_a_region_beyond_max_mr_size_is_refused)
{
	const size_t len = 2 * PAIR_MEM;
	struct mpib_mr_attr attr = { .len = len, .dmabuf_fd = -1 };
	char limits[64];
	const char *why;
	uint32_t mr;

	snprintf(limits, sizeof(limits), "max_mr_size=%u", PAIR_MEM);
	open_limited(limits, 2, 512);
	attr.addr = malloc(len);
	assert_non_null(attr.addr);
	assert_int_equal(mpib_mr_add(pair.node[0].engine_client, &attr, &mr,
				     pair_set_flag, NULL),
			 -EINVAL);
	why = mpib_engine_last_error(pair.node[0].engine, -EINVAL);
	assert_non_null(strstr(why, "127.25.0.1: 33554432 bytes are more than "
				    "the device's max_mr_size = 16777216"));
	free(attr.addr);
	pair_transfer(&pair, &tx, &rx, 0, MIB, MIB, 1);
}

teardown_test(only_a_region_beyond_max_mr_is_refused)
{
	char mem[64];
	const struct mpib_mr_attr attr = { .addr = mem,
					   .len = sizeof(mem),
					   .dmabuf_fd = -1 };
	bool added[2] = { false };
	uint32_t mr;

	/* The limit allows three regions: the client's memory, its tables, and
	 * one more. */
	open_limited("max_mr=3", 2, 512);
	assert_int_equal(mpib_mr_add(pair.node[0].engine_client, &attr, &mr,
				     pair_set_flag, &added[0]),
			 0);
	pair_until(&pair, &added[0]);
	assert_int_equal(mpib_mr_add(pair.node[0].engine_client, &attr, &mr,
				     pair_set_flag, &added[1]),
			 -ENOMEM);
	assert_non_null(
		strstr(mpib_engine_last_error(pair.node[0].engine, -ENOMEM),
		       "the device's max_mr is 3"));
	pair_transfer(&pair, &tx, &rx, 0, MIB, MIB, 1);
}

teardown_test(only_a_region_beyond_the_clients_table_is_refused)
{
	static char mem[64];
	const struct mpib_mr_attr attr = { .addr = mem,
					   .len = sizeof(mem),
					   .dmabuf_fd = -1 };
	bool added = false;
	unsigned n = 0;
	uint32_t mr;
	int rc;

	open_limited("", 1, 0);
	while ((rc = mpib_mr_add(pair.node[0].engine_client, &attr, &mr,
				 pair_set_flag, &added)) == 0) {
		pair_until(&pair, &added);
		added = false;
		n++;
	}
	assert_int_equal(rc, -EDQUOT);
	/* The pair has registered a region of its own. */
	assert_int_equal(n, MPIB_MRS_MAX - 2);
	assert_in(mpib_engine_last_error(pair.node[0].engine, rc),
		  "the client has 4095 regions");
	pair_transfer(&pair, &tx, &rx, 0, MIB, MIB, 1);
}

teardown_test(only_a_lane_beyond_max_qp_is_refused)
{
	struct mpib_lane *lane;
	int rc;

	open_limited("max_qp=1", 2, 512);
	rc = mpib_lane_create(pair.node[0].tenant, MPIB_IMM_V2, pair.path, NULL,
			      &lane);
	assert_int_equal(rc, -ENOMEM);
	assert_non_null(strstr(mpib_engine_last_error(pair.node[0].engine, rc),
			       "the device's max_qp is 1"));
	pair_transfer(&pair, &tx, &rx, 0, MIB, MIB, 1);
}

teardown_test(only_a_user_beyond_a_device_limit_is_refused)
{
	static const char *const limits[] = { "max_pd=1", "max_srq=1" };

	for (unsigned i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct mpib_tenant *other;
		char says[64];
		int rc;

		open_limited(limits[i], 2, 512);
		rc = mpib_tenant_get(pair.node[0].engine, 0, 7, &other);
		assert_int_equal(rc, -ENOMEM);
		snprintf(says, sizeof(says), "the device's %.*s is 1",
			 (int)strcspn(limits[i], "="), limits[i]);
		assert_non_null(strstr(
			mpib_engine_last_error(pair.node[0].engine, rc), says));
		pair_transfer(&pair, &tx, &rx, 0, MIB, MIB, 1);
		pair_close(&pair);
	}
}

/* Open an engine with these limits. Return 0 if the engine opens. */
static int start(const char *limits, char *why, size_t why_len)
{
	struct mpib_engine_config cfg;
	struct mpib_engine *engine;
	int rc;

	setenv("MPIB_SOFT_LIMITS", limits, 1);
	mpib_engine_config_init(&cfg);
	cfg.rails = 1;
	assert_int_equal(mpib_rail_spec_parse("soft:127.25.0.1", &cfg.rail[0],
					      why, (unsigned)why_len),
			 0);
	rc = mpib_engine_open_idle(&cfg, NULL, NULL, &engine, why, why_len);
	if (rc == 0)
		mpib_engine_close(engine);
	return rc;
}

teardown_test(an_unusable_device_is_refused_at_start)
{
	static const struct {
		const char *limits, *says;
	} few[] = {
		{ "max_msg_sz=4095", "max_msg_sz = 4095" },
		{ "max_qp_wr=100", "max_qp_wr = 100 (lower it)" },
		{ "max_srq_wr=100", "max_srq_wr = 100 (lower it)" },
		{ "max_qp=0", "max_qp = 0 (lower sout.qp)" },
		{ "max_cqe=500", "max_cqe = 500" },
		{ "max_cq=0", "the device's max_cq is 0" },
		{ "max_qp_rd_atom=0", "max_qp_rd_atom = 0" },
		{ "max_qp_init_rd_atom=0", "max_qp_init_rd_atom = 0" },
		{ "max_sge=0", "ibv_create_qp" },
		{ "max_msg=1", "MPIB_SOFT_LIMITS" },
		{ "max_msg_sz=2147483648", "MPIB_SOFT_LIMITS" },
		{ "max_msg_sz", "MPIB_SOFT_LIMITS" },
	};
	char why[300];

	for (unsigned i = 0; i < sizeof(few) / sizeof(few[0]); i++) {
		if (start(few[i].limits, why, sizeof(why)) == 0)
			fail_msg("%s is accepted", few[i].limits);
		if (!strstr(why, few[i].says))
			fail_msg("%s: \"%s\"", few[i].limits, why);
	}
	/* These limits are low, but the engine must accept them. */
	assert_int_equal(start("max_msg_sz=4096,max_inline_data=0,max_qp=9,"
			       "max_mr_size=1048576,max_cqe=4096,max_cq=1",
			       why, sizeof(why)),
			 0);
}
