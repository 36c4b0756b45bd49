/* SPDX-License-Identifier: Apache-2.0 */
/* vqp/seq.h: any order in, order out; late ones dropped, also after the wrap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "vqp/seq.h"

static struct mpib_seq *s;

static int setup(void **state)
{
	(void)state;
	s = calloc(1, sizeof(*s));
	return s ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	free(s);
	return 0;
}

static bool came(uint32_t seq)
{
	return mpib_seq_arrived(s, seq, 1, 1, true, seq & 0xff);
}

/* Complete from the front on; how many. */
static unsigned take(void)
{
	unsigned n = 0;
	uint32_t bytes, next = s->next;
	bool last;

	while (mpib_seq_take(s, &last, &bytes)) {
		assert_int_equal(bytes, next & 0xff);
		next = mpib_seq_next(next);
		n++;
	}
	return n;
}

static void numbers_come_out_in_order(void **state)
{
	(void)state;
	assert_true(came(2));
	assert_true(came(1));
	assert_int_equal(take(), 0);
	assert_true(came(0));
	assert_int_equal(take(), 3);
	assert_true(came(4));
	assert_int_equal(take(), 0);
	assert_true(came(3));
	assert_int_equal(take(), 2);
	assert_int_equal(s->late, 0);
}

static void a_number_that_came_already_is_dropped(void **state)
{
	(void)state;
	assert_true(came(1));
	assert_false(came(1)); /* waits for 0 still */
	assert_true(came(0));
	assert_int_equal(take(), 2);
	assert_false(came(1)); /* long taken */
	assert_false(came(0));
	assert_int_equal(s->late, 3);
	assert_int_equal(take(), 0);
}

static void the_wrap_changes_nothing(void **state)
{
	(void)state;
	s->next = MPIB_SEQ_MOD - 2;
	assert_true(came(0));
	assert_true(came(MPIB_SEQ_MOD - 1));
	assert_true(came(MPIB_SEQ_MOD - 2));
	assert_int_equal(take(), 3);
	assert_int_equal(s->next, 1);
	/* Of before the wrap, and of a whole round ago. */
	assert_false(came(MPIB_SEQ_MOD - 1));
	assert_false(came(MPIB_SEQ_MOD - 100));
	assert_false(came(0));
	assert_int_equal(s->late, 3);
	assert_int_equal(take(), 0);
	/* Ones of 24 bits are no number at all. */
	assert_false(came(MPIB_SEQ_MOD));
}

static void beyond_the_window_is_dropped(void **state)
{
	(void)state;
	assert_true(came(MPIB_SEQ_WINDOW - 1));
	assert_false(came(MPIB_SEQ_WINDOW));
	assert_false(came(MPIB_SEQ_MOD / 2));
	assert_int_equal(s->late, 2);
}

static void all_parts_make_a_number(void **state)
{
	uint32_t bytes;
	bool last;

	(void)state;
	assert_true(mpib_seq_arrived(s, 0, 2, 3, true, 10));
	assert_false(mpib_seq_take(s, &last, &bytes));
	assert_false(mpib_seq_arrived(s, 0, 2, 3, true, 10)); /* twice */
	assert_false(mpib_seq_arrived(s, 0, 1, 1, true, 10)); /* of others */
	assert_false(mpib_seq_arrived(s, 0, 4, 3, true, 10)); /* of none */
	assert_false(mpib_seq_arrived(s, 0, 0, 3, true, 10));
	assert_true(mpib_seq_arrived(s, 0, 1, 3, true, 5));
	assert_true(mpib_seq_take(s, &last, &bytes));
	assert_int_equal(bytes, 15);
	assert_int_equal(s->late, 4);
}

/* A million numbers, over the wrap, shuffled within blocks. */
static void shuffled_blocks_over_the_wrap(void **state)
{
	enum {
		BLOCK = 64
	};
	uint32_t order[BLOCK], done = 0;
	unsigned seed = 1;

	(void)state;
	s->next = MPIB_SEQ_MOD - 1000;
	while (done < 1000000) {
		uint32_t first = s->next;

		for (unsigned i = 0; i < BLOCK; i++)
			order[i] = (first + i) % MPIB_SEQ_MOD;
		for (unsigned i = BLOCK - 1; i > 0; i--) {
			unsigned k = (unsigned)rand_r(&seed) % (i + 1);
			uint32_t t = order[i];

			order[i] = order[k];
			order[k] = t;
		}
		for (unsigned i = 0; i < BLOCK; i++)
			assert_true(came(order[i]));
		assert_int_equal(take(), BLOCK);
		done += BLOCK;
	}
	assert_int_equal(s->late, 0);
}

#define SEQ_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SEQ_TEST(numbers_come_out_in_order),
		SEQ_TEST(a_number_that_came_already_is_dropped),
		SEQ_TEST(the_wrap_changes_nothing),
		SEQ_TEST(beyond_the_window_is_dropped),
		SEQ_TEST(all_parts_make_a_number),
		SEQ_TEST(shuffled_blocks_over_the_wrap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
