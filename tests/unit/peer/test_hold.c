/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects that wait while their broker is handed over: none has anything on its
 * way then, and each goes on afterwards, wherever it was.
 */
#include <errno.h>

#include "peer/handover/handover.h"
#include "peer/internal.h"
#include "rig.h"
#include "test.h"

struct pair {
	struct client *a, *b;
	struct mpib_handle handle;
	uint32_t id;
};

static struct pair connecting(struct rig *rig)
{
	struct pair p;

	rig_both_up(rig, &p.a, &p.b, 0);
	p.id = rig_listen(p.b, &p.handle);
	rig_call(p.a, 0, 0, &p.handle);
	return p;
}

static void accept_it(const struct pair *p)
{
	rig_accept(p->b, p->id, 0);
}

/* Nothing of this process is known to anybody; the client does not notice. */
static void assert_held(const struct pair *p)
{
	assert_int_equal(p->a->client.conn[0]->state, PEER_CONN_HELD);
	assert_int_equal(rig_state(p->a, 0), MPIB_CONN_PENDING);
	assert_int_equal(fake_conns(&p->a->node->engine), 0);
}

static void assert_ready(const struct pair *p)
{
	assert_int_equal(rig_state(p->a, 0), MPIB_CONN_READY);
	assert_int_equal(rig_state(p->b, 0), MPIB_CONN_READY);
}

/* After any number of turns of the two nodes. */
static void a_connect_is_held_wherever_it_is(void **state)
{
	for (unsigned turns = 0; turns < 24; turns++) {
		struct rig *rig;
		struct pair p;

		rig_setup(state);
		rig = *state;
		rig->private_lanes = turns & 1;
		p = connecting(rig);
		for (unsigned i = 0; i < turns / 2; i++)
			mpib_loop_turn(&rig->node[i & 1].loop, 0);
		mpib_broker_hold(p.a->node->broker, true);
		rig_settle(rig);
		assert_held(&p);
		mpib_broker_hold(p.a->node->broker, false);
		rig_settle(rig);
		assert_int_equal(rig_state(p.a, 0), MPIB_CONN_PENDING);
		accept_it(&p);
		rig_settle(rig);
		assert_ready(&p);
		rig_teardown(state);
	}
}

/* Either it is READY, or it is held and the accept waits for it. */
static void an_accept_may_cross_it(void **state)
{
	unsigned ready = 0;

	for (unsigned seed = 1; seed <= 40; seed++) {
		struct rig *rig;
		struct pair p;

		rig_setup(state);
		rig = *state;
		rig->seed = seed;
		p = connecting(rig);
		rig_settle(rig);
		if (seed & 1)
			accept_it(&p);
		mpib_broker_hold(p.a->node->broker, true);
		for (unsigned i = 0; i < seed % 4; i++)
			rig_step(rig);
		if (!(seed & 1))
			accept_it(&p);
		rig_settle(rig);
		ready += rig_state(p.a, 0) == MPIB_CONN_READY;
		if (rig_state(p.a, 0) != MPIB_CONN_READY)
			assert_held(&p);
		mpib_broker_hold(p.a->node->broker, false);
		rig_settle(rig);
		assert_ready(&p);
		rig_teardown(state);
	}
	assert_in_range(ready, 1, 39);
}

/* Before the peer has answered, too. */
static void it_may_go_on_at_once(void **state)
{
	struct rig *rig = *state;
	struct pair p = connecting(rig);

	rig_settle(rig);
	for (unsigned i = 0; i < 20; i++) {
		mpib_broker_hold(p.a->node->broker, true);
		for (unsigned k = 0; k < i % 5; k++)
			rig_step(rig);
		mpib_broker_hold(p.a->node->broker, false);
		rig_step(rig);
	}
	rig_settle(rig);
	accept_it(&p);
	rig_settle(rig);
	assert_ready(&p);
}

/* The peer ends the lane that it goes by, as before it hands over: when it has
 * the CONN_OPEN, which it does not answer then, or before, when it does. */
static void it_begins_again_when_the_peer_ends_its_lane(void **state)
{
	for (unsigned has = 0; has < 2; has++) {
		struct rig *rig;
		struct pair p;

		rig_setup(state);
		rig = *state;
		p = connecting(rig);
		while (!p.a->client.conn[0] ||
		       p.a->client.conn[0]->state != PEER_CONN_OPEN)
			rig_step(rig);
		if (has)
			rig_settle(rig);
		peer_lane_kill(p.b->node->broker->lanes, -ECANCELED,
			       "its proxy is upgraded");
		rig_settle(rig);
		assert_int_equal(rig_state(p.a, 0), MPIB_CONN_PENDING);
		accept_it(&p);
		rig_settle(rig);
		assert_ready(&p);
		rig_teardown(state);
	}
}

static void one_that_fails_meanwhile_says_why(void **state)
{
	struct rig *rig = *state;
	struct pair p = connecting(rig);

	rig_settle(rig);
	mpib_broker_close_listen(p.b->node->broker, &p.b->client, p.id);
	mpib_broker_hold(p.a->node->broker, true);
	rig_settle(rig);
	assert_int_equal(rig_state(p.a, 0), MPIB_CONN_FAILED);
	assert_int_equal(rig_error(p.a, 0), -ECONNREFUSED);
}

static void its_client_may_close_it_meanwhile(void **state)
{
	for (unsigned steps = 0; steps < 10; steps++) {
		struct rig *rig;
		struct pair p;

		rig_setup(state);
		rig = *state;
		p = connecting(rig);
		rig_settle(rig);
		mpib_broker_hold(p.a->node->broker, true);
		for (unsigned i = 0; i < steps; i++)
			rig_step(rig);
		assert_int_equal(
			mpib_broker_drop(p.a->node->broker, &p.a->client, 0),
			0);
		rig_settle(rig);
		assert_int_equal(rig_state(p.a, 0), MPIB_CONN_FREE);
		rig_teardown(state);
	}
}

/* The lower node calls its opening of a lane off before the other, whose own
 * crosses it, has heard of it. */
static void openings_of_a_lane_may_cross_it(void **state)
{
	struct rig *rig = *state;
	struct mpib_handle to_a, to_b;
	struct client *a, *b;
	uint32_t at_a, at_b;
	struct mpib_peer *p;
	struct mpib_link *link;

	rig_both_connected(rig, &a, &b);
	p = TAILQ_FIRST(&a->node->broker->peers);
	link = p->link;
	at_a = rig_listen(a, &to_a);
	at_b = rig_listen(b, &to_b);
	rig_call(a, 1, 5, &to_b);
	mpib_broker_hold(a->node->broker, true);
	peer_lane_kill(TAILQ_LAST(&p->lanes, peer_lane_list), -ECANCELED,
		       "its proxy is upgraded");
	rig_call(b, 1, 5, &to_a);
	rig_settle(rig);
	mpib_broker_hold(a->node->broker, false);
	rig_accept(a, at_a, 2);
	rig_accept(b, at_b, 2);
	rig_settle(rig);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(rig_state(a, i), MPIB_CONN_READY);
		assert_int_equal(rig_state(b, i), MPIB_CONN_READY);
	}
	assert_ptr_equal(p->link, link);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(a_connect_is_held_wherever_it_is),
	cmocka_unit_test(an_accept_may_cross_it),
	rig_test(it_may_go_on_at_once),
	cmocka_unit_test(it_begins_again_when_the_peer_ends_its_lane),
	rig_test(one_that_fails_meanwhile_says_why),
	cmocka_unit_test(its_client_may_close_it_meanwhile),
	rig_test(openings_of_a_lane_may_cross_it),
	{ 0 },
};
