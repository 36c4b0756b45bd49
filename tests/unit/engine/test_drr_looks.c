/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine/lane/drr.h: tenants with very many leaves that cannot post, such as
 * connections that wait for a CTS. The test makes the rounds. Each leaf counts
 * how often a turn visits it.
 */
#include "engine/lane/drr.h"
#include "test.h"

#define CLIENTS 8
#define EACH 250u /* number of leaves of each client */
#define LEAVES (CLIENTS * EACH)
#define LOOKS 256u /* limit of visits to a tenant's leaves in a turn */

static struct leaf {
	struct mpib_drr_class drr;
	unsigned looks, posted;
	bool may;
} leaf[LEAVES], other;

static struct mpib_drr_class root, tenant[2], client[CLIENTS + 1];
static unsigned looks; /* visits to all leaves in the last turn */

static int run(struct mpib_drr_class *drr, struct mpib_drr_run *r)
{
	struct leaf *l = (struct leaf *)drr;

	looks++;
	l->looks++;
	if (!l->may)
		return MPIB_DRR_NONE;
	l->posted++;
	mpib_drr_pay(r, 1);
	l->may = false;
	return MPIB_DRR_NONE;
}

static void enter(struct leaf *l, struct mpib_drr_class *of)
{
	mpib_drr_init(&l->drr, of);
	mpib_drr_enter(&l->drr);
	mpib_drr_wake(&l->drr);
}

static int setup(void **state)
{
	memset(leaf, 0, sizeof(leaf));
	memset(&other, 0, sizeof(other));
	mpib_drr_init(&root, NULL);
	for (unsigned i = 0; i < 2; i++)
		mpib_drr_init(&tenant[i], &root);
	for (unsigned i = 0; i <= CLIENTS; i++)
		mpib_drr_init(&client[i], &tenant[i == CLIENTS]);
	for (unsigned i = 0; i < LEAVES; i++)
		enter(&leaf[i], &client[i / EACH]);
	return 0;
}

static struct mpib_drr_turn turn_of(mpib_drr_run_fn *fn)
{
	struct mpib_drr_turn t = {
		.left = 64, .now_ns = 1, .wake_ns = UINT64_MAX, .run = fn
	};

	looks = 0;
	mpib_drr_round(&root, &t);
	return t;
}

static struct mpib_drr_turn turn(void)
{
	return turn_of(run);
}

setup_test(no_turn_visits_all_leaves)
{
	enter(&other, &client[CLIENTS]);
	for (unsigned i = 0; i < 100; i++) {
		other.may = true;
		assert_int_equal(turn().posted, 1);
		assert_in_range(looks, LOOKS, LOOKS + 2);
		assert_int_equal(other.posted, i + 1);
	}
}

/* Only the last turn of each sweep may report that all leaves were visited. */
setup_test(all_leaves_are_visited_after_some_turns)
{
	const unsigned sweep = LEAVES / LOOKS + 1;

	for (unsigned i = 1; i <= 10 * sweep; i++)
		assert_int_equal(turn().unseen, i % sweep != 0);
	for (unsigned i = 0; i < LEAVES; i++)
		assert_in_range(leaf[i].looks, 9, 12);
}

setup_test(a_leaf_that_may_post_posts_within_ten_turns)
{
	for (unsigned i = 0; i < LEAVES; i += 7) {
		leaf[i].may = true;
		for (unsigned k = 0; k < 10 && leaf[i].may; k++)
			turn();
		assert_int_equal(leaf[i].posted, 1);
	}
}

setup_test(a_turn_visits_all_leaves_if_there_are_few)
{
	for (unsigned i = EACH; i < LEAVES; i++)
		mpib_drr_leave(&leaf[i].drr);
	for (unsigned i = 0; i < 100; i++) {
		assert_false(turn().unseen);
		assert_int_equal(looks, EACH);
	}
}

/* The shard begins to visit the leaves of the two tenants in different turns.
 * Still, every second turn reports that all leaves of both tenants were
 * visited. */
setup_test(every_second_turn_completes_the_visits_to_both_tenants_leaves)
{
	static struct leaf more[300];
	unsigned seen = 0;

	for (unsigned i = 300; i < LEAVES; i++)
		mpib_drr_leave(&leaf[i].drr);
	turn();
	for (unsigned i = 0; i < 300; i++)
		enter(&more[i], &client[CLIENTS]);
	for (unsigned i = 0; i < 100; i++)
		seen += !turn().unseen;
	assert_int_equal(seen, 50);
}

static struct leaf small, behind;

/* Post once for a leaf that may post. The leaf `small` is idle afterwards. */
static int run_once(struct mpib_drr_class *drr, struct mpib_drr_run *r)
{
	struct leaf *l = (struct leaf *)drr;

	if (!l->may)
		return MPIB_DRR_NONE;
	l->may = false;
	l->posted++;
	mpib_drr_pay(r, 1);
	return l == &small ? MPIB_DRR_IDLE : MPIB_DRR_NONE;
}

/* The first client sends small messages, the second has very many leaves that
 * cannot post, and the third has one leaf that can. */
setup_test(a_client_behind_many_waiting_leaves_gets_its_turns)
{
	for (unsigned i = 0; i < LEAVES; i++)
		mpib_drr_leave(&leaf[i].drr);
	for (unsigned i = 0; i < 1000; i++)
		enter(&leaf[i], &client[1]);
	enter(&small, &client[0]);
	enter(&behind, &client[2]);
	for (unsigned i = 0; i < 1000; i++) {
		small.may = behind.may = true;
		mpib_drr_wake(&small.drr);
		turn_of(run_once);
	}
	assert_in_range(behind.posted, 990, 1000);
}

/* A leaf that may not post has nothing to send, and becomes idle. */
static int run_idle(struct mpib_drr_class *drr, struct mpib_drr_run *r)
{
	struct leaf *l = (struct leaf *)drr;

	if (!l->may)
		return MPIB_DRR_IDLE;
	l->posted++;
	mpib_drr_pay(r, 1);
	return MPIB_DRR_NONE;
}

setup_test(idle_leaves_do_not_use_up_a_turn)
{
	for (unsigned i = 300; i < LEAVES; i++)
		mpib_drr_leave(&leaf[i].drr);
	other.may = true;
	enter(&other, &client[7]);
	for (unsigned i = 0; i < 1000; i++) {
		for (unsigned k = 0; k < 300; k++)
			mpib_drr_wake(&leaf[k].drr);
		turn_of(run_idle);
	}
	assert_true(other.posted > 400);
}

/* A leaf that may post does so until its quantum is used up. */
static int run_all(struct mpib_drr_class *drr, struct mpib_drr_run *r)
{
	struct leaf *l = (struct leaf *)drr;

	if (!l->may)
		return MPIB_DRR_NONE;
	do
		l->posted++;
	while (mpib_drr_pay(r, 65536 - MPIB_DRR_OP));
	return MPIB_DRR_RAN;
}

/* A tenant with many leaves needs many rounds to use up its quantum, because
 * each round visits only some of them. */
setup_test(weights_hold_while_many_leaves_wait)
{
	mpib_drr_set(&tenant[0], 100, 0);
	for (unsigned i = 200; i < LEAVES; i++)
		mpib_drr_leave(&leaf[i].drr);
	leaf[100].may = other.may = true;
	enter(&other, &client[CLIENTS]);
	for (unsigned i = 0; i < 1000; i++)
		turn_of(run_all);
	assert_in_range(leaf[100].posted, 9 * other.posted, 11 * other.posted);
}

static int run_large(struct mpib_drr_class *drr, struct mpib_drr_run *r)
{
	struct leaf *l = (struct leaf *)drr;

	if (!l->may)
		return MPIB_DRR_NONE;
	l->posted++;
	mpib_drr_pay(r, 4 << 20);
	return MPIB_DRR_RAN;
}

/* A leaf in debt may need several turns without a post to pay the debt. */
setup_test(a_turn_without_a_post_is_repeated_while_a_leaf_is_in_debt)
{
	unsigned sleeps = 0, turns = 0;

	for (unsigned i = 0; i < 1000; i++)
		leaf[i].may = i == 500;
	for (unsigned i = 1000; i < LEAVES; i++)
		mpib_drr_leave(&leaf[i].drr);
	for (; leaf[500].posted < 2 && turns < 10000; turns++) {
		struct mpib_drr_turn t = turn_of(run_large);

		sleeps += !t.posted && !t.in_debt && !t.unseen;
	}
	assert_in_range(turns, 10, 1000);
	assert_int_equal(sleeps, 0);
}
