/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer/broker.h between nodes with the same cluster key, without a key, and
 * with different keys.
 */
#include "rig.h"

#include "base/log.h"
#include "peer/internal.h"
#include "test.h"

static const struct mpib_cluster_key cluster = { true, "cluster" };
static const struct mpib_cluster_key other = { true, "other" };
static const struct mpib_cluster_key none;

/* Keep the entry of a refused peer, which the statistics show. */
static void keep_refusal(void *arg, const struct mpib_broker_told *t)
{
	const struct mpib_broker_told **last = arg;
	static struct mpib_broker_told kept;

	if (t->state != MPIB_TOLD_REFUSED)
		return;
	assert_null(*last);
	kept = *t;
	*last = &kept;
}

/* Connect from a node with the key `from` to a node with the key `to`. The text
 * of the failure must contain `why`. */
static void expect_refused(struct rig *rig, const struct mpib_cluster_key *from,
			   const struct mpib_cluster_key *to, const char *why)
{
	const struct mpib_broker_told *told = NULL;
	struct mpib_handle handle;
	struct client *a, *b;

	rig->key = *from;
	rig_up(rig, 0);
	rig->key = *to;
	rig_up(rig, 1);
	a = rig_client(rig, 0, 1000, 0);
	b = rig_client(rig, 1, 1000, 0);
	rig_listen(b, &handle);
	rig_call(a, 0, -1, &handle);
	rig_pass(rig, 11 * MPIB_SEC);
	assert_int_equal(rig_state(a, 0), MPIB_CONN_FAILED);
	assert_in(mpib_broker_why(&a->client, 0), why);
	assert_int_equal(fake_lanes(&rig->node[1].engine), 0);
	mpib_broker_each_told(a->node->broker, keep_refusal, &told);
	assert_non_null(told);
	assert_non_null(strstr(told->why, why));
	assert_true(told->refusals > 1);
}

/* A changed key does not affect a link that is up. Reconnecting then fails, and
 * both ends report the reason. */
rig_test(a_key_changed_at_one_end_ends_lanes_when_their_link_breaks)
{
	struct client *a, *b;

	rig->key = cluster;
	rig_both_connected(rig, &a, &b);
	rig->node[1].broker->key = other;
	rig_pass(rig, 30 * MPIB_SEC);
	rig_connect(rig, b, 1, a, 1);
	rig_cut(rig, 0);
	rig_pass(rig, 50 * MPIB_SEC);
	assert_int_equal(rig_state(a, 0), MPIB_CONN_READY);
	rig_pass(rig, 15 * MPIB_SEC);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(rig_state(a, i), MPIB_CONN_FAILED);
		assert_int_equal(rig_state(b, i), MPIB_CONN_FAILED);
	}
	assert_in(mpib_broker_why(&a->client, 0),
		  "does not know the cluster's key");
	assert_in(mpib_broker_why(&b->client, 0),
		  "does not know the cluster's key");
}

static unsigned lines;

static void count(enum mpib_log_level level, const char *line)
{
	lines++;
}

/* While a client wants to connect, its broker dials ten times a second. */
TEST(a_node_with_another_key_is_refused_and_the_refusal_is_logged_once)
{
	static const struct {
		const struct mpib_cluster_key *from, *to;
		const char *why;
	} row[] = {
		{ &none, &cluster, "the calling proxy has none" },
		{ &cluster, &none, "the called proxy has none" },
		{ &other, &cluster, "does not know the cluster's key" },
	};

	for (unsigned i = 0; i < 3; i++) {
		rig_setup(state);
		mpib_log_set_level(MPIB_LOG_WARN);
		mpib_log_set_sink(count);
		lines = 0;
		expect_refused(*state, row[i].from, row[i].to, row[i].why);
		mpib_log_set_sink(NULL);
		assert_in_range(lines, 1, 3);
		rig_teardown(state);
	}
}
