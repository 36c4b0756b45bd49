/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of groups whose sends fail, are late or are very large, and of the list
 * of tags that the shard reports as missing.
 */
#include <errno.h>

#include "engine/conn/chain.h"
#include "engine/conn/conn.h"
#include "engine_pair.h"
#include "test.h"

static struct pair pair;
static struct pair_end tx, rx;

/* The bytes of a group of eight buffers of 2 GiB exceed a 32-bit counter. The
 * test does not send 16 GiB, but adds the bytes to the counters. */
pair_test(bytes_of_a_group_of_16_gib_add_up)
{
	const uint64_t before = 15ull << 30;
	struct mpib_desc d = { .op = MPIB_OP_SEND,
			       .n = 1,
			       .tag = 100,
			       .len = 1000,
			       .total = 4096 };
	uint64_t bytes = 0;
	uint32_t gen;

	pair_open_at(&pair, 512, MPIB_IMM_V2, &tx, &rx);
	gen = pair_post_group(&rx, 2, 4, pair.node[1].mr, 0, 4096, 100);
	d.mr = pair.node[0].mr;
	d.gen = ++tx.gen;
	pair_push(&tx, &d);
	pair_turns(&pair, 100);
	assert_int_equal(tx.conn->tx.group.matched, 1);
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		tx.conn->tx.group.rail[r] += before;
	d.pos = d.off = 1000;
	d.len = 3096;
	pair_push(&tx, &d);
	for (uint8_t i = 1; i < 4; i++)
		pair_post(&tx, MPIB_OP_SEND, i, d.mr, 0, 4096, 100 + i);
	assert_int_equal(pair_wait(&pair, &rx, 2, gen), 16384);
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		assert_true(rx.conn->n[r].rx_bytes >= before);
		bytes += rx.conn->n[r].rx_bytes;
	}
	assert_true(bytes == 2 * before + 16384);
}

static struct mpib_desc send_of(uint8_t req, int32_t tag, uint32_t total)
{
	struct mpib_desc d = { .op = MPIB_OP_SEND,
			       .req = req,
			       .n = 1,
			       .gen = ++tx.gen,
			       .tag = tag,
			       .off = req * 65536u,
			       .total = total };

	d.mr = pair.node[0].mr;
	return d;
}

static void part(struct mpib_desc *d, uint32_t len)
{
	struct mpib_desc p = *d;

	p.off += d->pos;
	p.len = len;
	d->pos += len;
	pair_push(&tx, &p);
}

/* Read the tags that the shard reports to the sender's client as missing.
 * Return their number. */
static unsigned wanted(int32_t *tag)
{
	pair_turns(&pair, 100);
	return mpib_want_read(&tx.conn->reply->want, tx.ring.tail, tag);
}

pair_test(the_sender_learns_which_tags_are_missing)
{
	int32_t tag[MPIB_GROUP_MAX];
	uint32_t g_rx, g_tx;

	pair_open_at(&pair, 512, MPIB_IMM_V2, &tx, &rx);
	pair_post(&tx, MPIB_OP_SEND, 1, pair.node[0].mr, 0, 100, 99);
	assert_int_equal(wanted(tag), 0);
	(void)pair_post_group(&rx, 2, 4, pair.node[1].mr, 0, 4096, 100);
	assert_int_equal(wanted(tag), 4);
	for (uint8_t i = 0; i < 4; i++)
		assert_int_equal(tag[i], 100 + i);
	g_rx = pair_post(&rx, MPIB_OP_RECV, 1, pair.node[1].mr, PAIR_RX, 3000,
			 50);
	pair_post(&tx, MPIB_OP_SEND, 2, pair.node[0].mr, 0, 100, 102);
	pair_post(&tx, MPIB_OP_SEND, 3, pair.node[0].mr, 0, 100, 100);
	assert_int_equal(wanted(tag), 2);
	assert_int_equal(tag[0], 101);
	assert_int_equal(tag[1], 103);
	pair_post(&tx, MPIB_OP_SEND, 4, pair.node[0].mr, 0, 100, 103);
	pair_post(&tx, MPIB_OP_SEND, 5, pair.node[0].mr, 0, 100, 101);
	assert_int_equal(wanted(tag), 1);
	assert_int_equal(tag[0], 50);
	g_tx = pair_post(&tx, MPIB_OP_SEND, 6, pair.node[0].mr, 0, 100, 50);
	assert_int_equal(pair_wait(&pair, &rx, 1, g_rx), 100);
	assert_int_equal(pair_wait(&pair, &tx, 6, g_tx), 100);
	assert_int_equal(wanted(tag), 0);
}

/* The receive and the send that is too large fail. The other sends of the group
 * succeed. */
pair_test(only_the_send_that_is_too_large_for_its_group_fails)
{
	struct mpib_desc d[2];
	uint32_t g_rx, g_tx[4];

	for (uint8_t v = MPIB_IMM_V1; v <= MPIB_IMM_V2; v++) {
		pair_open_at(&pair, 512, v, &tx, &rx);
		g_rx = pair_post_group(&rx, 2, 4, pair.node[1].mr, 0, 4096,
				       100);
		d[0] = send_of(4, 102, 5000);
		d[1] = send_of(5, 101, 2000);
		part(&d[0], 1000);
		part(&d[1], 1000);
		pair_turns(&pair, 100);
		part(&d[0], 4000);
		part(&d[1], 1000);
		g_tx[0] = pair_post(&tx, MPIB_OP_SEND, 0, pair.node[0].mr, 0,
				    4096, 100);
		g_tx[3] = pair_post(&tx, MPIB_OP_SEND, 3, pair.node[0].mr, 0, 0,
				    103);
		assert_int_equal(pair_wait(&pair, &tx, 4, d[0].gen), -EMSGSIZE);
		assert_int_equal(pair_completion(&tx, 4)->size[0], 5000);
		assert_int_equal(pair_completion(&tx, 4)->size[1], 4096);
		assert_int_equal(pair_wait(&pair, &rx, 2, g_rx), -EMSGSIZE);
		assert_int_equal(pair_completion(&rx, 2)->size[0], 5000);
		assert_int_equal(pair_completion(&rx, 2)->size[1], 4096);
		assert_int_equal(pair_wait(&pair, &tx, 0, g_tx[0]), 4096);
		assert_int_equal(pair_wait(&pair, &tx, 5, d[1].gen), 2000);
		assert_int_equal(pair_wait(&pair, &tx, 3, g_tx[3]), 0);
		pair_transfer(&pair, &tx, &rx, 6, 5000, 5000, 1);
		assert_int_equal(pair.node[0].broken + pair.node[1].broken, 0);
		if (v == MPIB_IMM_V1)
			pair_close(&pair);
	}
}

/* At first, the lane may use neither rail. */
pair_test(a_group_waits_until_a_rail_is_usable)
{
	struct mpib_lane *lane;
	uint32_t gen;
	int32_t res;
	uint8_t use;

	pair_open_at(&pair, 512, MPIB_IMM_V2, &tx, &rx);
	gen = pair_post_group(&rx, 2, 4, pair.node[1].mr, 0, 4096, 100);
	pair_turns(&pair, 100);
	lane = pair.node[0].lane;
	use = lane->use;
	lane->use = 0;
	for (uint8_t i = 0; i < 4; i++)
		pair_post(&tx, MPIB_OP_SEND, i, pair.node[0].mr, 0, 4096,
			  100 + i);
	pair_turns(&pair, 100);
	assert_false(mpib_completion_poll(pair_completion(&rx, 2), gen, &res));
	lane->use = use;
	engine_conn_make_ready(tx.conn);
	assert_int_equal(pair_wait(&pair, &rx, 2, gen), 16384);
}
