/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine/split/tracker.h: what is unacknowledged and since when, round trips, busy
 * time and latency, by times that the test sets.
 */
#include "engine/split/tracker.h"
#include "test.h"

#define US 1000ull

static struct mpib_tracker t;
static struct mpib_stripe c[4];

static int setup(void **state)
{
	mpib_tracker_init(&t);
	for (unsigned i = 0; i < 4; i++)
		c[i] = (struct mpib_stripe){ 0 };
	return 0;
}

static void the_oldest_is_the_first_posted_without_an_answer(void **state)
{
	assert_null(mpib_tracker_oldest(&t));
	for (unsigned i = 0; i < 4; i++)
		mpib_tracker_post(&t, &c[i], 100, (10 + i) * US);
	/* Other QPs of the rail answer first. */
	mpib_tracker_ack(&t, &c[1], 20 * US);
	assert_ptr_equal(mpib_tracker_oldest(&t), &c[0]);
	mpib_tracker_ack(&t, &c[0], 21 * US);
	assert_ptr_equal(mpib_tracker_oldest(&t), &c[2]);
	assert_int_equal(mpib_tracker_oldest(&t)->posted, 12 * US);
	mpib_tracker_drop(&t, &c[2], 22 * US);
	mpib_tracker_ack(&t, &c[3], 23 * US);
	assert_null(mpib_tracker_oldest(&t));
	assert_int_equal(t.inflight, 0);
	assert_int_equal(t.acked, 3);
	assert_int_equal(t.acked_bytes, 300);
	assert_int_equal(t.last_ack, 23 * US);
}

static void round_trips_are_smoothed_by_an_eighth(void **state)
{
	mpib_tracker_post(&t, &c[0], 1 << 20, 100 * US);
	mpib_tracker_ack(&t, &c[0], 180 * US);
	assert_int_equal(t.srtt, 80 * US);
	assert_int_equal(t.rttvar, 40 * US);
	mpib_tracker_post(&t, &c[0], 1 << 20, 200 * US);
	mpib_tracker_ack(&t, &c[0], 360 * US);
	assert_int_equal(t.srtt, 90 * US);
	assert_int_equal(t.rttvar, 50 * US);
}

static void a_dropped_chunk_is_no_sample(void **state)
{
	mpib_tracker_post(&t, &c[0], 100, 10 * US);
	mpib_tracker_drop(&t, &c[0], 90 * US);
	assert_int_equal(t.srtt, 0);
	assert_int_equal(t.acked_bytes, 0);
	assert_int_equal(mpib_tracker_busy(&t, 100 * US), 80 * US);
	mpib_tracker_drop(&t, &c[0], 95 * US); /* twice is nothing */
	assert_int_equal(t.inflight, 0);
}

static void busy_time_counts_overlapping_chunks_once(void **state)
{
	mpib_tracker_post(&t, &c[0], 100, 10 * US);
	mpib_tracker_post(&t, &c[1], 100, 20 * US);
	assert_int_equal(mpib_tracker_busy(&t, 25 * US), 15 * US);
	mpib_tracker_ack(&t, &c[0], 30 * US);
	mpib_tracker_ack(&t, &c[1], 40 * US);
	assert_int_equal(mpib_tracker_busy(&t, 90 * US), 30 * US);
	mpib_tracker_post(&t, &c[2], 100, 100 * US);
	assert_int_equal(mpib_tracker_busy(&t, 101 * US), 31 * US);
}

static void only_small_chunks_on_an_idle_rail_tell_its_latency(void **state)
{
	mpib_tracker_post(&t, &c[0], MPIB_TRACK_SMALL + 1, 10 * US);
	mpib_tracker_post(&t, &c[1], 8, 10 * US); /* waits for the first */
	mpib_tracker_ack(&t, &c[0], 50 * US);
	mpib_tracker_ack(&t, &c[1], 50 * US);
	assert_int_equal(t.latency, 0);
	mpib_tracker_post(&t, &c[0], MPIB_TRACK_SMALL, 100 * US);
	mpib_tracker_ack(&t, &c[0], 108 * US);
	assert_int_equal(t.latency, 8 * US);
	assert_int_equal(t.latency_at, 108 * US);
	mpib_tracker_post(&t, &c[0], 0, 200 * US);
	mpib_tracker_ack(&t, &c[0], 204 * US);
	assert_int_equal(t.latency, 7 * US);
}

static void the_ends_of_a_round_are_those_of_what_was_posted_in_it(void **state)
{
	const uint32_t big = MPIB_TRACK_SMALL + 1;

	mpib_tracker_post(&t, &c[0], big, 10 * US);
	mpib_tracker_round(&t, 20 * US);
	mpib_tracker_post(&t, &c[1], big, 20 * US);
	mpib_tracker_post(&t, &c[2], MPIB_TRACK_SMALL, 20 * US);
	mpib_tracker_post(&t, &c[3], big, 20 * US);
	mpib_tracker_ack(&t, &c[0], 30 * US);
	assert_int_equal(t.ends.n, 0);
	mpib_tracker_ack(&t, &c[1], 40 * US);
	mpib_tracker_ack(&t, &c[2], 50 * US);
	mpib_tracker_drop(&t, &c[3], 60 * US);
	assert_int_equal(t.ends.n, 1);
}

/* Another lane's stripe, one of two that go side by side, one after a rest: what
 * they took is the time in which any was in flight. */
static void a_rail_took_the_time_from_end_to_end(void **state)
{
	const uint32_t big = MPIB_TRACK_SMALL + 1;
	struct mpib_tracker other;
	struct mpib_track_sum sum = { 0 };

	mpib_tracker_init(&other);
	t.sum = other.sum = &sum;
	mpib_tracker_post(&other, &c[0], big, 10 * US);
	mpib_tracker_post(&t, &c[1], 3 * big, 10 * US);
	mpib_tracker_post(&t, &c[2], MPIB_TRACK_SMALL, 20 * US);
	assert_int_equal(mpib_tracker_queue(&t), 4 * big + MPIB_TRACK_SMALL);
	mpib_tracker_ack(&t, &c[1], 50 * US);
	mpib_tracker_ack(&other, &c[0], 51 * US);
	mpib_tracker_ack(&t, &c[2], 90 * US);
	mpib_tracker_post(&t, &c[1], big, 100 * US);
	mpib_tracker_ack(&t, &c[1], 107 * US);
	assert_int_equal(sum.bytes, 5 * big);
	assert_int_equal(sum.ns, (41 + 7) * US);
	assert_int_equal(mpib_tracker_gone(&t), 5 * big + MPIB_TRACK_SMALL);
	/* What was lost took no time that counts. */
	mpib_tracker_post(&t, &c[1], big, 200 * US);
	mpib_tracker_post(&other, &c[0], big, 200 * US);
	mpib_tracker_drop(&t, &c[1], 300 * US);
	mpib_tracker_ack(&other, &c[0], 310 * US);
	assert_int_equal(sum.ns, (41 + 7 + 10) * US);
	assert_int_equal(mpib_tracker_queue(&t), 0);
}

/* A process that did not run for long is no slow rail. */
static void one_late_answer_hardly_changes_the_latency(void **state)
{
	mpib_tracker_post(&t, &c[0], 8, 100 * US);
	mpib_tracker_ack(&t, &c[0], 116 * US);
	mpib_tracker_post(&t, &c[0], 8, 200 * US);
	mpib_tracker_ack(&t, &c[0], 9000 * US);
	assert_in_range(t.latency, 19 * US, 19 * US + 1);
	for (unsigned i = 0; i < 64; i++) {
		mpib_tracker_post(&t, &c[0], 8, 10000 * US);
		mpib_tracker_ack(&t, &c[0], 11000 * US);
	}
	assert_in_range(t.latency, 800 * US, 1000 * US);
}

/* A peer that gives no receives would make the rail slow to all others. */
static void one_that_stays_in_flight_takes_no_time_of_others(void **state)
{
	mpib_tracker_post(&t, &c[0], 1 << 20, 0);
	for (unsigned i = 1; i <= 3; i++) {
		mpib_tracker_post(&t, &c[i], 1 << 20, i * 1000 * US);
		mpib_tracker_ack(&t, &c[i], i * 1000 * US + 50 * US);
	}
	assert_int_equal(t.sum->bytes, 3 << 20);
	assert_int_equal(t.sum->ns, 3 * 50 * US);
}

static void an_answer_within_the_turn_counts_as_a_nanosecond(void **state)
{
	mpib_tracker_post(&t, &c[0], 0, 10 * US);
	mpib_tracker_ack(&t, &c[0], 10 * US);
	assert_int_equal(t.srtt, 1);
	assert_int_equal(t.latency, 1);
}

const struct CMUnitTest test_list[] = {
	setup_test(the_oldest_is_the_first_posted_without_an_answer),
	setup_test(round_trips_are_smoothed_by_an_eighth),
	setup_test(a_dropped_chunk_is_no_sample),
	setup_test(busy_time_counts_overlapping_chunks_once),
	setup_test(only_small_chunks_on_an_idle_rail_tell_its_latency),
	setup_test(the_ends_of_a_round_are_those_of_what_was_posted_in_it),
	setup_test(a_rail_took_the_time_from_end_to_end),
	setup_test(one_late_answer_hardly_changes_the_latency),
	setup_test(one_that_stays_in_flight_takes_no_time_of_others),
	setup_test(an_answer_within_the_turn_counts_as_a_nanosecond),
	{ 0 },
};
