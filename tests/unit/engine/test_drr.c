/* SPDX-License-Identifier: Apache-2.0 */
/* engine/lane/drr.h without an engine: the test makes the rounds and sets the
 * time. Each leaf always has a send op to post, and counts the bytes that it
 * has posted. */
#include "engine/lane/drr.h"
#include "test.h"

#define LEAVES 8
#define PIECE (64u << 10)

struct leaf {
	struct mpib_drr_class drr;
	uint64_t bytes; /* bytes posted */
	uint32_t op;
	unsigned lane;
	/* error that the leaf returns instead of posting; 0: the leaf posts */
	int blocked;
};

static struct {
	struct mpib_drr_class root, tenant[3], client[LEAVES];
	struct leaf leaf[LEAVES];
	/* bytes that all leaves together may still post; UINT64_MAX: no
	 * limit */
	uint64_t room;
	uint64_t lane_room[2];
} f;

static int setup(void **state)
{
	memset(&f, 0, sizeof(f));
	f.room = f.lane_room[0] = f.lane_room[1] = UINT64_MAX;
	mpib_drr_init(&f.root, NULL);
	for (unsigned i = 0; i < 3; i++)
		mpib_drr_init(&f.tenant[i], &f.root);
	return 0;
}

static struct leaf *add(unsigned i, struct mpib_drr_class *parent,
			uint32_t weight)
{
	struct leaf *l = &f.leaf[i];

	mpib_drr_init(&f.client[i], parent);
	mpib_drr_set(&f.client[i], weight, 0);
	mpib_drr_init(&l->drr, &f.client[i]);
	l->op = PIECE;
	mpib_drr_enter(&l->drr);
	mpib_drr_wake(&l->drr);
	return l;
}

static int post(struct mpib_drr_class *drr, struct mpib_drr_run *run)
{
	struct leaf *l = (struct leaf *)drr;
	uint64_t *lane = &f.lane_room[l->lane];

	do {
		if (l->blocked)
			return l->blocked;
		if (f.room == 0)
			return MPIB_DRR_WINDOW_FULL;
		if (*lane == 0)
			return MPIB_DRR_BLOCKED;
		/* One send op may exceed the room, as in the engine. */
		f.room -= l->op < f.room ? l->op : f.room;
		*lane -= l->op < *lane ? l->op : *lane;
		l->bytes += l->op;
	} while (mpib_drr_pay(run, l->op));
	return MPIB_DRR_RAN;
}

static struct mpib_drr_turn one_turn(uint64_t now_ns)
{
	struct mpib_drr_turn t = {
		.left = 64, .now_ns = now_ns, .wake_ns = UINT64_MAX, .run = post
	};

	mpib_drr_round(&f.root, &t);
	return t;
}

static void turns(unsigned n)
{
	while (n--)
		one_turn(1);
}

/* Make `n` turns, each with a little room, as if completions freed it. */
static void turns_in_a_window(unsigned n)
{
	unsigned seed = 1;

	while (n--) {
		seed = seed * 1103515245u + 12345u;
		f.room = (seed >> 16) % (2 * PIECE);
		one_turn(1);
	}
}

static uint64_t total(void)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < LEAVES; i++)
		sum += f.leaf[i].bytes;
	return sum;
}

/* Check that the leaf got `part` / `of` of all bytes, within 1 %. */
static void assert_part(const struct leaf *l, unsigned part, unsigned of)
{
	uint64_t want = total() * part / of, slack = total() / 100;

	assert_in_range(l->bytes, want - slack, want + slack);
}

setup_test(clients_get_bytes_in_proportion_to_their_weights)
{
	struct leaf *a = add(0, &f.tenant[0], 10),
		    *b = add(1, &f.tenant[0], 20),
		    *c = add(2, &f.tenant[0], 50);

	turns(10000);
	assert_part(a, 1, 8);
	assert_part(b, 2, 8);
	assert_part(c, 5, 8);
}

setup_test(shares_do_not_depend_on_the_size_of_send_ops)
{
	struct leaf *a = add(0, &f.tenant[0], 10),
		    *b = add(1, &f.tenant[1], 10);

	a->op = 8u << 20;
	b->op = 32u << 10;
	turns_in_a_window(2000000);
	assert_part(a, 1, 2);
	assert_part(b, 1, 2);
}

/* A message in registered memory is one send op of up to 2 GiB. Even while all
 * leaves are in debt, each turn must post. */
setup_test(shares_do_not_depend_on_send_ops_of_2_gib)
{
	struct leaf *a = add(0, &f.tenant[0], 1), *b = add(1, &f.tenant[1], 1);

	a->op = 2047u << 20;
	for (unsigned mib = 1; mib <= 2047; mib += 2046) {
		b->op = mib << 20;
		while (total() < (uint64_t)mib << 41)
			assert_true(one_turn(1).posted > 0);
		assert_part(a, 1, 2);
	}
}

setup_test(a_tenants_share_does_not_depend_on_its_number_of_clients)
{
	struct leaf *victim = add(0, &f.tenant[0], 10);

	for (unsigned i = 1; i < LEAVES; i++)
		add(i, &f.tenant[1], 10);
	turns_in_a_window(100000);
	assert_part(victim, 1, 2);
	for (unsigned i = 1; i < LEAVES; i++)
		assert_part(&f.leaf[i], 1, 2 * (LEAVES - 1));
}

setup_test(an_unused_share_goes_to_the_others)
{
	struct leaf *a = add(0, &f.tenant[0], 10),
		    *b = add(1, &f.tenant[1], 20),
		    *c = add(2, &f.tenant[2], 50);

	mpib_drr_set(&f.tenant[1], 20, 0);
	mpib_drr_set(&f.tenant[2], 50, 0);
	c->blocked = MPIB_DRR_NONE;
	mpib_drr_idle(&c->drr);
	turns_in_a_window(100000);
	assert_int_equal(c->bytes, 0);
	assert_part(a, 1, 3);
	assert_part(b, 2, 3);
}

setup_test(a_full_lane_does_not_stop_another_lane)
{
	struct leaf *stuck = add(0, &f.tenant[0], 50),
		    *a = add(1, &f.tenant[1], 10),
		    *b = add(2, &f.tenant[2], 10);

	stuck->lane = 1;
	f.lane_room[1] = 0;
	turns(1000);
	assert_int_equal(stuck->bytes, 0);
	assert_true(total() > 1000 * (uint64_t)PIECE);
	assert_part(a, 1, 2);
	assert_part(b, 1, 2);
}

setup_test(a_leaf_that_wakes_is_next_and_has_no_credit)
{
	struct leaf *a = add(0, &f.tenant[0], 10),
		    *b = add(1, &f.tenant[1], 10);
	uint64_t before;

	mpib_drr_idle(&b->drr);
	turns_in_a_window(10000);
	mpib_drr_wake(&b->drr);
	before = a->bytes;
	/* The leaf whose turn it is may first use the rest of its quantum. */
	for (int i = 0; b->bytes == 0 && i < 100; i++)
		turns_in_a_window(1);
	assert_true(b->bytes > 0);
	assert_true(a->bytes - before <= 4 * PIECE);
	before = a->bytes;
	turns_in_a_window(20000);
	assert_in_range(b->bytes, (a->bytes - before) * 98 / 100,
			(a->bytes - before) * 102 / 100 + 4 * PIECE);
}

setup_test(pauses_between_messages_give_no_advantage)
{
	struct leaf *a = add(0, &f.tenant[0], 10),
		    *b = add(1, &f.tenant[1], 10);
	uint64_t had;

	for (unsigned i = 0; i < 100000; i++) {
		had = b->bytes;
		f.room = PIECE;
		one_turn(1);
		if (b->bytes != had) {
			mpib_drr_idle(&b->drr);
			mpib_drr_wake(&b->drr);
		}
	}
	assert_part(a, 1, 2);
	assert_part(b, 1, 2);
}

setup_test(a_limit_holds_and_others_get_the_rest)
{
	struct leaf *slow = add(0, &f.tenant[0], 10),
		    *fast = add(1, &f.tenant[1], 10);
	const uint64_t rate = 100000000, turn_ns = 100000, n = 20000;

	mpib_drr_set(&f.tenant[0], 0, rate);
	/* The window allows 1 GB/s in total, for two seconds. */
	for (uint64_t i = 1; i <= n; i++) {
		f.room = 100000;
		one_turn(i * turn_ns);
	}
	assert_in_range(slow->bytes, 2 * rate * 98 / 100,
			2 * rate + rate / 100 + 2 * PIECE);
	assert_true(fast->bytes > 17 * rate);
	assert_true(f.tenant[0].held > 0);
}

setup_test(a_limited_class_reports_when_it_may_post_again)
{
	struct leaf *l = add(0, &f.tenant[0], 10);
	struct mpib_drr_turn t;
	uint64_t now = 1000000000, had;

	mpib_drr_set(&l->drr, 0, 1000000);
	one_turn(now);
	had = l->bytes;
	assert_true(had >= 10000);
	t = one_turn(now);
	assert_int_equal(l->bytes, had);
	assert_int_equal(t.posted, 0);
	assert_false(t.in_debt);
	assert_true(mpib_drr_is_held(&l->drr));
	assert_in_range(t.wake_ns, now + 1, now + 1000000000);
	one_turn(t.wake_ns + 1000);
	assert_true(l->bytes > had);
}

setup_test(a_removed_limit_no_longer_holds)
{
	struct leaf *l = add(0, &f.tenant[0], 10);
	uint64_t had;

	mpib_drr_set(&l->drr, 0, 1);
	turns(3);
	had = l->bytes;
	mpib_drr_set(&l->drr, 0, 0);
	turns(3);
	assert_true(l->bytes > had);
	assert_false(mpib_drr_is_held(&l->drr));
}

setup_test(contention_is_reported_only_between_tenants_or_weights)
{
	struct leaf *b, *c;

	add(0, &f.tenant[0], 0);
	assert_false(mpib_drr_contended(&f.root));
	b = add(1, &f.tenant[0], 0);
	assert_false(mpib_drr_contended(&f.root));
	c = add(2, &f.tenant[1], 0);
	assert_true(mpib_drr_contended(&f.root));
	/* an idle leaf still counts, since it may wake at any time */
	mpib_drr_idle(&c->drr);
	assert_true(mpib_drr_contended(&f.root));
	mpib_drr_leave(&c->drr);
	assert_false(mpib_drr_contended(&f.root));
	mpib_drr_set(&f.client[1], 5, 0);
	assert_true(mpib_drr_contended(&f.root));
	mpib_drr_leave(&b->drr);
	assert_false(mpib_drr_contended(&f.root));
}

setup_test(weights_may_change_at_any_time)
{
	struct leaf *a = add(0, &f.tenant[0], 10),
		    *b = add(1, &f.tenant[1], 10);

	turns_in_a_window(10000);
	mpib_drr_set(&f.tenant[0], 30, 0);
	a->bytes = b->bytes = 0;
	turns_in_a_window(100000);
	assert_part(a, 3, 4);
	mpib_drr_leave(&a->drr);
	mpib_drr_leave(&b->drr);
	assert_int_equal(f.root.leaves, 0);
	assert_int_equal(f.root.members, 0);
	assert_int_equal(f.root.children, 0);
}
