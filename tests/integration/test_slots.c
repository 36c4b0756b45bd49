/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test how much memory one end of a connection takes, and how many receives its
 * tables hold. Receives that do not fit into the tables wait in the ring, and
 * every message arrives.
 */
#include <mpib/segment.h>

#include "engine/conn/conn.h"
#include "engine_pair.h"
#include "test.h"

#define KIB 1024u
#define ROOM 512u /* size of a receive */
#define GROUPS_MAX MPIB_REQUESTS

static struct pair pair;
static struct pair_end tx, rx;

static int teardown(void **state)
{
	if (pair.node[0].engine)
		pair_close(&pair);
	pair.node[0].engine = NULL;
	return 0;
}

static void open_with(uint8_t imm_version)
{
	struct mpib_engine_config cfg;

	mpib_engine_config_init(&cfg);
	cfg.sup_bw = 512;
	cfg.completion = MPIB_COMPLETION_DELIVERED;
	pair_open(&pair, &cfg, imm_version);
	pair_connect(&pair, 3, 0, &tx, &rx);
}

static uint32_t taken_by(const struct engine_conn *f)
{
	return (uint32_t)engine_conn_bytes(f->is_sender) + f->tables.in_bytes +
	       f->tables.out_bytes +
	       (uint32_t)sizeof(((struct mpib_submit *)0)->ring[0]);
}

/* docs/performance.md, "A thousand nodes", promises at most 24 KiB per end. The
 * broker and the allocator use BESIDE bytes of them. */
#define BESIDE 768u

teardown_test(the_memory_of_a_connections_end_is_bounded)
{
	open_with(MPIB_IMM_V2);
	assert_in_range(taken_by(rx.conn), 1, 24 * KIB - BESIDE);
	assert_in_range(taken_by(tx.conn), 1, 24 * KIB - BESIDE);
}

static uint64_t place_of(unsigned req, unsigned idx)
{
	return (req * MPIB_GROUP_MAX + idx) * ROOM;
}

static void post_receive(uint8_t req, uint32_t gen, unsigned buffers)
{
	for (unsigned i = 0; i < buffers; i++) {
		const struct mpib_desc d = {
			.op = MPIB_OP_RECV,
			.req = req,
			.idx = (uint8_t)i,
			.n = (uint8_t)buffers,
			.gen = gen,
			.mr = pair.node[1].mr,
			.tag = (int32_t)i,
			.off = PAIR_RX + place_of(req, i),
			.len = ROOM,
			.total = ROOM,
		};

		pair_push(&rx, &d);
	}
}

static bool is_over(const struct pair_end *e, uint8_t req, uint32_t gen)
{
	int32_t result;

	if (!mpib_completion_poll(pair_completion(e, req), gen, &result))
		return false;
	assert_true(result >= 0);
	return true;
}

static void turns(unsigned n)
{
	while (n-- > 0)
		pair_turn(&pair);
}

/* Send a message for each buffer of the receive `req`, one buffer after the
 * other. */
static void answer(uint8_t req, unsigned buffers)
{
	for (unsigned i = 0; i < buffers; i++) {
		uint32_t gen = pair_post(&tx, MPIB_OP_SEND, (uint8_t)i,
					 pair.node[0].mr, place_of(req, i),
					 ROOM, (int32_t)i);

		if (buffers == 1)
			assert_int_equal(pair_wait(&pair, &tx, 0, gen), ROOM);
	}
	for (unsigned i = 0; i < buffers; i++)
		assert_int_equal(pair_wait(&pair, &tx, (uint8_t)i,
					   tx.gen - (buffers - 1) + i),
				 ROOM);
}

/* Before the first send, post `receives` receives of `buffers` buffers each.
 * The tables must then hold `held` slots. */
static void far_ahead(unsigned receives, unsigned buffers, unsigned held)
{
	static unsigned seed;
	uint32_t gen = ++rx.gen;
	char *from = pair.node[0].mem, *to = pair.node[1].mem + PAIR_RX;

	pair_fill(from, GROUPS_MAX * MPIB_GROUP_MAX * ROOM, ++seed);
	memset(to, 0, GROUPS_MAX * MPIB_GROUP_MAX * ROOM);
	for (unsigned r = 0; r < receives; r++) {
		post_receive((uint8_t)r, gen, buffers);
		turns(4);
	}
	assert_int_equal(rx.conn->rx.next - rx.conn->rx.tail, held);
	assert_int_equal(rx.conn->rx.cts_posted, rx.conn->rx.next);
	for (unsigned r = 0; r < receives; r++) {
		answer((uint8_t)r, buffers);
		assert_true(is_over(&rx, (uint8_t)r, gen));
		for (unsigned i = 0; i < buffers; i++)
			assert_memory_equal(from + place_of(r, i),
					    to + place_of(r, i), ROOM);
	}
	turns(16); /* until the last end-to-end ack arrives */
	assert_int_equal(rx.conn->rx.next, rx.conn->rx.tail);
	assert_int_equal(pair.node[0].broken + pair.node[1].broken, 0);
}

teardown_test(receives_beyond_the_tables_wait_in_the_ring)
{
	for (uint8_t v = MPIB_IMM_V1; v <= MPIB_IMM_V2; v++) {
		open_with(v);
		/* After 12 laps, the 8-bit slot numbers in the IMMs have
		 * wrapped, and the tables, too. */
		for (unsigned lap = 0; lap < 12; lap++) {
			far_ahead(MPIB_REQUESTS, 1, MPIB_REQUESTS);
			far_ahead(8, 8, 64);
			far_ahead(16, 8, 64);
			far_ahead(20, 5, 60);
		}
		pair_close(&pair);
	}
	pair.node[0].engine = NULL;
}
