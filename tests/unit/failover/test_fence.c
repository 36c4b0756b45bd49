/* SPDX-License-Identifier: Apache-2.0 */
#include "failover/fence.h"
#include "failover/stripes.h"
#include "test.h"

static unsigned take(struct mpib_fence *f, enum mpib_fence_msg msg,
		     uint32_t epoch)
{
	unsigned actions;

	assert_true(mpib_fence_message(f, msg, epoch, &actions));
	return actions;
}

/* Epochs may wrap, so no epoch is special. */
TEST(stripes_are_replayed_after_both_ends_have_stopped)
{
	struct mpib_fence f;

	mpib_fence_init(&f, true);
	f.epoch = UINT32_MAX;
	assert_int_equal(mpib_fence_fault(&f),
			 MPIB_FENCE_STOP | MPIB_FENCE_TELL);
	assert_int_equal(mpib_fence_fault(&f), 0);
	assert_int_equal(mpib_fence_stopped(&f), MPIB_FENCE_ANSWER);
	assert_int_equal(f.epoch, UINT32_MAX);
	assert_int_equal(take(&f, MPIB_FENCE_MSG_FENCED, UINT32_MAX),
			 MPIB_FENCE_REPLAY);
	assert_int_equal(f.epoch, 0);
	assert_int_equal(mpib_fence_hold_over(&f), 0);
	assert_int_equal(mpib_fence_replayed(&f), MPIB_FENCE_HOLD);
	assert_int_equal(mpib_fence_hold_over(&f), MPIB_FENCE_RECONNECT);
	assert_int_equal(take(&f, MPIB_FENCE_MSG_RECONNECT, 0),
			 MPIB_FENCE_CONNECT);
}

TEST(a_message_of_another_epoch_is_refused)
{
	struct mpib_fence f;
	unsigned actions;

	mpib_fence_init(&f, true);
	assert_false(mpib_fence_message(&f, MPIB_FENCE_MSG_FENCE, 1, &actions));
	assert_false(
		mpib_fence_message(&f, MPIB_FENCE_MSG_RECONNECT, 1, &actions));
	assert_false(mpib_fence_message(&f, MPIB_FENCE_MSG_UP, 1, &actions));
}

static void down(struct mpib_fence *f)
{
	mpib_fence_init(f, true);
	mpib_fence_fault(f);
	mpib_fence_stopped(f);
	take(f, MPIB_FENCE_MSG_FENCED, 0);
	mpib_fence_replayed(f);
}

TEST(a_rail_returns_after_a_hold_down_and_probes_at_both_ends)
{
	struct mpib_fence f;

	down(&f);
	assert_int_equal(mpib_fence_health(&f, false), 0);
	assert_int_equal(mpib_fence_hold_over(&f), 0);
	/* The port must be up during the whole hold-down. */
	assert_int_equal(mpib_fence_health(&f, true), MPIB_FENCE_HOLD);
	assert_int_equal(mpib_fence_hold_over(&f), MPIB_FENCE_RECONNECT);
	assert_int_equal(take(&f, MPIB_FENCE_MSG_RECONNECT, 1),
			 MPIB_FENCE_CONNECT);
	assert_int_equal(mpib_fence_probed(&f, true), MPIB_FENCE_TELL_UP);
	assert_int_equal(take(&f, MPIB_FENCE_MSG_UP, 1), MPIB_FENCE_RESUME);
	assert_int_equal(f.state, MPIB_FENCE_LIVE);
}

TEST(an_offer_that_arrived_early_is_kept)
{
	struct mpib_fence f;

	down(&f);
	assert_int_equal(take(&f, MPIB_FENCE_MSG_RECONNECT, 1), 0);
	assert_int_equal(mpib_fence_hold_over(&f),
			 MPIB_FENCE_RECONNECT | MPIB_FENCE_CONNECT);
}

TEST(a_fault_while_a_rail_returns_ends_the_attempt)
{
	struct mpib_fence f;

	down(&f);
	mpib_fence_hold_over(&f);
	take(&f, MPIB_FENCE_MSG_RECONNECT, 1);
	assert_int_equal(mpib_fence_probed(&f, false),
			 MPIB_FENCE_STOP | MPIB_FENCE_TELL);
	/* The peer sent UP before it learned of the fault. */
	assert_int_equal(take(&f, MPIB_FENCE_MSG_UP, 1), 0);
	mpib_fence_stopped(&f);
	take(&f, MPIB_FENCE_MSG_FENCED, 1);
	assert_int_equal(f.epoch, 2);
	assert_false(f.peer_up);
}

TEST(the_peer_may_end_an_attempt_that_this_end_has_not_begun)
{
	struct mpib_fence f;

	down(&f);
	assert_int_equal(take(&f, MPIB_FENCE_MSG_FENCE, 1), MPIB_FENCE_STOP);
	assert_int_equal(mpib_fence_stopped(&f), MPIB_FENCE_ANSWER);
}

TEST(a_replay_that_ends_during_the_next_fence_begins_no_hold_down)
{
	struct mpib_fence f;

	mpib_fence_init(&f, true);
	mpib_fence_fault(&f);
	mpib_fence_stopped(&f);
	take(&f, MPIB_FENCE_MSG_FENCED, 0);
	assert_int_equal(take(&f, MPIB_FENCE_MSG_FENCE, 1), MPIB_FENCE_STOP);
	assert_int_equal(mpib_fence_replayed(&f), 0);
	assert_int_equal(f.state, MPIB_FENCE_STOPPING);
}

static void expect_no_change(struct mpib_fence *f, enum mpib_fence_msg msg,
			     uint32_t epoch)
{
	struct mpib_fence was = *f;

	assert_int_equal(take(f, msg, epoch), 0);
	assert_memory_equal(f, &was, sizeof(was));
}

/* After the peer link broke, the peer repeats its messages, because the peer
 * does not know what this end received. */
TEST(repeated_messages_change_nothing)
{
	struct mpib_fence f;
	unsigned actions;

	mpib_fence_init(&f, true);
	take(&f, MPIB_FENCE_MSG_FENCE, 0);
	expect_no_change(&f, MPIB_FENCE_MSG_FENCE, 0);
	take(&f, MPIB_FENCE_MSG_FENCED, 0);
	expect_no_change(&f, MPIB_FENCE_MSG_FENCED, 0);
	mpib_fence_stopped(&f);
	expect_no_change(&f, MPIB_FENCE_MSG_FENCE, 0);
	expect_no_change(&f, MPIB_FENCE_MSG_FENCED, 0);
	mpib_fence_replayed(&f);
	mpib_fence_hold_over(&f);
	take(&f, MPIB_FENCE_MSG_RECONNECT, 1);
	expect_no_change(&f, MPIB_FENCE_MSG_RECONNECT, 1);
	take(&f, MPIB_FENCE_MSG_UP, 1);
	expect_no_change(&f, MPIB_FENCE_MSG_UP, 1);
	mpib_fence_probed(&f, true);
	assert_int_equal(f.state, MPIB_FENCE_LIVE);
	expect_no_change(&f, MPIB_FENCE_MSG_FENCED, 0);
	expect_no_change(&f, MPIB_FENCE_MSG_UP, 1);
	assert_false(mpib_fence_message(&f, MPIB_FENCE_MSG_FENCE, 2, &actions));
}

/* This end received the peer's FENCED messages of both fences, but the peer
 * received no message of the second epoch. So the peer repeats its FENCED
 * message of the first fence, too. */
TEST(the_peer_may_repeat_the_fence_before_the_last)
{
	struct mpib_fence f;
	unsigned actions;

	mpib_fence_init(&f, true);
	for (uint32_t epoch = 0; epoch < 2; epoch++) {
		take(&f, MPIB_FENCE_MSG_FENCED, epoch);
		mpib_fence_stopped(&f);
	}
	assert_int_equal(f.epoch, 2);
	expect_no_change(&f, MPIB_FENCE_MSG_FENCED, 0);
	expect_no_change(&f, MPIB_FENCE_MSG_FENCE, 1);
	expect_no_change(&f, MPIB_FENCE_MSG_FENCED, 1);
	take(&f, MPIB_FENCE_MSG_FENCED, 2);
	mpib_fence_stopped(&f);
	assert_int_equal(f.epoch, 3);
	assert_false(
		mpib_fence_message(&f, MPIB_FENCE_MSG_FENCED, 0, &actions));
}

TEST(only_unseen_stripes_of_the_rail_are_lost)
{
	struct mpib_stripes c;

	mpib_stripes_post(&c, 3, 3);
	assert_int_equal(mpib_stripes_find_lost(&c, 0, false, 0, false), 0);
	assert_int_equal(c.lost, 1);
	mpib_stripes_post(&c, 3, 3);
	assert_int_equal(mpib_stripes_find_lost(&c, 1, false, 2, false), 2);
	assert_int_equal(c.lost, 0);
	mpib_stripes_post(&c, 3, 3);
	assert_int_equal(mpib_stripes_find_lost(&c, 0, true, 0, false), 1);
}

TEST(held_stripes_are_lost_even_if_the_rail_acknowledged_them)
{
	struct mpib_stripes c;

	mpib_stripes_post(&c, 3, 3);
	c.pending = 0;
	assert_int_equal(mpib_stripes_find_lost(&c, 0, false, 0, false), 0);
	assert_int_equal(c.lost, 0);
	assert_int_equal(mpib_stripes_find_lost(&c, 0, false, 0, true), 0);
	assert_int_equal(c.lost, 1);
	assert_int_equal(c.pending, 1);
	/* The receiver has the stripe of rail 1. In the first call, its receive
	 * bitmap shows this. In the second call, the whole slot has ended. */
	assert_int_equal(mpib_stripes_find_lost(&c, 1, false, 2, true), 2);
	mpib_stripes_post(&c, 2, 2);
	c.pending = 0;
	assert_int_equal(mpib_stripes_find_lost(&c, 1, true, 0, true), 2);
	/* A rail that carried no bytes loses none. */
	assert_int_equal(mpib_stripes_find_lost(&c, 0, false, 0, true), 0);
	assert_int_equal(c.lost, 0);
}

TEST(a_reposted_chunk_belongs_to_its_new_rail)
{
	struct mpib_stripes c;

	mpib_stripes_post(&c, 3, 0);
	mpib_stripes_find_lost(&c, 0, false, 0, false);
	/* The slot is open, so the next IMM on rail 1 will cover the stripe. */
	assert_int_equal(mpib_stripes_repost(&c, 1, true), 1);
	assert_int_equal(mpib_stripes_find_lost(&c, 0, false, 0, false), 0);
	assert_int_equal(c.lost, 0);
	assert_int_equal(mpib_stripes_find_lost(&c, 1, false, 2, false), 3);
	assert_int_equal(mpib_stripes_find_lost(&c, 1, false, 1, false), 0);
	assert_int_equal(c.lost, 3);
}

TEST(an_imm_waits_for_the_stripe_that_it_covers_on_another_rail)
{
	struct mpib_stripes c;

	mpib_stripes_post(&c, 1, 0);
	assert_true(mpib_stripes_ordered(&c, 1, 0));
	assert_false(mpib_stripes_ordered(&c, 1, 1));
	assert_true(mpib_stripes_ordered(&c, 2, 1));
	mpib_stripes_find_lost(&c, 0, false, 0, false);
	assert_false(mpib_stripes_ordered(&c, 1, 0));
	mpib_stripes_repost(&c, 1, false);
	assert_true(mpib_stripes_ordered(&c, 1, 1));
	c.pending = 0;
	assert_true(mpib_stripes_ordered(&c, 1, 0));
}
