/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More connections wait with flushes than a turn looks at: it looks at 32, the
 * next one at those that were left, and the shard does not sleep before that.
 */
#include <unistd.h>

#include "engine/conn/conn.h"
#include "engine_pair.h"
#include "test.h"

enum {
	CONNS = 40,
	A_TURN = 32,
	BYTES = 4096
};

static struct pair pair;
static struct pair_end tx[CONNS], rx[CONNS];
static uint32_t mr; /* device memory of node 1 */

static struct mpib_shard *shard(void)
{
	return &pair.node[1].engine->shard[0];
}

static void receive(unsigned i)
{
	uint32_t got = pair_post(&rx[i], MPIB_OP_RECV, 1, mr, 0, BYTES, 7);
	uint32_t sent = pair_post(&tx[i], MPIB_OP_SEND, 1, pair.node[0].mr, 0,
				  BYTES, 7);

	assert_int_equal(pair_wait(&pair, &rx[i], 1, got), BYTES);
	assert_int_equal(pair_wait(&pair, &tx[i], 1, sent), BYTES);
}

/* The QPs that read back are full, or have room again. */
static void fill(bool full)
{
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		pair.node[1].tenant->loop[r].inflight =
			full ? MPIB_LOOPBACK_DEPTH : 0;
}

static unsigned waiting(void)
{
	struct engine_conn *f;
	unsigned n = 0;

	TAILQ_FOREACH(f, &shard()->flushing, rx.flush.link)
	n++;
	return n;
}

static unsigned flushed(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < CONNS; i++)
		n += pair_flushed(&rx[i]);
	return n;
}

static void a_turn_looks_at_some_and_the_next_at_the_others(void **state)
{
	struct engine_conn *order[CONNS], *f;
	unsigned n = 0;

	pair_open_at(&pair, 512, MPIB_IMM_V2, &tx[0], &rx[0]);
	for (unsigned i = 1; i < CONNS; i++)
		pair_connect(&pair, 5 + i, 0, &tx[i], &rx[i]);
	mr = pair_add_device(&pair, 1, BYTES, NULL);
	for (unsigned i = 0; i < CONNS; i++)
		receive(i);
	fill(true);
	for (unsigned i = 0; i < CONNS; i++)
		pair_flush(&rx[i], mr, 0, 1);
	while (waiting() < CONNS)
		pair_turn(&pair);
	TAILQ_FOREACH(f, &shard()->flushing, rx.flush.link)
	order[n++] = f;
	assert_true(mpib_flush_turn(shard()) > 0);
	assert_ptr_equal(TAILQ_FIRST(&shard()->flushing), order[A_TURN]);
	assert_int_equal(waiting(), CONNS);
	assert_true(mpib_flush_turn(shard()) > 0);
	assert_ptr_equal(TAILQ_FIRST(&shard()->flushing),
			 order[2 * A_TURN % CONNS]);
	assert_int_equal(flushed(), 0);
	fill(false);
	while (flushed() < CONNS)
		pair_turn(&pair);
	assert_int_equal(waiting(), 0);
	pair_close(&pair);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(a_turn_looks_at_some_and_the_next_at_the_others),
	{ 0 },
};
