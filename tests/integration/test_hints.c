/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of hints in a file that a process of another user owns. */
#include <mpib/agent.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/copy.h"
#include "engine_pair.h"
#include "test.h"

static struct pair pair;
static struct pair_end tx, rx;

/* The agent truncates the hint file, which the proxy has mapped. */
TEST(an_agent_that_truncates_its_hints_does_not_stop_a_proxy)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct mpib_engine_config cfg;
	struct mpib_hint_shm *shm;
	int fd = memfd_create("hints", MFD_CLOEXEC);

	assert_int_equal(mpib_bus_catch(), 0);
	assert_int_equal(ftruncate(fd, (off_t)(2 * page)), 0);
	shm = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(shm, MAP_FAILED);
	mpib_engine_config_init(&cfg);
	cfg.mode = MPIB_MODE_ADVANCED;
	pair_open(&pair, &cfg, MPIB_IMM_V2);
	mpib_engine_set_hints(pair.node[0].engine, shm);
	pair_connect(&pair, 5, 0, &tx, &rx);
	engine_conn_set_hint(tx.conn, 7);
	mpib_hint_write(&shm->entries[7], 1024);
	pair_transfer(&pair, &tx, &rx, 1, 4096, 4096, 3);
	assert_int_equal(ftruncate(fd, 0), 0);
	pair_transfer(&pair, &tx, &rx, 1, 4096, 4096, 3);
	pair_transfer(&pair, &tx, &rx, 1, 4096, 4096, 3);
	pair_close(&pair);
	munmap(shm, 2 * page);
	close(fd);
}

static struct mpib_hint_shm steering;

/* Send one message. Store in `by` how many bytes each rail carried. */
static void carry(uint32_t bytes, uint64_t *by)
{
	struct mpib_snapshot *a = pair_snapshot(&pair, 0), *b;

	pair_transfer(&pair, &tx, &rx, 1, bytes, bytes, 3);
	b = pair_snapshot(&pair, 0);
	for (unsigned r = 0; r < MPIB_RAILS; r++)
		by[r] = b->rail[r].n.tx_bytes - a->rail[r].n.tx_bytes;
	mpib_snapshot_free(a);
	mpib_snapshot_free(b);
}

static void expect_why(enum mpib_split_source source, uint32_t slot)
{
	struct mpib_snapshot *a = pair_snapshot(&pair, 0);

	assert_int_equal(a->conns, 1);
	assert_int_equal(a->conn[0].why.source, source);
	assert_int_equal(a->conn[0].why.hint_slot, slot);
	mpib_snapshot_free(a);
}

TEST(an_agent_steers_connections_with_a_hint)
{
	struct mpib_engine_config cfg;
	uint64_t by[MPIB_RAILS];

	mpib_engine_config_init(&cfg);
	cfg.mode = MPIB_MODE_ADAPTIVE;
	pair_open(&pair, &cfg, MPIB_IMM_V2);
	mpib_engine_set_hints(pair.node[0].engine, &steering);
	pair_connect(&pair, 5, 0, &tx, &rx);
	/* A connection without a hint slot has no hint, so both rails are
	 * used. */
	by[MPIB_RAIL_SUP] = 0;
	for (unsigned i = 0; i < 100 && !by[MPIB_RAIL_SUP]; i++)
		carry(1 << 20, by);
	assert_int_not_equal(by[MPIB_RAIL_SUP], 0);
	expect_why(MPIB_SPLIT_ADAPTIVE, UINT32_MAX);
	engine_conn_set_hint(tx.conn, 7);
	/* If the hint gives all bytes to one rail, even small messages use only
	 * that rail. */
	for (unsigned i = 0; i < 200; i++) {
		bool all = i & 1;
		uint32_t bytes = i & 2 ? 1 << 20 : 64;

		mpib_hint_write(&steering.entries[7], all ? 1024 : 0);
		carry(bytes, by);
		assert_int_equal(by[MPIB_RAIL_SUP], all ? bytes : 0);
		assert_int_equal(by[MPIB_RAIL_SOUT], all ? 0 : bytes);
	}
	expect_why(MPIB_SPLIT_HINT, 7);
	/* If the hint gives bytes to both rails, a large message is split, but
	 * a small message is not. */
	mpib_hint_write(&steering.entries[7], 256);
	carry(1 << 20, by);
	assert_int_equal(by[MPIB_RAIL_SUP], 1 << 18);
	carry(4096, by);
	assert_true(!by[MPIB_RAIL_SUP] || !by[MPIB_RAIL_SOUT]);
	mpib_hint_write(&steering.entries[7], MPIB_HINT_OWN);
	carry(1 << 20, by);
	expect_why(MPIB_SPLIT_ADAPTIVE, 7);
	pair_close(&pair);
}
