/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer/broker.h where there are many: what is about one lane or connection looks
 * at none of the others, for a rail that fails tells of all lanes at once, and a
 * peer that is lost ends them all. The lists of the others lead into memory that
 * cannot be read meanwhile.
 */
#include <errno.h>
#include <sys/mman.h>

#include "peer/internal.h"
#include "rig.h"
#include "test.h"

#define LANES 4

static void *unreadable;

struct hidden {
	struct peer_lane *of_peer, *lanes;
	struct peer_conn *conns;
	struct mpib_listener_entry *listeners;
};

static struct hidden hide(struct mpib_broker *b)
{
	struct mpib_peer *p = TAILQ_FIRST(&b->peers);
	const struct hidden h = {
		.of_peer = TAILQ_FIRST(&p->lanes),
		.lanes = b->lanes,
		.conns = b->conns,
		.listeners = b->listeners,
	};

	assert_int_equal(b->peer_count, 1);
	p->lanes.tqh_first = unreadable;
	b->lanes = unreadable;
	b->conns = unreadable;
	b->listeners = unreadable;
	return h;
}

static void show(struct mpib_broker *b, const struct hidden *h)
{
	TAILQ_FIRST(&b->peers)->lanes.tqh_first = h->of_peer;
	b->lanes = h->lanes;
	b->conns = h->conns;
	b->listeners = h->listeners;
}

/* Connections 1 to LANES from node 0 to node 1, each on a lane of its own, and
 * connects of node 1 on each, which nobody accepts. */
static struct client *many(struct rig *rig)
{
	struct mpib_handle to_a;
	struct client *a, *b;

	for (unsigned n = 0; n < 2; n++)
		rig_up(rig, n);
	a = rig_client(rig, 0, 1000, 0);
	rig_listen(a, &to_a);
	b = rig_client(rig, 1, 1000, 0);
	for (int i = 1; i <= LANES; i++) {
		rig->traffic_class = i;
		rig_connect(rig, a, (uint32_t)i, b, (uint32_t)i);
		rig_try_call(b, (uint32_t)(LANES + i), i, &to_a);
	}
	rig_settle(rig);
	assert_int_equal(fake_lanes(&a->node->engine), LANES);
	return a;
}

static void a_rail_that_tells_of_a_lane(void **state)
{
	static const struct mpib_rail_msg msg = { .type = MPIB_RAIL_UP };
	struct rig *rig = *state;
	struct client *a = many(rig);
	struct mpib_broker *b = a->node->broker;
	struct hidden h = hide(b);

	mpib_broker_events.lane_send(&a->node->broker,
				     fake_lane(&a->node->engine, 1), &msg);
	show(b, &h);
	rig_settle(rig);
	for (uint32_t i = 1; i <= LANES; i++)
		assert_int_equal(rig_state(a, i), MPIB_CONN_READY);
}

static void a_connection_that_breaks(void **state)
{
	struct rig *rig = *state;
	struct client *a = many(rig);
	struct mpib_broker *b = a->node->broker;
	struct hidden h = hide(b);

	mpib_broker_events.conn_broken(&a->node->broker,
				       fake_conn(&a->engine_client, 2), -EIO,
				       "of a test");
	show(b, &h);
	rig_settle(rig);
	assert_int_equal(rig_state(a, 1), MPIB_CONN_READY);
	assert_int_equal(rig_state(a, 2), MPIB_CONN_FAILED);
}

/* With the connects on it. */
static void a_lane_that_breaks(void **state)
{
	struct rig *rig = *state;
	struct client *a = many(rig);
	struct mpib_broker *b = a->node->broker;
	struct mpib_listener_entry *l = b->listeners;
	struct hidden h = hide(b);

	assert_int_equal(l->waiting, LANES);
	mpib_broker_events.lane_broken(&a->node->broker,
				       fake_lane(&a->node->engine, 2), -EIO,
				       "of a test");
	show(b, &h);
	assert_int_equal(l->waiting, LANES - 1);
	rig_settle(rig);
	assert_int_equal(rig_state(a, 2), MPIB_CONN_READY);
	assert_int_equal(rig_state(a, 3), MPIB_CONN_FAILED);
}

static void expect_wrong(const struct mpib_broker *b, const char *what)
{
	struct mpib_sum wrong;

	assert_false(mpib_broker_sums(b, &wrong));
	assert_string_equal(wrong.what, what);
}

/* What rig.c looks at after each event. */
static void sums_that_do_not_fit_are_found(void **state)
{
	struct rig *rig = *state;
	struct mpib_broker *b = many(rig)->node->broker;
	struct mpib_peer *p = TAILQ_FIRST(&b->peers);
	struct peer_lane *l = TAILQ_FIRST(&p->lanes);
	struct mpib_sum wrong;

	assert_true(mpib_broker_sums(b, &wrong));
	l->uses++;
	expect_wrong(b, "uses of a lane");
	l->uses--;
	p->lane_count++;
	expect_wrong(b, "lanes of a peer");
	p->lane_count--;
	b->waits.waits++;
	expect_wrong(b, "bytes that wait for peers");
	b->waits.waits--;
	p->conns++;
	expect_wrong(b, "connections with peers");
	p->conns--;
	b->listeners->waiting++;
	expect_wrong(b, "connects that wait for an accept");
	b->listeners->waiting--;
	b->door[1].callers++;
	expect_wrong(b, "callers");
	b->door[1].callers--;
	assert_true(mpib_broker_sums(b, &wrong));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		rig_test(a_rail_that_tells_of_a_lane),
		rig_test(a_connection_that_breaks),
		rig_test(a_lane_that_breaks),
		rig_test(sums_that_do_not_fit_are_found),
	};

	unreadable = mmap(NULL, 1 << 16, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	if (unreadable == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
