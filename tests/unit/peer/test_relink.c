/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer/relink.c under a broker: links break, messages on them are lost, and no
 * client on a lane notices while the other proxy lives.
 */
#include <errno.h>

#include "base/clock.h"
#include "peer/internal.h"
#include "rig.h"
#include "test.h"

#define CONNS 200

static void both_up(struct rig *rig, struct client **a, struct client **b)
{
	rig_up(rig, 0);
	rig_up(rig, 1);
	*a = rig_client(rig, 0, 1000, 0);
	*b = rig_client(rig, 1, 1000, 0);
	rig_connect(rig, *a, 0, *b, 0);
}

static void assert_ready(const struct client *a, const struct client *b,
			 uint32_t index)
{
	assert_int_equal(rig_state(a, index), MPIB_CONN_READY);
	assert_int_equal(rig_state(b, index), MPIB_CONN_READY);
}

static void a_link_that_breaks_is_made_again_under_its_lanes(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;

	both_up(rig, &a, &b);
	for (uint32_t i = 1; i < 20; i++) {
		rig_cut(rig, i & 1);
		rig_settle(rig);
		for (uint32_t k = 0; k < i; k++)
			assert_ready(a, b, k);
		rig_connect(rig, i & 2 ? a : b, i, i & 2 ? b : a, i);
	}
	assert_int_equal(fake_lanes(&rig->node[0].engine), 1);
	assert_int_equal(fake_lanes(&rig->node[1].engine), 1);
}

static struct mpib_peer *peer_of(const struct rig *rig, unsigned n)
{
	return TAILQ_FIRST(&rig->node[n].broker->peers);
}

/* As over a new link, on the one that stands: the peer has most of it. */
static void list_again(const struct rig *rig, unsigned n)
{
	struct mpib_peer *p = peer_of(rig, n);

	if (p->state != MPIB_PEER_UP)
		return;
	mpib_relink_end(p);
	mpib_relink(p);
}

/* Break links, or list again on those that stand, while connections open and
 * close. How many were closed meanwhile. */
static unsigned break_all_the_time(struct rig *rig, bool cut)
{
	struct mpib_handle handle;
	uint32_t id, state_of[CONNS], closed = 0;
	struct client *a, *b;

	for (uint32_t i = 0; i < CONNS; i++)
		state_of[i] = MPIB_CONN_READY;
	both_up(rig, &a, &b);
	assert_int_equal(mpib_broker_listen(b->node->broker, &b->client, 0, &id,
					    &handle),
			 0);
	for (uint32_t i = 1; i < CONNS; i++) {
		assert_int_equal(rig_try_call(a, i, 0, &handle), 0);
		assert_int_equal(
			mpib_broker_accept(b->node->broker, &b->client, id, i),
			0);
		for (unsigned k = (unsigned)rand_r(&rig->seed) % 40; k > 0; k--)
			rig_step(rig);
		if (cut && rand_r(&rig->seed) % 3 == 0)
			rig_cut(rig, i & 1);
		else if (!cut)
			list_again(rig, i & 1);
		/* Not one that is under way: the next would get its accept. */
		if (i > 20 && rig_state(a, i - 10) == MPIB_CONN_READY) {
			mpib_broker_drop(a->node->broker, &a->client, i - 10);
			closed++;
			state_of[i - 10] = MPIB_CONN_FREE;
		}
		for (unsigned k = (unsigned)rand_r(&rig->seed) % 40; k > 0; k--)
			rig_step(rig);
	}
	rig_pass(rig, MPIB_SEC);
	for (uint32_t i = 0; i < CONNS; i++) {
		assert_int_equal(rig_state(a, i), state_of[i]);
		assert_int_equal(rig_state(b, i), state_of[i] == MPIB_CONN_READY
							  ? MPIB_CONN_READY
							  : MPIB_CONN_FAILED);
	}
	assert_int_equal(fake_lanes(&rig->node[0].engine), 1);
	assert_int_equal(fake_lanes(&rig->node[1].engine), 1);
	return closed;
}

static void any_number_of_times(void **state, bool cut)
{
	unsigned closed = 0;

	for (unsigned seed = 1; seed <= 20; seed++) {
		struct rig *rig;

		rig_setup(state);
		rig = *state;
		rig->seed = seed;
		rig->key.set = seed & 1;
		closed += break_all_the_time(rig, cut);
		rig_teardown(state);
	}
	assert_true(closed > 100);
}

static void breaks_at_any_moment_lose_and_double_nothing(void **state)
{
	any_number_of_times(state, true);
}

static void what_is_said_twice_changes_nothing(void **state)
{
	any_number_of_times(state, false);
}

/* The kernel of a busy node tells of a peer's end later than the turns settle. */
static void until_failed(struct rig *rig, const struct client *c)
{
	uint64_t end = mpib_now_ns() + 60 * MPIB_SEC;

	while (rig_state(c, 0) != MPIB_CONN_FAILED && mpib_now_ns() < end)
		rig_settle(rig);
	assert_int_equal(rig_state(c, 0), MPIB_CONN_FAILED);
}

static void a_proxy_that_is_gone_is_not_waited_for(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;

	both_up(rig, &a, &b);
	rig_kill(rig, 1);
	until_failed(rig, a);
	assert_int_equal(rig_error(a, 0), -ECONNRESET);
}

static void a_proxy_that_was_restarted_has_no_lanes(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;

	both_up(rig, &a, &b);
	rig_kill(rig, 1);
	rig_up(rig, 1);
	until_failed(rig, a);
	b = rig_client(rig, 1, 1000, 0);
	rig_connect(rig, a, 1, b, 1);
}

/* To the client that listens; the handle is its own. */
static void connect_to(struct client *from, struct client *to)
{
	struct mpib_handle handle;
	uint32_t id;

	assert_int_equal(mpib_broker_listen(to->node->broker, &to->client, 0,
					    &id, &handle),
			 0);
	assert_int_equal(rig_try_call(from, 0, 0, &handle), 0);
	assert_int_equal(
		mpib_broker_accept(to->node->broker, &to->client, id, 0), 0);
}

static bool is_up(const struct client *from)
{
	const struct mpib_peer *p = TAILQ_FIRST(&from->node->broker->peers);

	return p && p->state == MPIB_PEER_UP;
}

/* The link is up for the caller, whose READY is lost with the process that it
 * came to. */
static void lose_ready(struct rig *rig, const struct client *caller,
		       const struct client *called)
{
	while (!is_up(caller))
		rig_step(rig);
	assert_false(TAILQ_EMPTY(&called->node->broker->pending_peers));
	mpib_hello_drop(TAILQ_FIRST(&called->node->broker->pending_peers));
}

static void lanes_of_a_link_that_the_peer_never_had_come_up(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;

	rig_both_up(rig, &a, &b, 0);
	connect_to(a, b);
	lose_ready(rig, a, b);
	rig_pass(rig, MPIB_SEC);
	assert_ready(a, b, 0);
}

/* The lower node's call has precedence. */
static void nor_does_it_matter_who_calls_then(void **state)
{
	struct client *a, *b, *c, *d;
	struct rig *rig = *state;

	rig_up(rig, 0);
	rig_up(rig, 1);
	a = rig_client(rig, 0, 1000, 0);
	b = rig_client(rig, 1, 1000, 0);
	c = rig_client(rig, 0, 1000, 0);
	d = rig_client(rig, 1, 1000, 0);
	connect_to(b, a);
	lose_ready(rig, b, a);
	connect_to(c, d);
	for (unsigned i = 0; i < 100; i++)
		mpib_loop_turn(&rig->node[0].loop, 0);
	rig_pass(rig, MPIB_SEC);
	assert_ready(b, a, 0);
	assert_ready(c, d, 0);
}

/* Node 1 does nothing, though its kernel takes calls. */
static void without_a_word_for_long_enough_the_lanes_are_lost(void **state)
{
	struct rig *rig = *state;
	struct mpib_loop *loop;
	struct client *a, *b;

	rig->silence_s = 5;
	both_up(rig, &a, &b);
	loop = &rig->node[0].loop;
	rig_cut(rig, 0);
	for (unsigned s = 0; s < 6; s++) {
		while (mpib_loop_turn(loop, 0) > 0)
			;
		if (s < 4)
			assert_int_equal(rig_state(a, 0), MPIB_CONN_READY);
		mpib_loop_advance(loop, MPIB_SEC);
	}
	while (mpib_loop_turn(loop, 0) > 0)
		;
	assert_int_equal(rig_state(a, 0), MPIB_CONN_FAILED);
	assert_non_null(
		strstr(mpib_broker_why(&a->client, 0), "was not made again"));
	/* It comes to itself, and hears that the lanes are gone. */
	rig_pass(rig, 10 * MPIB_SEC);
	assert_int_equal(rig_state(b, 0), MPIB_CONN_FAILED);
	rig_connect(rig, a, 1, b, 1);
}

static void private_pair(struct rig *rig, struct client **a, struct client **b)
{
	rig->private_lanes = true;
	rig_up(rig, 0);
	rig_up(rig, 1);
	*a = rig_client(rig, 0, 1000, 0);
	*b = rig_client(rig, 1, 1000, 0);
	rig_connect(rig, *a, 0, *b, 0);
}

/* Turns of the first node alone, while time goes by for all. */
static void one_alone(struct rig *rig, unsigned seconds)
{
	for (unsigned s = 0; s < seconds; s++) {
		while (mpib_loop_turn(&rig->node[0].loop, 0) > 0)
			;
		rig_advance(rig, MPIB_SEC);
	}
}

/* Its peer is not heard, and has longer to answer than one that is. */
static void a_close_outlasts_a_link_that_stands_still(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;

	private_pair(rig, &a, &b);
	assert_int_equal(mpib_broker_drop(a->node->broker, &a->client, 0), 0);
	one_alone(rig, 8);
	assert_int_equal(fake_lanes(&a->node->engine), 1);
	rig_settle(rig);
	assert_int_equal(rig_state(a, 0), MPIB_CONN_FREE);
	assert_int_equal(rig_error(b, 0), -ECONNRESET);
	assert_non_null(strstr(mpib_broker_why(&b->client, 0),
			       "it closed the connection"));
}

/* Its peer is heard, and does not answer. */
static void a_close_without_an_answer_takes_its_lane(void **state)
{
	struct rig *rig = *state;
	struct client *a, *b;

	private_pair(rig, &a, &b);
	assert_int_equal(mpib_broker_drop(a->node->broker, &a->client, 0), 0);
	for (unsigned s = 0; s < 3; s++) {
		one_alone(rig, 1);
		TAILQ_FIRST(&a->node->broker->peers)->link->silent = 0;
	}
	rig_settle(rig);
	assert_int_equal(fake_lanes(&a->node->engine), 0);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test_setup_teardown(
		a_link_that_breaks_is_made_again_under_its_lanes, rig_setup,
		rig_teardown),
	cmocka_unit_test(breaks_at_any_moment_lose_and_double_nothing),
	cmocka_unit_test(what_is_said_twice_changes_nothing),
	cmocka_unit_test_setup_teardown(a_proxy_that_is_gone_is_not_waited_for,
					rig_setup, rig_teardown),
	cmocka_unit_test_setup_teardown(a_proxy_that_was_restarted_has_no_lanes,
					rig_setup, rig_teardown),
	cmocka_unit_test_setup_teardown(
		lanes_of_a_link_that_the_peer_never_had_come_up, rig_setup,
		rig_teardown),
	cmocka_unit_test_setup_teardown(nor_does_it_matter_who_calls_then,
					rig_setup, rig_teardown),
	cmocka_unit_test_setup_teardown(
		without_a_word_for_long_enough_the_lanes_are_lost, rig_setup,
		rig_teardown),
	cmocka_unit_test_setup_teardown(
		a_close_outlasts_a_link_that_stands_still, rig_setup,
		rig_teardown),
	cmocka_unit_test_setup_teardown(
		a_close_without_an_answer_takes_its_lane, rig_setup,
		rig_teardown),
	{ 0 },
};
