/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of the reservation of entries in a rail's CQ (rail/budget.h). The tests
 * check how many entries each object reserves, that all entries are released,
 * that no request waits for an entry forever, and how many entries one user may
 * reserve.
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

static void until_retired(const struct mpib_lane_qp *q)
{
	for (unsigned i = 0; i < 2000000 && q->posted != q->retired; i++)
		pair_turn(&pair);
	assert_int_equal(mpib_qp_outstanding(q), 0);
}

/* Count the tenants on the shard. */
static unsigned tenants(unsigned node)
{
	const struct mpib_tenant *t;
	unsigned n = 0;

	TAILQ_FOREACH(t, &pair.node[node].engine->shard[0].tenants, link)
	n++;
	return n;
}

/* This was a bug: a user's receive queue kept its reservation after the user
 * had left. */
pair_test(users_that_have_left_hold_no_reservation)
{
	uint32_t promised;

	open_pair();
	promised = budget(0, SOUT)->promised;
	for (unsigned uid = 1; uid <= 300; uid++) {
		struct mpib_tenant *t;

		assert_int_equal(
			mpib_tenant_get(pair.node[0].engine, 0, uid, &t), 0);
		/* A user may leave before the shard has learned of the user. */
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

pair_test(a_user_is_refused_with_a_reason_if_the_cq_has_no_room)
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
	/* Users that already have a reservation are not affected. */
	pair_turns(&pair, 4);
	assert_true(mpib_budget_fits(budget(0, SOUT), 16384));
	assert_false(mpib_budget_fits(budget(0, SOUT), 20000));
	pair_transfer(&pair, &tx, &rx, 1, 4096, 4096, 1);
	/* When one user leaves, another user can reserve the entries that this
	 * releases. */
	mpib_tenant_put(t[--n]);
	pair_turns(&pair, 4);
	assert_int_equal(mpib_tenant_get(e, 0, 9999, &t[n]), 0);
	while (n > 0)
		mpib_tenant_put(t[--n]);
}

/* Most CTS are unsignalled. This was a bug: if the interval between signalled
 * CTS was longer than the SQ, the entries for a whole SQ stayed reserved
 * forever. */
pair_test(any_sq_depth_works)
{
	static const uint32_t depth[] = { 32, 64, 512 };

	for (unsigned i = 0; i < 3; i++) {
		struct mpib_engine_config cfg;

		mpib_engine_config_init(&cfg);
		cfg.sq_depth = depth[i];
		open_with(&cfg);
		for (unsigned m = 0; m < cfg.sq_depth + 100; m++)
			pair_transfer(&pair, &tx, &rx, 1, 64, 64, m);
		/* The SQ must also have room for a send op that answers a
		 * grouped receive, and for a replay. */
		pair_turns(&pair, 100);
		assert_true(
			mpib_qp_fits(&rx.conn->lane->qp[SOUT][0], SOUT, 17));
		pair_close(&pair);
	}
}

/* Return the number of entries in SOUT's CQ that are reserved for send
 * completions. */
static uint32_t sends(unsigned node)
{
	return budget(node, SOUT)->sends;
}

/* This was a bug: a lane with only one rail was never probed, so its entries
 * stayed reserved. */
pair_test(an_idle_lane_reserves_no_cqes)
{
	open_pair();
	assert_false(pair.node[1].lane->failover);
	for (unsigned m = 0; m < 50; m++)
		pair_transfer(&pair, &tx, &rx, 1, 64, 64, m);
	for (unsigned i = 0; i < 2000000 && sends(1); i++)
		pair_turn(&pair);
	assert_int_equal(sends(1), 0);
}

/* Unsignalled CTS keep their entries until the next check of idle connections.
 * If few entries are left, a connection must not have to wait for this
 * check. */
pair_test(with_few_cqes_left_each_cts_is_signalled)
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

/* Return how many WRs fit on the QP. */
static uint32_t room(const struct mpib_lane_qp *q)
{
	uint32_t n = 0;

	while (mpib_qp_fits(q, q->rail, n + 1))
		n++;
	return n;
}

/* QPs to peers that have stopped get no completions. They must leave entries
 * for the QPs to other peers. */
pair_test(qps_without_completions_leave_entries_for_other_qps)
{
	struct pair more;
	struct mpib_lane_qp *stopped, *q;
	uint32_t before, posted = 0;

	open_pair();
	pair_more_lane(&pair, &more);
	stopped = &pair.node[0].lane->qp[SOUT][0];
	q = &more.node[0].lane->qp[SOUT][0];
	pair_turns(&pair, 4);
	budget(0, SOUT)->size = budget(0, SOUT)->promised + sends(0) + 300;
	before = room(q);
	while (mpib_qp_fits(stopped, SOUT, 1)) {
		uint64_t wr_id = mpib_wr_tag(MPIB_WR_PROBE, 0, 0);
		struct mpib_wr *w = mpib_qp_write(stopped, wr_id);

		w->wr.send_flags = IBV_SEND_SIGNALED;
		mpib_qp_add(stopped, w);
		posted++;
	}
	assert_in_range(posted, before / 2, before / 2 + 1);
	assert_in_range(room(q), before / 2 - 1, before / 2);
	budget(0, SOUT)->size = 65536;
	until_retired(stopped);
}

/* Even in a full CQ, entries are reserved for a probe and for the last WR of a
 * lane. */
pair_test(a_full_cq_still_has_room_for_a_probe_and_a_last_wr)
{
	struct mpib_lane_qp *q;
	bool killed = false;

	open_pair();
	q = &pair.node[1].lane->qp[SOUT][0];
	for (unsigned m = 0; m < 1000 && q->posted == q->asked; m++)
		pair_transfer(&pair, &tx, &rx, 1, 64, 64, m);
	assert_int_not_equal(q->posted, q->asked);
	/* Set the counters so that the probe makes them wrap. */
	assert_int_equal(q->asked, q->retired);
	q->posted += UINT32_MAX - q->asked;
	q->asked = q->retired = UINT32_MAX;
	budget(1, SOUT)->size = budget(1, SOUT)->promised + sends(1);
	assert_false(mpib_qp_fits(q, SOUT, 1));
	assert_true(mpib_qp_probe(q));
	/* the first probe uses the reserved entry */
	assert_false(mpib_qp_probe(q));
	until_retired(q);
	budget(1, SOUT)->size = budget(1, SOUT)->promised;
	assert_false(mpib_qp_fits(q, SOUT, 1));
	mpib_lane_kill(pair.node[1].lane, pair_set_flag, &killed);
	pair_until(&pair, &killed);
	budget(1, SOUT)->size = 65536;
}

/* The outstanding sends use all entries that are not reserved. Then another
 * user attaches. */
TEST(receives_leave_the_entries_that_are_reserved_for_qps)
{
	struct mpib_budget b = { .size = 4096 };

	assert_int_equal(mpib_budget_promise(&b, 1, 512), 0);
	assert_true(mpib_budget_receive(&b, 512));
	assert_int_equal(mpib_budget_promise_qp(&b, 1), 0);
	assert_int_equal(mpib_budget_promise_qp(&b, 1), 0);
	while (mpib_budget_fits(&b, 1))
		mpib_budget_send(&b, 1);
	assert_int_equal(mpib_budget_promise(&b, 2, 512), 0);
	assert_false(mpib_budget_receive(&b, 1));
	for (unsigned i = 0; i < 2 * MPIB_BUDGET_PER_QP; i++) {
		assert_false(mpib_budget_is_full(&b));
		mpib_budget_send(&b, 1);
	}
	/* The entries for a new QP become free only when sends complete. */
	assert_int_equal(mpib_budget_promise_qp(&b, 2), 0);
	assert_true(mpib_budget_is_full(&b));
	mpib_budget_release_qp(&b);
	mpib_budget_sent(&b, 512 + 2 * MPIB_BUDGET_PER_QP);
	assert_true(mpib_budget_receive(&b, 512));
}

/* A probe does not belong to a connection, so no connection counts its
 * completion. */
pair_test(a_probe_is_counted_for_no_connection)
{
	struct mpib_lane_qp *q;
	uint64_t cqes;

	open_pair();
	assert_int_equal(tx.conn->id, 0);
	pair_transfer(&pair, &tx, &rx, 1, 64, 64, 1);
	q = &pair.node[0].lane->qp[SOUT][0];
	cqes = tx.conn->n[SOUT].tx_cqes;
	assert_true(mpib_qp_probe(q));
	until_retired(q);
	assert_int_equal(tx.conn->n[SOUT].tx_cqes, cqes);
}
