/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With policy.bdp_by = path, a message to another island counts as small if it
 * is not longer than the bandwidth-delay product of SOUT. One test sets the
 * measured values, and the other sends messages to measure them.
 */
#include <mpib/agent.h>

#include "engine/lane/lane.h"
#include "engine/split/mode.h"
#include "engine_pair.h"
#include "test.h"

#define MIB (1u << 20)
#define SLOT 7u

static struct pair pair;
static struct pair_end tx, rx;
static struct mpib_hint_shm hints;

static int setup(void **state)
{
	struct mpib_engine_config cfg;

	mpib_engine_config_init(&cfg);
	cfg.mode = MPIB_MODE_ADVANCED;
	cfg.bdp_path = true;
	pair_open_on(&pair, &cfg, MPIB_IMM_V2, MPIB_PATH_INTER);
	mpib_engine_set_hints(pair.node[0].engine, &hints);
	pair_connect(&pair, 5, 0, &tx, &rx);
	engine_conn_set_hint(tx.conn, SLOT);
	mpib_hint_write(&hints.entries[SLOT], 1024);
	return 0;
}

static uint32_t told_small(void)
{
	struct mpib_snapshot *s = pair_snapshot(&pair, 0);
	uint32_t small = s->conn[0].why.small;

	mpib_snapshot_free(s);
	return small;
}

/* Send a message of `len` bytes. Return how many of its bytes SUP carried. */
static uint64_t sup_of(uint32_t len)
{
	struct mpib_snapshot *a = pair_snapshot(&pair, 0), *b;
	uint64_t sup;

	pair_transfer(&pair, &tx, &rx, 1, len, len, 3);
	b = pair_snapshot(&pair, 0);
	sup = b->rail[MPIB_RAIL_SUP].n.tx_bytes -
	      a->rail[MPIB_RAIL_SUP].n.tx_bytes;
	mpib_snapshot_free(a);
	mpib_snapshot_free(b);
	return sup;
}

/* Set the measured latency of SOUT, and its measured rate in bytes per second
 * in which SOUT was busy. */
static void measure(uint64_t bytes_per_s, uint64_t latency_ns)
{
	struct mpib_tracker *t = &pair.node[0].lane->track[MPIB_RAIL_SOUT];

	t->latency = latency_ns;
	t->acked_bytes = bytes_per_s;
	t->busy_ns = 1000000000;
}

#define CASE(name) TEST_OF(name, setup, pair_teardown)

CASE(messages_up_to_the_paths_capacity_count_as_small)
{
	static const struct {
		uint64_t rate, latency;
		uint32_t small;
	} row[] = {
		{ 1u << 30, 0, 65536 }, /* not measured yet */
		{ 1000, 10000, 65536 },		{ 2560000000, 10000, 25600 },
		{ 50000000000, 10000, 500000 }, { 50000000000, 1000000, MIB },
		{ 100000000, 1000, 4096 },
	};

	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		uint32_t small = row[i].small;

		measure(row[i].rate, row[i].latency);
		assert_int_equal(told_small(), small);
		assert_int_equal(sup_of(small), 0);
		measure(row[i].rate, row[i].latency);
		assert_int_equal(sup_of(small + 1), small + 1);
	}
}

CASE(the_capacity_of_the_path_is_measured_from_sends)
{
	assert_int_equal(told_small(), 65536);
	mpib_hint_write(&hints.entries[SLOT], 0);
	for (unsigned i = 0; i < 20; i++)
		sup_of(i & 1 ? 64 : MIB);
	mpib_hint_write(&hints.entries[SLOT], 1024);
	assert_in_range(told_small(), 4096, MIB);
	assert_int_not_equal(told_small(), 65536);
}
