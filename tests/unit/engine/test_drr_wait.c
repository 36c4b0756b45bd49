/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine/lane/drr.h: a tenant whose sends wait for a clear-to-send beside one
 * that always has something to post. Rounds driven by hand.
 */
#include "engine/lane/drr.h"
#include "test.h"

#define SMALL 4096
#define LARGE (64 << 10)

struct sender {
	struct mpib_drr_class tenant, client, leaf;
	bool lacks; /* a clear-to-send */
	int64_t op, bytes;
};

static struct mpib_drr_class root;
static struct sender flood, one, more;
static int64_t room;

static int post(struct mpib_drr_class *leaf, struct mpib_drr_run *run)
{
	struct sender *s = leaf == &flood.leaf ? &flood
			   : leaf == &one.leaf ? &one
					       : &more;

	do {
		if (s->lacks)
			return MPIB_DRR_NONE;
		if (room <= 0)
			return MPIB_DRR_WINDOW_FULL;
		room -= s->op;
		s->bytes += s->op;
	} while (mpib_drr_pay(run, (uint64_t)s->op));
	return MPIB_DRR_RAN;
}

static void begin(struct sender *s, struct mpib_drr_class *tenant, int64_t op)
{
	s->op = op;
	mpib_drr_init(&s->client, tenant);
	mpib_drr_init(&s->leaf, &s->client);
	mpib_drr_enter(&s->leaf);
	mpib_drr_wake(&s->leaf);
}

/* The flood is of one tenant, the two others are clients of another. */
static int setup(void **state)
{
	(void)state;
	memset(&flood, 0, sizeof(flood));
	memset(&one, 0, sizeof(one));
	memset(&more, 0, sizeof(more));
	room = INT64_MAX;
	mpib_drr_init(&root, NULL);
	mpib_drr_init(&flood.tenant, &root);
	mpib_drr_init(&one.tenant, &root);
	return 0;
}

static unsigned turn_of(unsigned ops)
{
	struct mpib_drr_turn t = {
		.left = ops, .now_ns = 1, .wake_ns = UINT64_MAX, .run = post
	};

	mpib_drr_round(&root, &t);
	return t.posted;
}

/* Of turns of eight small send ops a quantum of the flood's lasts several. */
static void who_lacks_a_clear_to_send_is_first_when_it_has_it(void **state)
{
	(void)state;
	begin(&flood, &flood.tenant, SMALL);
	begin(&one, &one.tenant, SMALL);
	begin(&more, &one.tenant, SMALL);
	for (unsigned i = 0; i < 10; i++)
		turn_of(64);
	one.lacks = more.lacks = true;
	for (unsigned i = 0; i < 1000; i++) {
		int64_t had = one.bytes;

		mpib_drr_wake(&one.leaf);
		mpib_drr_wake(&more.leaf);
		for (unsigned k = 0; k <= i % 20; k++)
			assert_in_range(turn_of(8), 1, 8);
		one.lacks = false;
		assert_int_equal(turn_of(1), 1);
		assert_int_equal(one.bytes - had, SMALL);
		one.lacks = true;
		mpib_drr_idle(&one.leaf);
		mpib_drr_idle(&more.leaf);
	}
}

/* Nor does it save up what it cannot use. */
static void to_wait_for_a_clear_to_send_is_no_advantage(void **state)
{
	unsigned seed = 1;

	(void)state;
	begin(&flood, &flood.tenant, LARGE);
	begin(&one, &one.tenant, LARGE);
	for (unsigned i = 0; i < 200000; i++) {
		seed = seed * 1103515245u + 12345u;
		one.lacks = seed >> 16 & 1;
		room = (seed >> 17) % (2 * LARGE);
		turn_of(64);
	}
	assert_true(one.bytes > (flood.bytes + one.bytes) / 4);
	assert_true(one.bytes <= flood.bytes + flood.bytes / 50);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test_setup(
		who_lacks_a_clear_to_send_is_first_when_it_has_it, setup),
	cmocka_unit_test_setup(to_wait_for_a_clear_to_send_is_no_advantage,
			       setup),
	{ 0 },
};
