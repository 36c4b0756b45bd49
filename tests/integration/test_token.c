/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On software rails, each QP of a lane has a token. When a lane is set up, the
 * QPs exchange their tokens, by which they recognise each other. This must not
 * depend on the setting qp.ece.
 */
#include "engine/lane/lane.h"
#include "engine_pair.h"
#include "rails.h"
#include "test.h"
#include "verbs/soft/qp.h"

static struct pair pair;
static struct pair_end tx, rx;

static int teardown(void **state)
{
	if (pair.node[0].engine)
		pair_close(&pair);
	memset(&pair, 0, sizeof(pair));
	return 0;
}

static struct soft_qp *qp(unsigned node, unsigned rail, unsigned i)
{
	return to_qp(pair.node[node].lane->qp[rail][i].qp);
}

static void assert_acquainted(uint32_t ece)
{
	struct mpib_engine_config cfg;

	mpib_engine_config_init(&cfg);
	cfg.ece = ece;
	cfg.qps[MPIB_RAIL_SOUT] = 3;
	pair_open(&pair, &cfg, MPIB_IMM_V2);
	pair_connect(&pair, 0, 0, &tx, &rx);
	for (unsigned r = 0; r < 2; r++) {
		for (unsigned i = 0; i < pair.node[0].lane->qps[r]; i++) {
			const struct soft_qp *a = qp(0, r, i), *b = qp(1, r, i);

			assert_true(a->token != 0 && a->token != b->token);
			assert_int_equal(a->peer_token, b->token);
			assert_int_equal(b->peer_token, a->token);
		}
	}
	assert_true(qp(0, 0, 0)->token != qp(0, 0, 1)->token);
	pair_transfer(&pair, &tx, &rx, 0, 100000, 100000, 1);
}

teardown_test(the_qps_of_a_lane_exchange_tokens)
{
	char name[64];

	if (test_rail(name, sizeof(name), 0, 0) && !strncmp(name, "rdma", 4))
		skip_as("the rails are not on software HCAs");
	assert_acquainted(1);
}

teardown_test(the_qps_of_a_lane_exchange_tokens_with_ece_off)
{
	char name[64];

	if (test_rail(name, sizeof(name), 0, 0) && !strncmp(name, "rdma", 4))
		skip_as("the rails are not on software HCAs");
	assert_acquainted(0);
}
