/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of flushes of device memory. A memfd is registered as a dma-buf. The
 * software HCAs behave as if they wrote to a GPU: acknowledged bytes become
 * visible in memory only after a read.
 */
#include <sys/mman.h>

#include "base/clock.h"
#include "engine/conn/conn.h"
#include "engine/recovery/stop.h"
#include "engine_pair.h"
#include "placement.h"
#include "test.h"
#include "verbs/soft/soft.h"

#define BYTES (256u << 10)

static struct pair pair;
static struct pair_end tx, rx;
/* Memory of region `mr` of node 1, as a GPU would see it. */
static char *device;
static uint32_t mr, asked;

static void open_with(const struct mpib_engine_config *cfg)
{
	pair_open(&pair, cfg, MPIB_IMM_V2);
	pair_connect(&pair, 5, 0, &tx, &rx);
	mr = pair_add_device(&pair, 1, BYTES, &device);
	asked = 0;
}

static int setup(void **state)
{
	struct mpib_engine_config cfg;

	mpib_engine_config_init(&cfg);
	cfg.sup_bw = 512;
	cfg.timeout = 8;
	cfg.retry_cnt = 1;
	open_with(&cfg);
	return 0;
}

static int teardown(void **state)
{
	pair_close(&pair);
	placement_end();
	munmap(device, BYTES);
	return 0;
}

static struct ibv_context *rail_ctx(unsigned rail)
{
	return pair.node[1].engine->shard[0].rail[rail].ctx;
}

static void fault_on(unsigned rail, struct mpib_soft_fault fault)
{
	assert_int_equal(mpib_soft_set_fault(rail_ctx(rail), &fault), 0);
}

static void fault_both(struct mpib_soft_fault fault)
{
	fault_on(0, fault);
	fault_on(1, fault);
}

static void place_late(void)
{
	placement_set(rail_ctx(0), LATE);
	placement_set(rail_ctx(1), LATE);
}

/* Send a message of `len` bytes and receive it in region `mr`. */
static void receive(uint32_t len, unsigned seed)
{
	uint32_t got, sent;

	pair_fill(pair.node[0].mem, len, seed);
	got = pair_post(&rx, MPIB_OP_RECV, 1, mr, 0, len, 7);
	sent = pair_post(&tx, MPIB_OP_SEND, 1, pair.node[0].mr, 0, len, 7);
	assert_int_equal(pair_wait(&pair, &rx, 1, got), len);
	assert_int_equal(pair_wait(&pair, &tx, 1, sent), len);
	pair_turns(&pair, 1000); /* until no byte is in flight on the lane */
}

static void flush(void)
{
	pair_flush(&rx, mr, 0, ++asked);
}

static void assert_flushed(uint32_t upto)
{
	if (pair_flushed(&rx) != upto)
		fail_msg("%u of %u: %s", pair_flushed(&rx), upto,
			 pair.node[1].why);
}

static void until_flushed(uint32_t upto)
{
	while (pair_flushed(&rx) != upto && !pair.node[1].broken)
		pair_turn(&pair);
	assert_flushed(upto);
}

/* Make turns until a read has completed the flush. The shard skips the read if
 * the data arrived long ago. On a slow machine, that could happen here. So set
 * the data's arrival time to the current time in each turn. */
static void until_read_back(uint32_t upto)
{
	struct mpib_flush *p = &rx.conn->rx.flush.at[upto - 1];

	while (pair_flushed(&rx) != upto && !pair.node[1].broken) {
		rx.conn->rx.flush.arrived[0] = rx.conn->shard->now;
		p->arrived[0] = rx.conn->shard->now;
		pair_turn(&pair);
	}
	assert_flushed(upto);
}

static void until_broken(void)
{
	while (!pair.node[1].broken)
		pair_turn(&pair);
}

static struct mpib_loopback *loopback(unsigned rail)
{
	return &pair.node[1].tenant->loop[rail];
}

fixture_test(received_bytes_are_visible_after_a_flush)
{
	place_late();
	receive(BYTES, 3);
	/* The receive is complete, but the data of neither rail is visible
	 * yet. */
	assert_true(placement_waits(rail_ctx(0)));
	assert_true(placement_waits(rail_ctx(1)));
	assert_memory_not_equal(device, pair.node[0].mem, BYTES);
	flush();
	until_flushed(1);
	assert_memory_equal(device, pair.node[0].mem, BYTES);
}

fixture_test(flushes_without_room_wait_in_the_ring)
{
	receive(BYTES, 4);
	for (unsigned i = 0; i < MPIB_RING_SLOTS; i++)
		flush();
	until_flushed(MPIB_RING_SLOTS);
	receive(BYTES, 5);
	assert_memory_equal(device, pair.node[0].mem, BYTES);
}

fixture_test(a_wrong_flush_breaks_the_connection)
{
	static const struct {
		bool host;
		uint64_t off;
		uint32_t gen;
	} bad[] = {
		{ true, 0, 1 },
		{ false, BYTES, 1 },
		{ false, 0, 2 },
		{ false, 0, 0 },
	};

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (i > 0) {
			teardown(NULL);
			setup(NULL);
		}
		pair_flush(&rx, bad[i].host ? pair.node[1].mr : mr, bad[i].off,
			   bad[i].gen);
		until_broken();
		assert_int_equal(pair_flushed(&rx), 0);
	}
}

/* Open a lane that sends all bytes over SUP, and that fences SUP if it fails.
 * SUP then stays down for the rest of the test. */
static int setup_fencing(void **state)
{
	struct mpib_engine_config cfg;

	mpib_engine_config_init(&cfg);
	cfg.sup_bw = 1024;
	cfg.hold_ms = 3600000;
	open_with(&cfg);
	pair_fences(&pair);
	return 0;
}

static bool sup_is_open(void)
{
	uint8_t open = pair.node[0].lane->open | pair.node[1].lane->open;

	return open & mpib_rail_bit(MPIB_RAIL_SUP);
}

static void send_half(uint32_t pos)
{
	const struct mpib_desc d = { .op = MPIB_OP_SEND,
				     .req = 1,
				     .n = 1,
				     .gen = 1,
				     .mr = pair.node[0].mr,
				     .tag = 7,
				     .total = BYTES,
				     .pos = pos,
				     .off = pos,
				     .len = BYTES / 2 };

	pair_push(&tx, &d);
}

/* SUP carries the first half of the message, which has no IMM, and then fails.
 * So no completion tells the receiver that SUP carried bytes. SOUT carries the
 * whole message again. This was a bug: the flush read back only through SOUT.
 * The bytes from SUP became visible later, when the memory already belonged to
 * the client again. */
TEST_OF(a_flush_covers_bytes_of_a_failed_rail_that_had_no_imm, setup_fencing,
	teardown)
{
	uint32_t got;

	place_late();
	pair_fill(pair.node[0].mem, BYTES, 5);
	got = pair_post(&rx, MPIB_OP_RECV, 1, mr, 0, BYTES, 7);
	send_half(0);
	while (!placement_waits(rail_ctx(MPIB_RAIL_SUP)))
		pair_turn(&pair);
	assert_true(mpib_lane_fault(pair.node[1].lane, MPIB_RAIL_SUP,
				    MPIB_CAUSE_ERROR));
	while (sup_is_open())
		pair_turn(&pair);
	send_half(BYTES / 2);
	assert_int_equal(pair_wait(&pair, &rx, 1, got), BYTES);
	flush();
	until_flushed(1);
	assert_memory_equal(device, pair.node[0].mem, BYTES);
	memset(device, 0x55, BYTES);
	placement_set(rail_ctx(MPIB_RAIL_SUP), PLACED);
	for (uint32_t i = 0; i < BYTES; i++)
		assert_int_equal(device[i], 0x55);
}

fixture_test(a_broken_qp_is_replaced_and_the_read_repeated)
{
	struct ibv_qp *broken = loopback(0)->qp;

	place_late();
	receive(BYTES, 8);
	fault_on(0, (struct mpib_soft_fault){ .delay_ns = 3600000000000u });
	flush();
	while (loopback(0)->usable)
		pair_turn(&pair);
	assert_ptr_equal(loopback(0)->qp, broken);
	fault_on(0, (struct mpib_soft_fault){ 0 });
	until_read_back(1);
	assert_true(loopback(0)->usable);
	assert_memory_equal(device, pair.node[0].mem, BYTES);
}

/* The first rail's device delays its flush reads, which it sends to itself, by
 * an hour. The lane has nothing to send meanwhile. */
fixture_test(a_flush_that_cannot_read_back_times_out)
{
	receive(BYTES, 9);
	fault_on(0, (struct mpib_soft_fault){ .delay_ns = 3600000000000u });
	flush();
	until_flushed(1);
	assert_false(loopback(0)->usable);
	flush();
	until_flushed(2);
	/* If more data arrives on the rail, the shard tries the read again. */
	fault_on(0, (struct mpib_soft_fault){ 0 });
	placement_set(rail_ctx(0), LATE);
	receive(BYTES, 10);
	flush();
	until_read_back(3);
	assert_memory_equal(device, pair.node[0].mem, BYTES);
}

fixture_test(a_flush_does_not_wait_for_a_lost_device)
{
	bool gone = false;

	receive(BYTES, 10);
	fault_both((struct mpib_soft_fault){ .black_hole = 1 });
	flush();
	pair_turns(&pair, 1000);
	fault_both((struct mpib_soft_fault){ .gone = 1 });
	until_broken(); /* without a peer link, this breaks the lane, too */
	assert_int_equal(mpib_mr_del(pair.node[1].engine_client, mr,
				     pair_set_flag, &gone),
			 0);
	pair_turns(&pair, 1000);
	engine_conn_destroy(rx.conn, pair_set_flag, &gone);
	pair_until(&pair, &gone);
	pair_turns(&pair, 1000);
}
