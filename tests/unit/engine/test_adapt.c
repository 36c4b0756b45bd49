/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine/split/adapt.h: how a send op is split between the rails, depending on
 * the bytes in flight and on the weights. test_settle.c checks that the weights
 * settle.
 */
#include "engine/split/adapt.h"
#include "test.h"

#define KIB 1024u
#define MIB (1024u * KIB)
#define US 1000ull
#define MS 1000000ull
#define SOUT MPIB_RAIL_SOUT
#define SUP MPIB_RAIL_SUP

static struct mpib_adapt a;
static struct mpib_tracker track[MPIB_RAILS];
static struct mpib_track_sum own[MPIB_RAILS];
static struct mpib_stripe stripe[64][MPIB_RAILS];
static uint64_t now;

static int setup(void **state)
{
	now = 1000 * MS;
	memset(stripe, 0, sizeof(stripe));
	memset(own, 0, sizeof(own));
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		mpib_tracker_init(&track[r], &own[r]);
		track[r].busy_since = now;
	}
	mpib_adapt_init(&a, track, now);
	return 0;
}

/* Split a message. Return SUP's bytes. */
static uint32_t ask(uint32_t len, bool more)
{
	enum mpib_adapt_op op = len <= MPIB_ADAPT_SMALL ? MPIB_ADAPT_SHORT
				: more			? MPIB_ADAPT_FOLLOWED
							: MPIB_ADAPT_ALONE;

	return mpib_adapt_split(&a, track, op, len, NULL, now);
}

/* Post this many bytes on each rail as send op `i`. */
static int64_t post(unsigned i, uint32_t sout, uint32_t sup)
{
	const uint32_t rail[MPIB_RAILS] = { sout, sup };

	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		if (rail[r])
			mpib_tracker_post(&track[r], &stripe[i][r], rail[r],
					  now);
	}
	return mpib_adapt_posted(&a, sout, sup);
}

static void ack(unsigned i)
{
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		if (stripe[i][r].posted)
			mpib_tracker_ack(&track[r], &stripe[i][r], now);
	}
}

/* Split and post a message as send op `i`. Return SUP's bytes. */
static uint32_t go(unsigned i, uint32_t len, bool more)
{
	uint32_t sup = ask(len, more);

	post(i, len - sup, sup);
	return sup;
}

setup_test(a_whole_message_joins_the_shortest_queue)
{
	unsigned sup = 0;

	for (unsigned i = 0; i < 32; i++) {
		uint32_t got = go(i, MIB, true);

		assert_true(got == 0 || got == MIB);
		sup += got == MIB;
		assert_in_range(track[SUP].inflight + MIB -
					track[SOUT].inflight,
				0, 2 * MIB);
	}
	assert_int_equal(sup, 16);
}

setup_test(the_length_of_a_queue_is_measured_in_time)
{
	mpib_adapt_weigh(&a, MPIB_ADAPT_ONE / 4);
	post(0, 2 * MIB, MIB);
	/* With this message, SUP would have 2 MiB in flight, which take 2 /
	 * (1/4) units of time. SOUT would have 3 MiB in flight, which take 3 /
	 * (3/4). */
	assert_int_equal(ask(MIB, true), 0);
	post(1, 4 * MIB, 0);
	assert_int_equal(ask(MIB, true), MIB);
}

/* All lanes share a rail, so the bytes in flight of all lanes count. */
setup_test(bytes_in_flight_of_other_lanes_count)
{
	struct mpib_track_sum sum[MPIB_RAILS] = { { 0 },
						  { .inflight = 4 * MIB } };

	for (unsigned r = 0; r < MPIB_RAILS; r++)
		track[r].sum = &sum[r];
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(go(i, MIB, true), 0);
	sum[SUP].inflight = 0;
	assert_int_equal(ask(MIB, true), MIB);
	sum[SOUT].inflight = track[SOUT].inflight;
}

setup_test(equal_rails_get_equal_bytes_in_turn)
{
	uint64_t sup = 0, sum = 0;

	/* Send one message at a time. The sizes alternate. */
	for (unsigned i = 0; i < 1000; i++) {
		uint32_t len = i % 2 ? 40 * KIB : 48 * KIB;

		sup += go(0, len, true);
		sum += len;
		now += 10 * US;
		ack(0);
		/* Small messages in between must not change the split of other
		 * messages. */
		go(1, 64, true);
		now += 10 * US;
		ack(1);
	}
	assert_in_range(sup, sum / 100 * 48, sum / 100 * 52);
}

/* Complete messages of `len` bytes, so that the split learns that a whole
 * message takes `whole_ns` and a cut message takes `cut_ns`. */
static void teach(uint32_t len, uint64_t whole_ns, uint64_t cut_ns)
{
	for (unsigned i = 0; i < 40; i++) {
		uint32_t sup = ask(len, false);
		int64_t before = post(0, len - sup, sup);
		bool cut = sup && sup < len;
		const struct mpib_adapt_end end = { len, cut,
						    cut ? cut_ns : whole_ns,
						    (uint64_t)before };

		assert_int_equal(before, (uint64_t)i * len);
		now += US;
		ack(0);
		mpib_adapt_ended(&a, track, &end);
	}
}

setup_test(a_single_message_is_cut_if_cutting_was_faster)
{
	teach(MIB, 100 * US, 60 * US);
	assert_int_equal(ask(MIB, false), MIB / 2);
	mpib_adapt_weigh(&a, MPIB_ADAPT_ONE / 4);
	assert_int_equal(ask(MIB, false), MIB / 4);
	/* The message is cut so that both rails complete all their bytes in
	 * flight at the same time. */
	mpib_adapt_weigh(&a, MPIB_ADAPT_ONE / 2);
	post(1, 256 * KIB, 0);
	assert_int_equal(ask(MIB, false), MIB / 2 + 128 * KIB);
	/* If another message waits for the free rail, this message is not
	 * cut. */
	assert_int_equal(ask(MIB, true), MIB);
	/* While both rails are busy, no message is cut. */
	post(2, MIB, MIB);
	assert_int_equal(ask(MIB, false) % MIB, 0);
}

setup_test(a_single_message_stays_whole_if_cutting_was_not_faster)
{
	teach(MIB, 100 * US, 99 * US);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(go(0, MIB, false) % MIB, 0);
}

setup_test(no_part_of_a_cut_message_is_tiny)
{
	for (uint32_t w = 0; w <= 64; w++) {
		setup(NULL);
		mpib_adapt_weigh(&a, w < 1 ? 128 : w * 1000);
		for (uint32_t len = 17 * KIB; len < 256 * KIB; len += 5000) {
			uint32_t sup = go(0, len, false);

			assert_true(sup == 0 || sup == len ||
				    (sup >= 23 * KIB && len - sup >= 23 * KIB));
			now += US;
			ack(0);
		}
	}
}

/* A send op that finds no room is split again in each turn. Simulate a thousand
 * such turns. */
setup_test(splitting_a_send_op_again_returns_the_same_split)
{
	struct mpib_adapt before;

	for (unsigned i = 0; i < 31; i++) {
		go(0, MIB, false);
		now += MS;
		ack(0);
	}
	before = a;
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(ask(MIB, false), ask(MIB, false));
	before.before = a.before;
	before.answer = a.answer;
	assert_memory_equal(&a, &before, sizeof(a));
}

/* While all bytes use SOUT, the speed of SUP is unknown. So from time to time
 * SUP gets a small part of a message. */
setup_test(a_rail_that_was_unused_for_long_is_tried_again)
{
	unsigned tries = 0;

	mpib_adapt_weigh(&a, MPIB_ADAPT_ONE / 128);
	post(0, 8 * MIB, 0);
	for (unsigned i = 0; i < 1000; i++) {
		uint32_t sup = ask(MIB, true);

		tries += sup > 0;
		assert_true(sup <= 64 * KIB);
		post(1, MIB - sup, sup);
		now += MS;
		ack(1);
	}
	assert_in_range(tries, 9, 11);
}

/* Send `n` small messages, one at a time, over rails of these latencies. Return
 * how many of them used SUP. */
static unsigned smalls(unsigned n, uint64_t sout_ns, uint64_t sup_ns,
		       uint64_t pause_ns)
{
	unsigned sup = 0;

	for (unsigned i = 0; i < n; i++) {
		bool on_sup = go(0, 1000, false) > 0;

		sup += on_sup;
		now += on_sup ? sup_ns : sout_ns;
		ack(0);
		now += pause_ns;
	}
	return sup;
}

setup_test(small_messages_use_the_rail_with_the_lower_latency)
{
	smalls(100000, 80 * US, 20 * US, 0);
	assert_in_range(smalls(10000, 80 * US, 20 * US, 0), 9700, 10000);
	smalls(10000, 80 * US, 800 * US, 0);
	assert_in_range(smalls(10000, 80 * US, 800 * US, 0), 0, 400);
}
