/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places in a rail's CQ (rail/budget.h): which object has them, that they
 * return, and that no request waits for ever for one; and their sums. Also how
 * a snapshot counts lanes.
 */
#include <errno.h>

#include "engine/conn/conn.h"
#include "engine_pair.h"
#include "test.h"

#define SOUT MPIB_RAIL_SOUT

static struct pair pair;
static struct pair_end tx, rx;

static void open_with(const struct mpib_engine_config *cfg)
{
	pair_open(&pair, cfg, MPIB_IMM_V2);
	pair_connect(&pair, 5, 0, &tx, &rx);
}

static void open_pair(void)
{
	struct mpib_engine_config cfg;

	mpib_engine_config_init(&cfg);
	open_with(&cfg);
}

static struct mpib_budget *budget(unsigned node, unsigned rail)
{
	return &pair.node[node].engine->shard[0].rail[rail].budget;
}

/* Count the tenants that the shard knows. */
static unsigned tenants(unsigned node)
{
	const struct mpib_tenant *t;
	unsigned n = 0;

	TAILQ_FOREACH(t, &pair.node[node].engine->shard[0].tenants, link)
	n++;
	return n;
}

/* Each once had a receive queue of its own, whose receives counted for ever. */
pair_test(users_that_come_and_go_leave_nothing_behind)
{
	uint32_t promised;

	open_pair();
	promised = budget(0, SOUT)->promised;
	for (unsigned uid = 1; uid <= 300; uid++) {
		struct mpib_tenant *t;

		assert_int_equal(
			mpib_tenant_get(pair.node[0].engine, 0, uid, &t), 0);
		/* It may leave before the shard saw it. */
		pair_turns(&pair, uid % 3);
		mpib_tenant_put(t);
		pair_turns(&pair, uid % 2);
	}
	pair_turns(&pair, 4);
	assert_int_equal(tenants(0), 1);
	assert_int_equal(budget(0, SOUT)->promised, promised);
	assert_int_equal(budget(0, SOUT)->receives, pair.cfg.srq_high);
	pair_transfer(&pair, &tx, &rx, 1, 4096, 4096, 1);
}

pair_test(users_beyond_the_room_are_refused_by_name)
{
	enum {
		MOST = 200
	};
	struct mpib_engine *e;
	struct mpib_tenant *t[MOST];
	unsigned n = 0;
	const char *why;
	int rc;

	open_pair();
	e = pair.node[0].engine;
	while ((rc = mpib_tenant_get(e, 0, 100 + n, &t[n])) == 0) {
		n++;
		pair_turns(&pair, n % 2);
		assert_true(n < MOST);
	}
	assert_int_equal(rc, -ENOSPC);
	why = mpib_engine_last_error(e, rc);
	assert_non_null(
		strstr(why, "no room for the receives of another user"));
	assert_non_null(strstr(why, "65536 completions"));
	assert_non_null(strstr(why, "srq.high"));
	assert_in_range(n, 90, 96);
	/* Users that have places are not affected. */
	pair_turns(&pair, 4);
	assert_in_range(mpib_budget_room(budget(0, SOUT)), 16384, 20000);
	pair_transfer(&pair, &tx, &rx, 1, 4096, 4096, 1);
	/* One leaves, one comes. */
	mpib_tenant_put(t[--n]);
	pair_turns(&pair, 4);
	assert_int_equal(mpib_tenant_get(e, 0, 9999, &t[n]), 0);
	while (n > 0)
		mpib_tenant_put(t[--n]);
}

/* CTS are mostly unsignalled. With an interval longer than the SQ, places for a
 * whole SQ once never returned. */
pair_test(any_depth_goes_with_any_interval)
{
	static const uint32_t depth[] = { 32, 64, 512 };
	static const uint32_t interval[] = { 1, 128, 1024 };

	for (unsigned i = 0; i < 3 * 3; i++) {
		struct mpib_engine_config cfg;

		mpib_engine_config_init(&cfg);
		cfg.sq_depth = depth[i / 3];
		cfg.cts_signal = interval[i % 3];
		open_with(&cfg);
		for (unsigned m = 0; m < cfg.sq_depth + 100; m++)
			pair_transfer(&pair, &tx, &rx, 1, 64, 64, m);
		/* Nor is a grouped answer or a replay ever without room. */
		pair_turns(&pair, 100);
		assert_in_range(mpib_qp_room(&rx.conn->lane->qp[SOUT][0]), 17,
				cfg.sq_depth);
		pair_close(&pair);
	}
}

/* Count the places in the node's CQ without those of receives. */
static uint32_t sends(unsigned node)
{
	return budget(node, SOUT)->sends;
}

/* Lanes that have no other rail to go to were never asked. */
pair_test(a_lane_at_rest_keeps_no_places)
{
	open_pair();
	assert_false(pair.node[1].lane->failover);
	for (unsigned m = 0; m < 50; m++)
		pair_transfer(&pair, &tx, &rx, 1, 64, 64, m);
	for (unsigned i = 0; i < 2000000 && sends(1); i++)
		pair_turn(&pair);
	assert_int_equal(sends(1), 0);
}

/* If places are scarce, no connection may wait for the next check for quiet
 * connections. */
pair_test(where_places_are_few_each_cts_is_signalled)
{
	struct mpib_lane_qp *q;

	open_pair();
	q = &pair.node[1].lane->qp[SOUT][0];
	budget(1, SOUT)->size = budget(1, SOUT)->promised + 1;
	for (unsigned m = 0; m < 20; m++) {
		pair_transfer(&pair, &tx, &rx, 1, 64, 64, m);
		assert_int_equal(q->posted, q->asked);
	}
	budget(1, SOUT)->size = 65536;
}

/* When all places are taken a probe has its own, and so has a lane's end. */
pair_test(a_full_cq_can_still_be_asked_and_stopped)
{
	struct mpib_lane_qp *q;
	bool killed = false;

	open_pair();
	q = &pair.node[1].lane->qp[SOUT][0];
	for (unsigned m = 0; m < 1000 && q->posted == q->asked; m++)
		pair_transfer(&pair, &tx, &rx, 1, 64, 64, m);
	assert_int_not_equal(q->posted, q->asked);
	/* Counts that wrap with the probe. */
	assert_int_equal(q->asked, q->retired);
	q->posted += UINT32_MAX - q->asked;
	q->asked = q->retired = UINT32_MAX;
	budget(1, SOUT)->size = budget(1, SOUT)->promised + sends(1);
	assert_int_equal(mpib_qp_room(q), 0);
	assert_true(mpib_qp_probe(q));
	assert_false(mpib_qp_probe(q)); /* the place is taken */
	for (unsigned i = 0; i < 2000000 && q->posted != q->retired; i++)
		pair_turn(&pair);
	assert_int_equal(mpib_qp_outstanding(q), 0);
	budget(1, SOUT)->size = budget(1, SOUT)->promised;
	assert_int_equal(mpib_qp_room(q), 0);
	mpib_lane_kill(pair.node[1].lane, pair_set_flag, &killed);
	pair_until(&pair, &killed);
	budget(1, SOUT)->size = 65536;
}

/* Probes and last requests are a QP's and no connection's. */
pair_test(a_probe_is_counted_to_no_connection)
{
	struct mpib_lane_qp *q;
	uint64_t cqes;

	open_pair();
	assert_int_equal(tx.conn->id, 0);
	pair_transfer(&pair, &tx, &rx, 1, 64, 64, 1);
	q = &pair.node[0].lane->qp[SOUT][0];
	cqes = tx.conn->n[SOUT].tx_cqes;
	assert_true(mpib_qp_probe(q));
	for (unsigned i = 0; i < 2000000 && q->posted != q->retired; i++)
		pair_turn(&pair);
	assert_int_equal(tx.conn->n[SOUT].tx_cqes, cqes);
}
