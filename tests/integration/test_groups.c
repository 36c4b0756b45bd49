/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of receives with several buffers between two engines, turn by turn. The
 * n-th send with a tag goes to the n-th buffer with this tag. Sends with
 * different tags may be posted in any order, and long before their receives.
 */
#include "play.h"
#include "test.h"

static struct pair pair;
static struct pair_end tx, rx;
static int setup(void **state)
{
	pair_open_at(&pair, 512, MPIB_IMM_V2, &tx, &rx);
	return 0;
}

static int teardown(void **state)
{
	pair_close(&pair);
	return 0;
}

/* Change the order of the sends to the next permutation, in which sends with
 * the same tag stay in order. Return false if all permutations have been
 * made. */
static bool next_order(int32_t *tag, unsigned n)
{
	unsigned i = n - 1, k = n - 1;
	int32_t t;

	while (i > 0 && tag[i - 1] >= tag[i])
		i--;
	if (i == 0)
		return false;
	while (tag[k] <= tag[i - 1])
		k--;
	t = tag[i - 1];
	tag[i - 1] = tag[k];
	tag[k] = t;
	for (k = n - 1; i < k; i++, k--) {
		t = tag[i];
		tag[i] = tag[k];
		tag[k] = t;
	}
	return true;
}

static int by_tag(const void *a, const void *b)
{
	return *(const int32_t *)a - *(const int32_t *)b;
}

/* Parse a play (play.h) from the text `words`, for the first connection. */
static void read_play(struct play *p, const char *words)
{
	play_read(p, words);
	p->pair = &pair;
	p->tx = &tx;
	p->rx = &rx;
}

static unsigned every_order_of(const char *receives)
{
	int32_t order[PLAY_BUFFERS];
	struct play p;
	unsigned n = 0;

	read_play(&p, receives);
	memcpy(order, p.tag, sizeof(order));
	qsort(order, p.buffers, sizeof(order[0]), by_tag);
	do {
		for (unsigned how = 0; how < 3; how++) {
			read_play(&p, receives);
			play_order(&p, order);
			play_run(&p, how);
		}
		n++;
	} while (next_order(order, p.buffers));
	return n;
}

fixture_test(sends_with_different_tags_may_be_posted_in_any_order)
{
	static const struct {
		const char *receives;
		unsigned orders;
	} row[] = {
		{ "AB", 2 },	    { "AB AB", 6 },	 { "AB AB AB", 20 },
		{ "ABC CBA", 90 },  { "ABCD", 24 },	 { "AB CD", 24 },
		{ "ABC BC C", 60 }, { "AB CD AB", 180 }, { "ABCDE", 120 },
	};

	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		assert_int_equal(every_order_of(row[i].receives),
				 row[i].orders);
}

fixture_test(a_receive_of_one_buffer_gets_the_send_with_its_tag)
{
	assert_int_equal(every_order_of("A B"), 2);
	assert_int_equal(every_order_of("A B C A"), 12);
	assert_int_equal(every_order_of("AB A B"), 6);
	assert_int_equal(every_order_of("B AB A AB"), 20);
}

fixture_test(buffers_of_a_group_with_the_same_tag_are_filled_in_order)
{
	assert_int_equal(every_order_of("AA"), 1);
	assert_int_equal(every_order_of("ABA"), 3);
	assert_int_equal(every_order_of("AAB BAA"), 15);
	assert_int_equal(every_order_of("AA A BA"), 5);
	assert_int_equal(every_order_of("AA B"), 3);
}

static void two_at_a_time(unsigned plays)
{
	struct pair_end tx2, rx2;

	pair_connect(&pair, 6, 0, &tx2, &rx2);
	for (unsigned i = 0; i < plays; i++) {
		struct play p, q;

		play_random(&p);
		p.pair = &pair;
		p.tx = &tx;
		p.rx = &rx;
		play_random(&q);
		q.pair = &pair;
		q.tx = &tx2;
		q.rx = &rx2;
		q.base = PLAY_BUFFERS * PLAY_ROOM;
		play_prepare(&q);
		for (unsigned r = 0; r < q.receives; r++)
			play_receive(&q, r);
		for (unsigned s = 0; s < q.buffers; s++)
			play_send(&q, q.send[s]);
		play_run(&p, play_draw(3));
		play_check(&q);
	}
	assert_int_equal(pair.node[0].broken + pair.node[1].broken, 0);
}

fixture_test(groups_of_all_sizes_get_the_right_sends_when_posted_early)
{
	two_at_a_time(150);
}

static void open_narrow(uint32_t window, uint8_t imm_version)
{
	struct mpib_engine_config cfg;

	pair_close(&pair);
	mpib_engine_config_init(&cfg);
	cfg.lane_window = window;
	pair_open(&pair, &cfg, imm_version);
	pair_connect(&pair, 5, 0, &tx, &rx);
}

fixture_test(a_full_lane_only_delays_groups)
{
	open_narrow(4096, MPIB_IMM_V2);
	two_at_a_time(40);
}

fixture_test(groups_with_imm_version_1_get_the_right_sends)
{
	struct play p;

	open_narrow(65536, MPIB_IMM_V1);
	for (unsigned i = 0; i < 60; i++) {
		play_random(&p);
		p.pair = &pair;
		p.tx = &tx;
		p.rx = &rx;
		play_run(&p, i % 3);
	}
	assert_int_equal(pair.node[0].broken + pair.node[1].broken, 0);
}

/* Another connection fills the lane in the turn in which the first part is
 * pushed. */
fixture_test(a_first_part_without_room_is_sent_later)
{
	struct pair_end tx2, rx2;
	uint32_t g_rx[4], g_tx[4];
	uint64_t far = 2 * PLAY_BUFFERS * PLAY_ROOM;
	struct play p;

	open_narrow(64 << 10, MPIB_IMM_V2);
	pair_connect(&pair, 4, 0, &tx2, &rx2);
	read_play(&p, "AB");
	p.len[0] = p.len[1] = PLAY_ROOM;
	p.parts[0] = p.parts[1] = true;
	p.send[1] = 1;
	play_prepare(&p);
	play_receive(&p, 0);
	for (uint8_t i = 0; i < 4; i++)
		g_rx[i] = pair_post(&rx2, MPIB_OP_RECV, i, pair.node[1].mr,
				    PAIR_RX + far, 1 << 20, 7);
	pair_turns(&pair, 100);
	for (uint8_t i = 0; i < 4; i++)
		g_tx[i] = pair_post(&tx2, MPIB_OP_SEND, i, pair.node[0].mr, far,
				    1 << 20, 7);
	play_send(&p, 0);
	play_send(&p, 1);
	play_check(&p);
	for (uint8_t i = 0; i < 4; i++) {
		pair_wait(&pair, &rx2, i, g_rx[i]);
		pair_wait(&pair, &tx2, i, g_tx[i]);
	}
}

/* Post thirty sends that match no receive. These sends must not block other
 * sends. */
fixture_test(unmatched_sends_do_not_block_others)
{
	struct mpib_desc d = { .op = MPIB_OP_SEND, .n = 1, .tag = 'W' };
	uint32_t g[30], g_rx;
	struct play p;

	d.mr = pair.node[0].mr;
	for (uint8_t i = 0; i < 30; i++) {
		d.req = (uint8_t)(2 + i);
		d.gen = g[i] = ++tx.gen;
		d.off = PLAY_BUFFERS * PLAY_ROOM + i * 4u;
		d.len = d.total = 1 + i;
		pair_push(&tx, &d);
		pair_turn(&pair);
	}
	for (unsigned i = 0; i < 1000; i++) {
		read_play(&p, i % 3 ? "AB" : "A B");
		p.send[i & 1] = 1;
		play_run(&p, 2);
	}
	for (unsigned i = 0; i < 30; i++) {
		g_rx = pair_post(&rx, MPIB_OP_RECV, 1, pair.node[1].mr, PAIR_RX,
				 4096, 'W');
		assert_int_equal(pair_wait(&pair, &rx, 1, g_rx), 1 + i);
		assert_int_equal(pair_wait(&pair, &tx, (uint8_t)(2 + i), g[i]),
				 1 + i);
	}
}

fixture_test(receives_match_many_sends_with_the_same_tag)
{
	struct play p = { .pair = &pair,
			  .tx = &tx,
			  .rx = &rx,
			  .receives = 4,
			  .buffers = 32 };

	for (unsigned b = 0; b < 32; b++) {
		p.tag[b] = 'A';
		p.len[b] = 1 + play_draw(PLAY_ROOM);
		p.parts[b] = b & 1;
		p.send[b] = b;
		p.n[b / 8] = 8;
	}
	for (unsigned how = 0; how < 3; how++)
		play_run(&p, how);
}
