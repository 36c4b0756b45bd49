/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of shares, on rails with a limited rate. Each of three tenants has a
 * lane to the same node, so only the tenants' weights determine how the rails
 * are shared. The test keeps all senders busy and compares delivered bytes, so
 * a slow machine does not change the result.
 */
#include "base/clock.h"
#include "engine/conn/conn.h"
#include "engine/measure/times.h"
#include "engine_pair.h"
#include "test.h"
#include "verbs/soft/soft.h"

#define RX (PAIR_MEM / 2)
#define SENDERS 3
#define DEEP 16 /* outstanding requests of a sender */
#define MESSAGE (256u << 10)
#define WINDOW (512u << 10)

struct sender {
	struct pair *pair; /* the pair of the sender's tenant */
	struct pair_end tx, rx;
	uint32_t tx_gen[DEEP], rx_gen[DEEP];
	bool idle;
	uint64_t bytes; /* bytes delivered */
};

static struct pair pair, more[SENDERS - 1];
static struct sender sender[SENDERS];

static void limit_rails(uint64_t bytes_per_s)
{
	struct mpib_soft_fault fault = { .rate_bytes_per_s = bytes_per_s };

	for (unsigned r = 0; r < pair.cfg.rails; r++)
		mpib_soft_set_fault(pair.node[0].engine->shard[0].rail[r].ctx,
				    &fault);
}

static int setup(void **state)
{
	struct mpib_engine_config cfg;

	memset(sender, 0, sizeof(sender));
	mpib_engine_config_init(&cfg);
	cfg.share_window = WINDOW;
	pair_open(&pair, &cfg, MPIB_IMM_V2);
	for (unsigned i = 0; i < SENDERS; i++) {
		struct sender *s = &sender[i];

		s->pair = i ? &more[i - 1] : &pair;
		if (i)
			pair_join(&pair, s->pair, i);
		pair_connect(s->pair, i, 0, &s->tx, &s->rx);
	}
	limit_rails(200000000);
	return 0;
}

static int teardown(void **state)
{
	pair_close(&pair);
	for (unsigned i = 1; i < SENDERS; i++)
		pair_leave(sender[i].pair);
	return 0;
}

static bool over(const struct pair_end *e, unsigned req, uint32_t gen)
{
	int32_t result;

	if (gen == 0)
		return true;
	if (!mpib_completion_poll(pair_completion(e, (uint8_t)req), gen,
				  &result))
		return false;
	assert_int_equal(result, MESSAGE);
	return true;
}

static void top_up(struct sender *s)
{
	for (unsigned i = 0; i < DEEP; i++) {
		if (!over(&s->rx, i, s->rx_gen[i]))
			continue;
		s->bytes += s->rx_gen[i] ? MESSAGE : 0;
		s->rx_gen[i] =
			s->idle ? 0
				: pair_post(&s->rx, MPIB_OP_RECV, (uint8_t)i,
					    s->pair->node[1].mr, RX, MESSAGE,
					    0);
	}
	for (unsigned i = 0; i < DEEP && !s->idle; i++) {
		if (over(&s->tx, i, s->tx_gen[i]))
			s->tx_gen[i] =
				pair_post(&s->tx, MPIB_OP_SEND, (uint8_t)i,
					  s->pair->node[0].mr, 0, MESSAGE, 0);
	}
}

static uint64_t total(void)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < SENDERS; i++)
		sum += sender[i].bytes;
	return sum;
}

/* Keep all senders busy until another `bytes` bytes are delivered. */
static void move(uint64_t bytes)
{
	for (unsigned i = 0; i < SENDERS; i++)
		sender[i].bytes = 0;
	while (total() < bytes) {
		for (unsigned i = 0; i < SENDERS; i++)
			top_up(&sender[i]);
		pair_turn(&pair);
	}
}

static void assert_part(unsigned i, unsigned part, unsigned of)
{
	uint64_t want = total() * part / of;

	assert_in_range(sender[i].bytes, want * 95 / 100, want * 105 / 100);
}

static void set_weights(uint32_t a, uint32_t b, uint32_t c)
{
	mpib_tenant_share(sender[0].pair->node[0].tenant, a, 0);
	mpib_tenant_share(sender[1].pair->node[0].tenant, b, 0);
	mpib_tenant_share(sender[2].pair->node[0].tenant, c, 0);
}

fixture_test(tenants_with_weights_1_2_and_5_get_1_2_and_5_eighths)
{
	set_weights(10, 20, 50);
	move(16u << 20); /* fill the windows first */
	move(128u << 20);
	assert_part(0, 1, 8);
	assert_part(1, 2, 8);
	assert_part(2, 5, 8);
}

fixture_test(a_new_weight_applies_immediately)
{
	move(16u << 20);
	move(64u << 20);
	assert_part(0, 1, 3);
	assert_part(1, 1, 3);
	assert_part(2, 1, 3);
	set_weights(40, 10, 10);
	move(16u << 20);
	move(64u << 20);
	assert_part(0, 4, 6);
	assert_part(1, 1, 6);
}

fixture_test(an_idle_tenants_share_goes_to_the_others)
{
	set_weights(10, 20, 50);
	sender[2].idle = true;
	move(16u << 20);
	move(96u << 20);
	assert_int_equal(sender[2].bytes, 0);
	assert_part(0, 1, 3);
	assert_part(1, 2, 3);
}

fixture_test(bytes_in_flight_are_bounded_while_tenants_compete)
{
	const struct mpib_shard *s = &pair.node[0].engine->shard[0];

	for (unsigned n = 0; n < 20000; n++) {
		for (unsigned i = 0; i < SENDERS; i++)
			top_up(&sender[i]);
		pair_turn(&pair);
		for (unsigned r = 0; r < pair.cfg.rails; r++)
			assert_true(s->rail[r].bytes.inflight <
				    WINDOW + MESSAGE);
	}
}

/* The bytes in flight of a stuck lane must not block the window of the rail for
 * long. */
fixture_test(a_stuck_lane_does_not_stop_the_others)
{
	struct mpib_shard *s = &pair.node[0].engine->shard[0];
	struct mpib_lane *lane = sender[2].pair->node[0].lane;
	struct mpib_stripe chunk[MPIB_RAILS] = { 0 };

	sender[2].idle = true;
	for (unsigned r = 0; r < pair.cfg.rails; r++)
		mpib_tracker_post(&lane->track[r], &chunk[r], 4 * WINDOW,
				  s->now);
	move(32u << 20);
	assert_part(0, 1, 2);
	for (unsigned r = 0; r < pair.cfg.rails; r++)
		mpib_tracker_drop(&lane->track[r], &chunk[r], s->now);
}

fixture_test(a_limited_tenant_stays_within_its_limit)
{
	const uint64_t rate = 20000000;
	uint64_t began, ns;

	mpib_tenant_share(sender[0].pair->node[0].tenant, 0, rate);
	began = mpib_now_ns();
	move(64u << 20);
	ns = mpib_now_ns() - began;
	/* Tolerate the bytes of 10 ms at the limited rate, and one message per
	 * rail. */
	assert_true((double)sender[0].bytes <=
		    (double)rate * ((double)ns / 1e9 + 0.01) + 2 * MESSAGE);
	/* On a slow machine, even the senders without a limit may be slower
	 * than the limit. */
	if ((double)rate * (double)ns / 1e9 < (double)sender[1].bytes / 2)
		assert_true(sender[0].bytes < sender[1].bytes);
}

static uint64_t timed(const struct sender *s, unsigned node, bool sends)
{
	struct mpib_hist_counts h = { 0 };

	mpib_engine_client_times(s->pair->node[node].engine_client, sends, &h);
	return h.count;
}

fixture_test(a_message_is_counted_only_for_its_own_tenants_client)
{
	for (uint8_t i = 0; i < SENDERS; i++) {
		struct sender *s = &sender[i];

		for (uint8_t n = 0; n <= i; n++)
			pair_transfer(s->pair, &s->tx, &s->rx, n, 4096, 4096,
				      n);
	}
	for (unsigned i = 0; i < SENDERS; i++) {
		assert_int_equal(timed(&sender[i], 0, true), i + 1);
		assert_int_equal(timed(&sender[i], 0, false), 0);
		assert_int_equal(timed(&sender[i], 1, false), i + 1);
	}
}
