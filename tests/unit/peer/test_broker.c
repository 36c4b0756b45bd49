/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer/broker.h between nodes that mean well: connections come up, share lanes,
 * end in any order, and what is refused says why.
 */
#include "rig.h"

#include <errno.h>
#include <stdio.h>

#include "peer/internal.h"
#include "test.h"

static void connects_two_nodes(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;

	rig_both_up(rig, &a, &b, 1);
	rig_connect(rig, a, 3, b, 5);
	assert_ptr_equal(fake_conn(&a->engine_client, 3)->peer,
			 fake_conn(&b->engine_client, 5));
	assert_ptr_equal(fake_conn(&b->engine_client, 5)->peer,
			 fake_conn(&a->engine_client, 3));
	assert_true(fake_conn(&a->engine_client, 3)->sender);
	assert_false(fake_conn(&b->engine_client, 5)->sender);
}

static void shares_a_lane_in_both_directions(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;

	rig_both_up(rig, &a, &b, 1);
	rig_connect(rig, a, 0, b, 0);
	rig_connect(rig, b, 1, a, 1);
	rig_connect(rig, a, 2, b, 2);
	assert_int_equal(fake_lanes(&rig->node[0].engine), 1);
	assert_int_equal(fake_lanes(&rig->node[1].engine), 1);
}

static void tells_each_end_of_a_lane_what_the_other_has(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;
	struct mpib_lane *x, *y;

	rig_both_up(rig, &a, &b, 1);
	rig_connect(rig, a, 0, b, 0);
	x = fake_lane(&rig->node[0].engine, 0);
	y = fake_lane(&rig->node[1].engine, 0);
	assert_true(x->local.rail[0].ece);
	assert_memory_equal(x->local.rail, y->remote.rail,
			    sizeof(x->local.rail));
	assert_memory_equal(y->local.rail, x->remote.rail,
			    sizeof(y->local.rail));
}

/* Node 1 stands still, node 0 does not. */
static void pass_alone(struct rig *rig, unsigned seconds)
{
	struct mpib_loop *loop = &rig->node[0].loop;

	while (seconds-- > 0) {
		mpib_loop_advance(loop, MPIB_SEC);
		while (mpib_loop_turn(loop, 0) > 0)
			;
	}
}

static void a_silent_peer_is_given_up_when_patience_ends(void **state)
{
	static const unsigned silence[] = { 0, 30 };
	struct rig *rig = *state;
	struct client *a, *b;
	char text[64];

	rig_up(rig, 1);
	b = rig_client(rig, 1, 1000, 0);
	for (unsigned i = 0; i < 2; i++) {
		unsigned limit = silence[i] ? silence[i] : 60;

		rig->silence_s = silence[i];
		rig_up(rig, 0);
		a = rig_client(rig, 0, 1000, 0);
		rig_connect(rig, a, 0, b, i);
		pass_alone(rig, limit - 1);
		assert_int_equal(rig_state(a, 0), MPIB_CONN_READY);
		pass_alone(rig, 2);
		assert_int_equal(rig_state(a, 0), MPIB_CONN_FAILED);
		snprintf(text, sizeof(text), "no sign of life for %u s", limit);
		assert_non_null(strstr(mpib_broker_why(&a->client, 0), text));
		rig_kill(rig, 0);
		rig_settle(rig);
	}
}

static void a_quiet_peer_is_not_however_short_that_is(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;

	rig->silence_s = MPIB_SILENCE_LEAST_S;
	rig_both_connected(rig, &a, &b);
	rig_pass(rig, 60 * MPIB_SEC);
	assert_int_equal(rig_state(a, 0), MPIB_CONN_READY);
	assert_int_equal(rig_state(b, 0), MPIB_CONN_READY);
}

static void keeps_users_and_shards_on_lanes_of_their_own(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b, *c, *d;

	rig_both_up(rig, &a, &b, 1);
	c = rig_client(rig, 0, 1001, 0);
	d = rig_client(rig, 1, 1001, 1);
	rig_connect(rig, a, 0, b, 0);
	rig_connect(rig, c, 0, d, 0);
	assert_int_equal(fake_lanes(&rig->node[0].engine), 2);
	b = rig_client(rig, 1, 1000, 0);
	rig_connect(rig, a, 1, b, 0);
	assert_int_equal(fake_lanes(&rig->node[1].engine), 3);
}

static void keeps_traffic_classes_on_lanes_of_their_own(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;

	rig_both_up(rig, &a, &b, 1);
	rig_connect(rig, a, 0, b, 0);
	rig->traffic_class = 104;
	rig_connect(rig, a, 1, b, 1);
	rig_connect(rig, a, 2, b, 2);
	/* Their class, whoever opens the lane. */
	rig_connect(rig, b, 3, a, 3);
	rig->traffic_class = 256; /* none that there is */
	rig_connect(rig, b, 4, a, 4);
	for (unsigned n = 0; n < 2; n++) {
		assert_int_equal(fake_lanes(&rig->node[n].engine), 2);
		assert_int_equal(
			fake_lane(&rig->node[n].engine, 0)->traffic_class, 0);
		assert_int_equal(
			fake_lane(&rig->node[n].engine, 1)->traffic_class, 104);
	}
}

static void connects_clients_of_one_node_over_two_lanes(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;

	rig_up(rig, 0);
	a = rig_client(rig, 0, 1000, 0);
	b = rig_client(rig, 0, 1000, 1);
	rig_connect(rig, a, 0, b, 0);
	rig_connect(rig, a, 1, b, 1);
	assert_int_equal(fake_lanes(&rig->node[0].engine), 2);
	/* The other way round the opener's end is on the other shard. */
	rig_connect(rig, b, 2, a, 2);
	assert_int_equal(fake_lanes(&rig->node[0].engine), 4);
	rig_connect(rig, a, 3, a, 4);
	assert_int_equal(fake_lanes(&rig->node[0].engine), 6);
}

static void gives_each_connection_a_private_lane(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;

	rig->private_lanes = true;
	rig_both_up(rig, &a, &b, 0);
	rig_connect(rig, a, 0, b, 0);
	rig_connect(rig, a, 1, b, 1);
	assert_int_equal(fake_lanes(&rig->node[1].engine), 2);
	mpib_broker_drop(a->node->broker, &a->client, 0);
	mpib_broker_drop(b->node->broker, &b->client, 0);
	rig_settle(rig);
	assert_int_equal(fake_lanes(&rig->node[0].engine), 1);
	assert_int_equal(fake_lanes(&rig->node[1].engine), 1);
}

/* Who closes first, or both at once: indices become FREE, connections go. */
static void closes_in_any_order(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;

	rig_both_up(rig, &a, &b, 0);
	for (uint32_t i = 0; i < 3; i++)
		rig_connect(rig, a, i, b, i);

	mpib_broker_drop(a->node->broker, &a->client, 0);
	assert_int_equal(rig_state(a, 0), MPIB_CONN_CLOSING);
	rig_settle(rig);
	assert_int_equal(rig_state(a, 0), MPIB_CONN_FREE);
	assert_int_equal(rig_state(b, 0), MPIB_CONN_FAILED);
	assert_int_equal(rig_error(b, 0), -ECONNRESET);
	assert_non_null(strstr(mpib_broker_why(&b->client, 0), "127.23.0.1"));

	mpib_broker_drop(b->node->broker, &b->client, 1);
	mpib_broker_drop(a->node->broker, &a->client, 2);
	mpib_broker_drop(b->node->broker, &b->client, 2);
	rig_settle(rig);
	assert_int_equal(rig_state(b, 1), MPIB_CONN_FREE);
	assert_int_equal(rig_state(a, 2), MPIB_CONN_FREE);
	assert_int_equal(rig_state(b, 2), MPIB_CONN_FREE);
	mpib_broker_drop(b->node->broker, &b->client, 0);
	mpib_broker_drop(a->node->broker, &a->client, 1);
	rig_settle(rig);
	assert_int_equal(rig_state(b, 0), MPIB_CONN_FREE);
	assert_int_equal(rig_state(a, 1), MPIB_CONN_FREE);
	assert_int_equal(fake_lanes(&rig->node[0].engine), 1);
}

static void set_islands(struct rig *rig, unsigned n, uint32_t sout,
			unsigned prefix)
{
	char why[100];

	rig->sout[n] = sout;
	assert_int_equal(mpib_islands_parse(&rig->islands[n], prefix, "", why,
					    sizeof(why)),
			 0);
}

/* By their SOUT addresses, which are not those of their links. */
static void both_ends_find_the_same_path(void **state)
{
	struct rig *rig = *state;
	struct mpib_lane_info info;
	struct client *c[NODES];

	for (unsigned n = 0; n < NODES; n++) {
		set_islands(rig, n, 0x0a000001u + (n << 8) / 2, 24);
		rig_up(rig, n);
		c[n] = rig_client(rig, n, 1000, 0);
	}
	rig_connect(rig, c[0], 0, c[1], 0);
	mpib_lane_local(fake_lane(&rig->node[0].engine, 0), &info);
	assert_int_equal(info.path, MPIB_PATH_INTRA);
	mpib_lane_local(fake_lane(&rig->node[1].engine, 0), &info);
	assert_int_equal(info.path, MPIB_PATH_INTRA);
	rig_connect(rig, c[2], 1, c[0], 1);
	mpib_lane_local(fake_lane(&rig->node[2].engine, 0), &info);
	assert_int_equal(info.path, MPIB_PATH_INTER);
	mpib_lane_local(fake_lane(&rig->node[0].engine, 1), &info);
	assert_int_equal(info.path, MPIB_PATH_INTER);
}

static void ends_that_see_different_islands_make_no_lane(void **state)
{
	struct rig *rig = *state;
	struct mpib_handle handle;
	struct client *a, *b;

	set_islands(rig, 0, 0x0a000001u, 24);
	set_islands(rig, 1, 0x0a000101u, 16);
	rig_both_up(rig, &a, &b, 0);
	rig_listen(b, &handle);
	rig_call(a, 0, -1, &handle);
	rig_settle(rig);
	assert_int_equal(rig_state(a, 0), MPIB_CONN_FAILED);
	/* What the one sees, and what the other. */
	assert_non_null(strstr(mpib_broker_why(&a->client, 0), "path 1,"));
	assert_non_null(strstr(mpib_broker_why(&a->client, 0), "path 2 "));
	assert_non_null(strstr(mpib_broker_why(&a->client, 0), "islands"));
}

/* Who listens where: of two jobs of one user, one is over already. Both nodes
 * connect at once, so that both open the one lane that the two would share. */
static void crossing_connects(struct rig *rig, unsigned alive, unsigned dead)
{
	struct client *a, *b, *x, *y;
	struct mpib_handle live, gone;
	uint32_t id;

	rig_up(rig, 0);
	rig_up(rig, 1);
	x = rig_client(rig, alive, 7, 0);
	y = rig_client(rig, dead, 7, 0);
	rig_connect(rig, x, 0, y, 0);
	a = rig_client(rig, alive, 1000, 0);
	b = rig_client(rig, dead, 1000, 0);
	id = rig_listen(b, &gone);
	mpib_broker_close_listen(b->node->broker, &b->client, id);
	id = rig_listen(a, &live);
	mpib_broker_accept(a->node->broker, &a->client, id, 1);
	rig_call(a, 0, 0, &gone);
	rig_call(b, 0, 0, &live);
	rig_settle(rig);
	assert_int_equal(rig_state(a, 0), MPIB_CONN_FAILED);
	assert_int_equal(rig_error(a, 0), -ECONNREFUSED);
	assert_int_equal(rig_state(b, 0), MPIB_CONN_READY);
	assert_int_equal(rig_state(a, 1), MPIB_CONN_READY);
}

static void a_connect_does_not_fail_for_one_that_crosses_it(void **state)
{
	struct rig *rig;

	for (unsigned seed = 1; seed <= 20; seed++) {
		for (unsigned dead = 0; dead < 2; dead++) {
			rig_setup(state);
			rig = *state;
			rig->seed = seed;
			crossing_connects(rig, 1 - dead, dead);
			rig_teardown(state);
		}
	}
}

const struct CMUnitTest test_list[] = {
	rig_test(connects_two_nodes),
	rig_test(shares_a_lane_in_both_directions),
	rig_test(tells_each_end_of_a_lane_what_the_other_has),
	rig_test(a_silent_peer_is_given_up_when_patience_ends),
	rig_test(a_quiet_peer_is_not_however_short_that_is),
	rig_test(keeps_traffic_classes_on_lanes_of_their_own),
	rig_test(keeps_users_and_shards_on_lanes_of_their_own),
	rig_test(connects_clients_of_one_node_over_two_lanes),
	rig_test(gives_each_connection_a_private_lane),
	rig_test(closes_in_any_order),
	rig_test(both_ends_find_the_same_path),
	rig_test(ends_that_see_different_islands_make_no_lane),
	cmocka_unit_test(a_connect_does_not_fail_for_one_that_crosses_it),
	{ 0 },
};
