/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects whose lane the peer ends: each begins again, over another lane, and its
 * client does not notice.
 */
#include <errno.h>

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

static void assert_ready(const struct pair *p)
{
	assert_int_equal(rig_state(p->a, 0), MPIB_CONN_READY);
	assert_int_equal(rig_state(p->b, 0), MPIB_CONN_READY);
}

static void until_open(struct rig *rig, const struct pair *p)
{
	while (!p->a->client.conn[0] ||
	       p->a->client.conn[0]->state != PEER_CONN_OPEN)
		rig_step(rig);
}

/* The peer ends the lane when it has the CONN_OPEN, which it does not answer then,
 * or before, when it does. */
static void it_begins_again_when_the_peer_ends_its_lane(void **state)
{
	for (unsigned has = 0; has < 2; has++) {
		struct rig *rig;
		struct pair p;

		rig_setup(state);
		rig = *state;
		p = connecting(rig);
		until_open(rig, &p);
		if (has)
			rig_settle(rig);
		peer_lane_kill(p.b->node->broker->lanes, -ECANCELED,
			       "no connection used it");
		rig_settle(rig);
		assert_int_equal(rig_state(p.a, 0), MPIB_CONN_PENDING);
		accept_it(&p);
		rig_settle(rig);
		assert_ready(&p);
		rig_teardown(state);
	}
}

static void its_client_may_close_it_meanwhile(void **state)
{
	for (unsigned steps = 0; steps < 10; steps++) {
		struct rig *rig;
		struct pair p;

		rig_setup(state);
		rig = *state;
		p = connecting(rig);
		until_open(rig, &p);
		rig_settle(rig);
		peer_lane_kill(p.b->node->broker->lanes, -ECANCELED,
			       "no connection used it");
		for (unsigned i = 0; i < steps; i++)
			rig_step(rig);
		assert_int_equal(
			mpib_broker_drop(p.a->node->broker, &p.a->client, 0),
			0);
		rig_settle(rig);
		assert_int_equal(rig_state(p.a, 0), MPIB_CONN_FREE);
		assert_int_equal(fake_conns(&p.a->node->engine), 0);
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
	mpib_broker_drop(a->node->broker, &a->client, 1);
	peer_lane_kill(TAILQ_LAST(&p->lanes, peer_lane_list), -ECANCELED,
		       "no connection used it");
	rig_call(b, 1, 5, &to_a);
	rig_settle(rig);
	rig_call(a, 1, 5, &to_b);
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
	cmocka_unit_test(it_begins_again_when_the_peer_ends_its_lane),
	cmocka_unit_test(its_client_may_close_it_meanwhile),
	rig_test(openings_of_a_lane_may_cross_it),
	{ 0 },
};
