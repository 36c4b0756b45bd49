/* SPDX-License-Identifier: Apache-2.0 */
#include <mpib/completion.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "test.h"

TEST(a_word_of_another_generation_is_pending)
{
	struct mpib_completion c = { 0 };
	int32_t result = 42;

	assert_false(mpib_completion_poll(&c, 1, &result));
	mpib_completion_finish(&c, 1, 4096);
	assert_false(mpib_completion_poll(&c, 2, &result));
	assert_int_equal(result, 42);
	assert_true(mpib_completion_poll(&c, 1, &result));
	assert_int_equal(result, 4096);
}

TEST(results_keep_their_sign_and_generations_keep_their_bits)
{
	static const int32_t results[] = { 0,  1,	  INT32_MAX,
					   -1, -EMSGSIZE, INT32_MIN };
	static const uint32_t gens[] = { 1, 0x7fffffff, 0x80000000,
					 UINT32_MAX };
	struct mpib_completion c = { 0 };

	for (unsigned g = 0; g < 4; g++) {
		for (unsigned i = 0; i < 6; i++) {
			int32_t result;

			mpib_completion_finish(&c, gens[g], results[i]);
			assert_true(mpib_completion_poll(&c, gens[g], &result));
			assert_int_equal(result, results[i]);
		}
	}
	mpib_completion_finish(&c, 0x12345678, -2);
	assert_true(atomic_load(&c.word) == 0x12345678fffffffeull);
}

TEST(progress_of_another_generation_is_ignored)
{
	struct mpib_completion c = { 0 };
	int32_t result;

	mpib_completion_advance(&c, 3, 1 << 20);
	assert_int_equal(mpib_completion_progress(&c, 3), 1 << 20);
	assert_int_equal(mpib_completion_progress(&c, 4), 0);
	assert_false(mpib_completion_poll(&c, 3, &result));
}

/* number of requests that one thread completes and the other waits for */
#define LAPS 2000u

static void *finish_all(void *arg)
{
	struct mpib_completion *c = arg;
	_Atomic uint64_t *ack = &c->rail[0];

	for (uint32_t gen = 1; gen <= LAPS; gen++) {
		c->size[0] = gen * 3;
		mpib_completion_finish(c, gen, (int32_t)gen);
		while (atomic_load(ack) != gen)
			sched_yield();
	}
	return NULL;
}

TEST(sizes_are_visible_with_the_completion_word)
{
	struct mpib_completion c = { 0 };
	_Atomic uint64_t *ack = &c.rail[0];
	unsigned wrong = 0;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, finish_all, &c), 0);
	for (uint32_t gen = 1; gen <= LAPS; gen++) {
		int32_t result;

		while (!mpib_completion_poll(&c, gen, &result))
			sched_yield();
		wrong += c.size[0] != gen * 3 || result != (int32_t)gen;
		atomic_store(ack, gen);
	}
	pthread_join(thread, NULL);
	assert_int_equal(wrong, 0);
}

TEST(a_rails_report_keeps_all_its_bits)
{
	const struct mpib_rail_report most = { MPIB_RAIL_DONE, 0xffffff,
					       16ull << 30 };
	const struct mpib_rail_report some = { MPIB_RAIL_POSTED, 0x123, 7 };
	struct mpib_completion c = { 0 };
	struct mpib_rail_report r;

	mpib_completion_watch(&c, 5);
	mpib_completion_report(&c, 0, &most);
	mpib_completion_report(&c, 1, &some);
	r = mpib_completion_rail(&c, 0, 5);
	assert_int_equal(r.state, MPIB_RAIL_DONE);
	assert_int_equal(r.qpn, 0xffffff);
	assert_int_equal(r.bytes, 16ull << 30);
	r = mpib_completion_rail(&c, 1, 5);
	assert_int_equal(r.state, MPIB_RAIL_POSTED);
	assert_int_equal(r.qpn, 0x123);
	assert_int_equal(r.bytes, 7);
}

TEST(a_rails_report_of_another_generation_is_ignored)
{
	const struct mpib_rail_report some = { MPIB_RAIL_POSTED, 1, 1 };
	struct mpib_completion c = { 0 };

	mpib_completion_watch(&c, 5);
	mpib_completion_report(&c, 0, &some);
	/* If a query's generation differs from 5 in one bit, the query must not
	 * return the report of generation 5. */
	for (unsigned bit = 0; bit < 32; bit++)
		assert_int_equal(
			mpib_completion_rail(&c, 0, 5 ^ 1u << bit).state,
			MPIB_RAIL_IDLE);
	assert_int_equal(mpib_completion_rail(&c, 0, 5).bytes, 1);
	/* Watching the next request must remove the reports of the last
	 * request. */
	mpib_completion_watch(&c, 69);
	assert_int_equal(mpib_completion_rail(&c, 0, 69).state, MPIB_RAIL_IDLE);
	assert_int_equal(mpib_completion_rail(&c, 0, 69).bytes, 0);
}

TEST(stamps_are_times_within_64_ns)
{
	/* A stamp counts steps of 64 ns. The counter wraps at `turn`. */
	const uint64_t turn = (uint64_t)1 << 38,
		       at[] = { 12345678901, turn * 5 - 1, turn * 5,
				turn * 5 + 63, turn * 5 + 64 };
	struct mpib_completion c = { 0 };

	assert_int_equal(mpib_stamp_ns(0, turn), 0);
	for (unsigned i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		uint64_t now = at[i] + 100000000000, got;

		mpib_completion_watch(&c, i + 1);
		assert_int_equal(mpib_completion_time(&c.at.over, now), 0);
		mpib_completion_stamp(&c.at.over, at[i]);
		got = mpib_completion_time(&c.at.over, now);
		/* Stamp 0 means "no stamp". So if the stamp of a time would be
		 * 0, the function uses stamp 1. */
		assert_in_range(got + 64, at[i] + 1, at[i] + 128);
	}
	/* A stamp that is later than the current time counts as the current
	 * time. */
	mpib_completion_stamp(&c.at.over, turn + 6400);
	assert_int_equal(mpib_completion_time(&c.at.over, turn), turn);
}

TEST(stamps_do_not_overwrite_the_sizes_of_small_groups)
{
	struct mpib_completion c = { .size = { 1, 2, 3 } };

	mpib_completion_watch(&c, 5);
	mpib_completion_stamp(&c.at.over, 64);
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		mpib_completion_stamp(&c.at.posted[r], 640);
		mpib_completion_stamp(&c.at.done[r], 6400);
	}
	for (unsigned i = 0; i < MPIB_STAMPED_MAX; i++)
		assert_int_equal(c.size[i], i + 1);
}
