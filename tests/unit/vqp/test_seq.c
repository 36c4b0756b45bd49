/* SPDX-License-Identifier: Apache-2.0 */
/* vqp/seq.h: numbers arrive in any order and are taken in sequence. Numbers
 * that arrive again are dropped, even after the wrap. A sender may use only a
 * limited span of numbers. */
#include <errno.h>

#include "test.h"
#include "vqp/seq.h"

static struct mpib_seq *s;

static int setup(void **state)
{
	s = calloc(1, sizeof(*s));
	return s ? 0 : -1;
}

static int teardown(void **state)
{
	free(s);
	return 0;
}

static int came(uint32_t seq)
{
	return mpib_seq_arrived(s, seq, 1, 1, true, seq & 0xff);
}

/* Take all numbers that are next in sequence. Return how many there were. */
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

fixture_test(numbers_come_out_in_order_across_the_wrap)
{
	s->next = MPIB_SEQ_MOD - 2;
	assert_int_equal(1, came(0));
	assert_int_equal(1, came(MPIB_SEQ_MOD - 1));
	assert_int_equal(1, came(MPIB_SEQ_MOD - 2));
	assert_int_equal(take(), 3);
	assert_int_equal(s->next, 1);
	/* These numbers were taken before, on both sides of the wrap. */
	assert_int_equal(0, came(MPIB_SEQ_MOD - 1));
	assert_int_equal(0, came(MPIB_SEQ_MOD - 100));
	assert_int_equal(0, came(0));
	assert_int_equal(s->late, 3);
	assert_int_equal(take(), 0);
	/* The number with all 24 bits set is not valid. */
	assert_int_equal(-EPROTO, came(MPIB_SEQ_MOD));
}

/* If the receiver dropped this number, it would wait for the number for ever:
 * the sender already has its completion and does not send again. */
fixture_test(a_number_beyond_the_window_is_an_error)
{
	assert_int_equal(1, came(MPIB_SEQ_WINDOW - 1));
	assert_int_equal(-EPROTO, came(MPIB_SEQ_WINDOW));
	assert_int_equal(-EPROTO, came(MPIB_SEQ_MOD / 2));
	assert_int_equal(-EPROTO, came(MPIB_SEQ_MOD - MPIB_SEQ_WINDOW - 1));
	assert_int_equal(s->late, 0);
	assert_int_equal(0, came(MPIB_SEQ_MOD - MPIB_SEQ_WINDOW));
	assert_int_equal(s->late, 1);
}

static struct mpib_seq_sent sent;

static void give(unsigned n)
{
	while (n-- > 0) {
		assert_true(mpib_seq_may_send(&sent));
		sent.next = mpib_seq_next(sent.next);
	}
}

/* Answers arrive in random order. The test uses enough numbers to cross the
 * wrap. */
fixture_test(the_span_moves_past_the_oldest_numbers_that_have_answers)
{
	unsigned seed = 3;
	uint8_t *open = calloc(MPIB_SEQ_MOD, 1);
	uint32_t oldest = MPIB_SEQ_MOD - 20000;

	memset(&sent, 0, sizeof(sent));
	sent.next = sent.oldest = oldest;
	for (unsigned i = 0; i < 400000; i++) {
		uint32_t span =
			(sent.next + MPIB_SEQ_MOD - oldest) % MPIB_SEQ_MOD;
		uint32_t seq =
			(oldest + (unsigned)rand_r(&seed) % (span / 2 + 1)) %
			MPIB_SEQ_MOD;

		assert_int_equal(mpib_seq_may_send(&sent),
				 span < MPIB_SEQ_SPAN);
		if (rand_r(&seed) % 2 && mpib_seq_may_send(&sent)) {
			open[sent.next] = 1;
			give(1);
		} else if (open[seq]) {
			open[seq] = 0;
			mpib_seq_answered(&sent, seq);
		}
		while (oldest != sent.next && !open[oldest])
			oldest = mpib_seq_next(oldest);
		assert_int_equal(sent.oldest, oldest);
	}
	free(open);
}

fixture_test(a_number_is_complete_when_all_its_parts_arrived)
{
	uint32_t bytes;
	bool last;

	assert_int_equal(1, mpib_seq_arrived(s, 0, 2, 3, true, 10));
	assert_false(mpib_seq_take(s, &last, &bytes));
	/* the same part arrives again */
	assert_int_equal(0, mpib_seq_arrived(s, 0, 2, 3, true, 10));
	/* Contradictory numbers of parts are errors, and so is a part that does
	 * not exist. */
	assert_int_equal(-EPROTO, mpib_seq_arrived(s, 0, 1, 1, true, 10));
	assert_int_equal(-EPROTO, mpib_seq_arrived(s, 0, 4, 3, true, 10));
	assert_int_equal(-EPROTO, mpib_seq_arrived(s, 0, 0, 3, true, 10));
	assert_int_equal(1, mpib_seq_arrived(s, 0, 1, 3, true, 5));
	assert_true(mpib_seq_take(s, &last, &bytes));
	assert_int_equal(bytes, 15);
	assert_int_equal(s->late, 1);
}

/* Try a million numbers, shuffled within blocks of 64. */
fixture_test(shuffled_numbers_come_out_in_order_across_the_wrap)
{
	enum {
		BLOCK = 64
	};
	uint32_t order[BLOCK], done = 0;
	unsigned seed = 1;

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
			assert_int_equal(1, came(order[i]));
		assert_int_equal(take(), BLOCK);
		done += BLOCK;
	}
	assert_int_equal(s->late, 0);
}
