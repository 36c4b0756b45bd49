/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A flush may be queued behind receives that have no slot. The flush must not
 * wait for these receives, because the slots may become free only by calls that
 * the client makes after the flush.
 */
#include <sys/mman.h>

#include "engine/conn/conn.h"
#include "engine_pair.h"
#include "placement.h"
#include "test.h"

#define BYTES 4096
/* Number of receives with eight buffers each. They need more slots than the
 * connection has, but they leave room for flushes in the ring. */
#define GROUPS 15u
/* Start value of the flush counter, so that the counter wraps at the second
 * flush. */
#define FIRST (UINT32_MAX - 1)

static struct pair pair;
static struct pair_end tx, rx;
/* Memory of region `mr` of node 1, as a GPU would see it. */
static char *device;
static uint32_t mr, asked;

static void place_late(void)
{
	struct mpib_rail *rail = pair.node[1].engine->shard[0].rail;

	for (unsigned r = 0; r < MPIB_RAILS; r++)
		placement_set(rail[r].ctx, LATE);
}

static int setup(void **state)
{
	pair_open_at(&pair, 512, MPIB_IMM_V2, &tx, &rx);
	mr = pair_add_device(&pair, 1, BYTES, &device);
	rx.conn->rx.flush.taken = rx.conn->rx.flush.ended = asked = FIRST;
	atomic_store(&rx.conn->reply->flushed, FIRST);
	place_late();
	return 0;
}

static int teardown(void **state)
{
	pair_close(&pair);
	placement_end();
	munmap(device, BYTES);
	return 0;
}

static void receive(void)
{
	uint32_t got = pair_post(&rx, MPIB_OP_RECV, 1, mr, 0, BYTES, 7);
	uint32_t sent =
		pair_post(&tx, MPIB_OP_SEND, 1, pair.node[0].mr, 0, BYTES, 7);

	assert_int_equal(pair_wait(&pair, &rx, 1, got), BYTES);
	assert_int_equal(pair_wait(&pair, &tx, 1, sent), BYTES);
}

static void post_groups(void)
{
	for (unsigned i = 0; i < 8 * GROUPS; i++) {
		const struct mpib_desc d = { .op = MPIB_OP_RECV,
					     .req = (uint8_t)(2 + i / 8),
					     .idx = i % 8,
					     .n = 8,
					     .gen = 1,
					     .mr = mr,
					     .tag = (int32_t)(i % 8),
					     .len = 64,
					     .total = 64 };

		pair_push(&rx, &d);
		if (i % 8 == 7)
			pair_turn(&pair);
	}
}

static void answer_groups(void)
{
	for (unsigned i = 0; i < GROUPS; i++) {
		uint32_t gen = 0;

		for (uint8_t k = 0; k < 8; k++)
			gen = pair_post(&tx, MPIB_OP_SEND, k, pair.node[0].mr,
					0, 64, k);
		for (uint8_t k = 0; k < 8; k++)
			assert_int_equal(pair_wait(&pair, &tx, k, gen - 7 + k),
					 64);
	}
}

fixture_test(a_flush_does_not_wait_for_receives_without_a_slot)
{
	pair_fill(pair.node[0].mem, BYTES, 3);
	receive();
	assert_memory_not_equal(device, pair.node[0].mem, BYTES);
	post_groups();
	for (unsigned i = 0; i < 3; i++)
		pair_flush(&rx, mr, 0, ++asked);
	pair_turns(&pair, 1000);
	assert_int_equal(pair_flushed(&rx) - FIRST, 3);
	assert_memory_equal(device, pair.node[0].mem, BYTES);
	answer_groups();
	pair_flush(&rx, mr, 0, ++asked);
	pair_turns(&pair, 1000);
	assert_int_equal(pair_flushed(&rx) - FIRST, 4);
	assert_int_equal(pair.node[1].broken, 0);
}
