/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test how the engine reports requests that wait. Each wait is counted once,
 * under its cause. A query returns the event that each request waits for. The
 * latencies of each request are counted once.
 */
#include "engine/conn/conn.h"
#include "engine/measure/times.h"
#include "engine_pair.h"
#include "test.h"

#define RX (PAIR_MEM / 2) /* offset of the receive buffers in a node's memory */

static struct pair pair;
static struct pair_end tx, rx;

static void open_with(uint32_t lane_window)
{
	struct mpib_engine_config cfg;

	mpib_engine_config_init(&cfg);
	cfg.lane_window = lane_window;
	pair_open(&pair, &cfg, MPIB_IMM_V2);
	pair_connect(&pair, 5, 0, &tx, &rx);
}

static int open_pair(void **state)
{
	open_with(8u << 20);
	return 0;
}

static int close_pair(void **state)
{
	pair_close(&pair);
	return 0;
}

static uint32_t send(uint8_t req, uint32_t len)
{
	return pair_post(&tx, MPIB_OP_SEND, req, pair.node[0].mr, 4096, len, 7);
}

static uint32_t receive(uint8_t req, uint32_t len)
{
	return pair_post(&rx, MPIB_OP_RECV, req, pair.node[1].mr, RX, len, 7);
}

static void keep(void *arg, struct mpib_snapshot *snap)
{
	*(struct mpib_snapshot **)arg = snap;
}

/* Return all active requests of a node. The caller frees the snapshot. */
static struct mpib_snapshot *requests(unsigned node)
{
	struct mpib_snapshot *snap = NULL;

	assert_int_equal(mpib_engine_snapshot_requests(pair.node[node].engine,
						       0, keep, &snap),
			 0);
	while (!snap)
		pair_turn(&pair);
	return snap;
}

static void the_one_request(unsigned node, enum mpib_last last, uint32_t bytes)
{
	struct mpib_snapshot *snap = requests(node);

	assert_int_equal(snap->requests, 1);
	assert_int_equal(snap->request[0].last, last);
	assert_int_equal(snap->request[0].bytes, bytes);
	mpib_snapshot_free(snap);
}

#define CASE(name) TEST_OF(name, open_pair, close_pair)

/* A write by a peer, such as a CTS, causes no event in the shard. So while a
 * request may wait for such a write, the shard must sleep only briefly. */
CASE(a_shard_sleeps_only_briefly_while_a_write_may_cause_no_event)
{
	const struct mpib_shard *s = &pair.node[0].engine->shard[0];
	uint32_t g;

	pair_turns(&pair, 200);
	assert_int_equal(mpib_sched_sleep_ms(s, 100), 100);
	g = send(0, 1000);
	pair_turns(&pair, 200);
	/* The send waits for a CTS. */
	assert_int_equal(mpib_sched_sleep_ms(s, 100), 1);
	receive(0, 1000);
	assert_int_equal(pair_wait(&pair, &tx, 0, g), 1000);
	pair_turns(&pair, 200);
	assert_int_equal(mpib_sched_sleep_ms(s, 100), 100);
}

CASE(a_send_without_a_receive_counts_as_one_wait)
{
	struct mpib_snapshot *snap;
	uint32_t g_tx, g_rx;

	g_tx = send(0, 5000);
	pair_turns(&pair, 200);
	snap = pair_snapshot(&pair, 0);
	assert_int_equal(snap->conn[0].stalls[MPIB_STALL_CTS], 1);
	assert_true(snap->conn[0].stall_ns[MPIB_STALL_CTS] > 0);
	assert_true(snap->conn[0].oldest_ns > 0);
	mpib_snapshot_free(snap);
	the_one_request(0, MPIB_LAST_NO_CTS, 5000);

	g_rx = receive(0, 5000);
	assert_int_equal(pair_wait(&pair, &rx, 0, g_rx), 5000);
	assert_int_equal(pair_wait(&pair, &tx, 0, g_tx), 5000);
	snap = pair_snapshot(&pair, 0);
	assert_int_equal(snap->conn[0].stalls[MPIB_STALL_CTS], 1);
	assert_int_equal(snap->conn[0].oldest_ns, 0);
	mpib_snapshot_free(snap);
}

CASE(a_receive_without_a_send_waits_for_its_sender)
{
	uint32_t g_rx, g_tx;

	g_rx = receive(3, 100);
	pair_turns(&pair, 200);
	the_one_request(1, MPIB_LAST_NO_SENDER, 100);
	g_tx = send(3, 100);
	assert_int_equal(pair_wait(&pair, &rx, 3, g_rx), 100);
	assert_int_equal(pair_wait(&pair, &tx, 3, g_tx), 100);
}

CASE(sends_behind_a_waiting_send_are_queued)
{
	struct mpib_snapshot *snap;

	send(0, 64);
	send(1, 64);
	pair_turns(&pair, 200);
	snap = requests(0);
	assert_int_equal(snap->requests, 2);
	assert_int_equal(snap->request[0].last, MPIB_LAST_NO_CTS);
	assert_int_equal(snap->request[1].last, MPIB_LAST_QUEUED);
	mpib_snapshot_free(snap);
}

static void tagged(uint8_t req, int32_t tag)
{
	pair_post(&tx, MPIB_OP_SEND, req, pair.node[0].mr, 0, 64, tag);
}

static enum mpib_last last_of(const struct mpib_snapshot *snap, unsigned i)
{
	return snap->request[i].last;
}

CASE(each_send_shows_what_it_waits_for)
{
	struct mpib_snapshot *snap;

	pair_post_group(&rx, 0, 2, pair.node[1].mr, PAIR_RX, 64, 100);
	pair_post_group(&rx, 1, 2, pair.node[1].mr, PAIR_RX + 1 * 4096, 64,
			100);
	pair_post_group(&rx, 2, 1, pair.node[1].mr, PAIR_RX + 2 * 4096, 64,
			200);
	tagged(0, 300); /* a send without a receive */
	tagged(1, 100); /* a send for the first group */
	tagged(2, 100); /* a send for the second group */
	tagged(3, 100); /* a third send with tag 100, without a receive */
	tagged(4, 200); /* a send for the receive after the groups */
	pair_turns(&pair, 200);
	snap = requests(0);
	assert_int_equal(snap->requests, 5);
	assert_int_equal(last_of(snap, 0), MPIB_LAST_NO_CTS);
	assert_int_equal(last_of(snap, 1), MPIB_LAST_NO_GROUP);
	assert_int_equal(last_of(snap, 2), MPIB_LAST_QUEUED);
	assert_int_equal(last_of(snap, 3), MPIB_LAST_QUEUED);
	assert_int_equal(last_of(snap, 4), MPIB_LAST_QUEUED);
	mpib_snapshot_free(snap);

	tagged(5, 101);
	tagged(6, 101);
	pair_turns(&pair, 200);
	snap = requests(0);
	assert_int_equal(snap->requests, 2);
	assert_int_equal(last_of(snap, 0), MPIB_LAST_NO_CTS);
	assert_int_equal(last_of(snap, 1), MPIB_LAST_NO_CTS);
	mpib_snapshot_free(snap);
	assert_int_equal(pair.node[0].broken + pair.node[1].broken, 0);
}

CASE(a_receive_waits_for_its_sender_while_sends_have_other_tags)
{
	tagged(0, 300);
	pair_post_group(&rx, 3, 1, pair.node[1].mr, PAIR_RX + 3 * 4096, 64,
			200);
	pair_turns(&pair, 200);
	the_one_request(0, MPIB_LAST_NO_CTS, 64);
	the_one_request(1, MPIB_LAST_NO_SENDER, 64);
}

CASE(a_young_request_is_not_listed)
{
	struct mpib_snapshot *snap = NULL;

	send(0, 64);
	pair_turns(&pair, 200);
	assert_int_equal(mpib_engine_snapshot_requests(pair.node[0].engine,
						       3600ull * 1000000000ull,
						       keep, &snap),
			 0);
	while (!snap)
		pair_turn(&pair);
	assert_int_equal(snap->requests, 0);
	assert_int_equal(snap->more_requests, 0);
	mpib_snapshot_free(snap);
}

CASE(a_full_lane_is_reported_as_the_cause)
{
	uint32_t g_rx[4], g_tx[4];
	struct mpib_snapshot *snap;

	pair_close(&pair);
	open_with(4096);
	for (uint8_t i = 0; i < 4; i++)
		g_rx[i] = receive(i, 1 << 20);
	pair_turns(&pair, 200);
	for (uint8_t i = 0; i < 4; i++)
		g_tx[i] = send(i, 1 << 20);
	for (uint8_t i = 0; i < 4; i++) {
		assert_int_equal(pair_wait(&pair, &rx, i, g_rx[i]), 1 << 20);
		assert_int_equal(pair_wait(&pair, &tx, i, g_tx[i]), 1 << 20);
	}
	snap = pair_snapshot(&pair, 0);
	assert_true(snap->conn[0].stalls[MPIB_STALL_WINDOW] > 0);
	assert_true(snap->conn[0].stalls[MPIB_STALL_WINDOW] <= 3);
	mpib_snapshot_free(snap);
}

static uint64_t counted(unsigned node, bool sender, enum mpib_time which)
{
	struct mpib_hist_counts h = { 0 };

	mpib_engine_times(pair.node[node].engine, sender, which, &h);
	return h.count;
}

CASE(each_request_is_timed_once)
{
	uint32_t g_rx, g_tx;

	for (unsigned i = 0; i < 10; i++) {
		g_rx = receive(0, 1 << 20);
		g_tx = send(0, 1 << 20);
		pair_wait(&pair, &rx, 0, g_rx);
		pair_wait(&pair, &tx, 0, g_tx);
	}
	assert_int_equal(counted(0, true, MPIB_TIME_SUBMIT_POST), 10);
	assert_int_equal(counted(0, true, MPIB_TIME_SUBMIT_DONE), 10);
	assert_int_equal(counted(0, false, MPIB_TIME_SUBMIT_DONE), 0);
	assert_int_equal(counted(1, false, MPIB_TIME_SUBMIT_POST), 10);
	assert_int_equal(counted(1, false, MPIB_TIME_SUBMIT_DONE), 10);
	assert_true(counted(0, true, MPIB_TIME_POST_SOUT) +
			    counted(0, true, MPIB_TIME_POST_SUP) >=
		    10);
}

CASE(the_counts_of_chains_posts_and_messages_agree)
{
	const struct mpib_snap_conn *f;
	struct mpib_snapshot *snap;
	uint32_t g_rx, g_tx;

	for (unsigned i = 0; i < 5; i++) {
		g_rx = receive(0, 1 << 20);
		g_tx = send(0, 1 << 20);
		pair_wait(&pair, &rx, 0, g_rx);
		pair_wait(&pair, &tx, 0, g_tx);
	}
	snap = pair_snapshot(&pair, 0);
	f = &snap->conn[0];
	assert_int_equal(f->messages, 5);
	assert_int_equal(snap->lane[0].messages, 5);
	for (unsigned r = 0; r < 2; r++) {
		assert_int_equal(f->n[r].posts, snap->rail[r].n.posts);
		assert_int_equal(f->n[r].posts, snap->rail[r].posts);
		assert_int_equal(f->n[r].posts, snap->lane[0].n[r].posts);
		assert_int_equal(f->n[r].tx_imms, f->n[r].posts);
		assert_int_equal(f->n[r].tx_cqes, f->n[r].posts);
	}
	mpib_snapshot_free(snap);
}

/* After a fence, the receiver writes each CTS again, because it may have been
 * lost. It must not write the CTS of slots that have completed. */
CASE(a_reused_slot_shows_only_its_new_request)
{
	struct engine_conn *f = rx.conn;

	for (unsigned i = 0; i < 3; i++)
		pair_transfer(&pair, &tx, &rx, 1, 64, 64, i);
	assert_int_equal(f->rx.tail, 3);
	/* Act as if a new request had taken this number, but had posted nothing
	 * yet. */
	f->req[1].posted = false;
	f->rx.cts_again = 0;
	assert_int_equal(mpib_receiver_post_cts(f), 0);
	assert_false(f->req[1].posted);
	pair_turns(&pair, 200);
	pair_transfer(&pair, &tx, &rx, 1, 64, 64, 9);
}
