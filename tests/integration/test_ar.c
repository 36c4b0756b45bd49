/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In networks with adaptive routing, a message is sent as a WRITE with the
 * payload, and then a WRITE_WITH_IMM without payload. The receiver must still
 * learn the exact size.
 */
#include "engine_pair.h"
#include "test.h"

#define MIB (1u << 20)
#define THRESHOLD 8192u

static struct pair pair;
static struct pair_end tx, rx;

/* spy_poll() records in `largest` the largest payload of a received
 * WRITE_WITH_IMM. */
static int (*real_poll)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
static uint32_t largest;

static int spy_poll(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	n = real_poll(cq, n, wc);
	for (int i = 0; i < n; i++) {
		if (wc[i].wr_id == 0 && wc[i].byte_len > largest)
			largest = wc[i].byte_len;
	}
	return n;
}

static void open_pair(enum mpib_ar_mode mode, uint8_t imm_version)
{
	struct mpib_engine_config cfg;

	mpib_engine_config_init(&cfg);
	cfg.ar = mode;
	cfg.ar_threshold = THRESHOLD;
	pair_open(&pair, &cfg, imm_version);
	pair_connect(&pair, 5, 0, &tx, &rx);
	largest = 0;
	for (unsigned r = 0; r < 2; r++) {
		struct ibv_context *ctx =
			pair.node[1].engine->shard[0].rail[r].ctx;

		real_poll = ctx->ops.poll_cq;
		ctx->ops.poll_cq = spy_poll;
	}
}

pair_test(sizes_are_exact_below_and_above_the_threshold)
{
	static const uint32_t size[] = { 0,
					 1,
					 THRESHOLD - 1,
					 THRESHOLD,
					 THRESHOLD + 1,
					 2 * THRESHOLD + 100,
					 65537,
					 5 * MIB + 3 };
	for (uint8_t v = MPIB_IMM_V1; v <= MPIB_IMM_V2; v++) {
		open_pair(MPIB_AR_ON, v);
		for (unsigned i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
			pair_transfer(&pair, &tx, &rx, (uint8_t)(i % 32),
				      size[i], size[i], size[i]);
			pair_transfer(&pair, &tx, &rx, (uint8_t)(i % 32),
				      size[i], size[i] + 1000, size[i]);
		}
		pair_close(&pair);
	}
}

static uint64_t requests_of(uint32_t len)
{
	struct mpib_snapshot *s = pair_snapshot(&pair, 0);
	uint64_t before = s->rail[0].n.tx_wrs + s->rail[1].n.tx_wrs, after;

	mpib_snapshot_free(s);
	largest = 0;
	pair_transfer(&pair, &tx, &rx, 0, len, len, len);
	s = pair_snapshot(&pair, 0);
	after = s->rail[0].n.tx_wrs + s->rail[1].n.tx_wrs;
	mpib_snapshot_free(s);
	return after - before;
}

pair_test(above_the_threshold_an_imm_carries_only_the_record)
{
	open_pair(MPIB_AR_ON, MPIB_IMM_V2);
	assert_int_equal(requests_of(THRESHOLD), 2); /* one request per rail */
	assert_int_equal(largest, THRESHOLD / 2);
	assert_int_equal(requests_of(THRESHOLD + 1), 4);
	assert_int_equal(largest, sizeof(struct mpib_record));
	assert_int_equal(requests_of(MIB), 4);
	assert_int_equal(largest, sizeof(struct mpib_record));
}

pair_test(a_receive_in_parts_completes_at_the_messages_end)
{
	struct mpib_desc d = {
		.op = MPIB_OP_RECV, .req = 4, .n = 1, .total = 65536, .tag = 7
	};
	uint32_t gen;

	open_pair(MPIB_AR_ON, MPIB_IMM_V2);
	/* The receive has four parts. The first message ends exactly at the end
	 * of the second part. The second message ends within the third part. */
	for (uint32_t len = 32768; len <= 40000; len += 40000 - 32768) {
		d.gen = ++rx.gen;
		d.mr = pair.node[1].mr;
		for (d.pos = 0; d.pos < d.total; d.pos += 16384) {
			d.off = PAIR_RX + d.pos;
			d.len = 16384;
			pair_push(&rx, &d);
		}
		gen = pair_post(&tx, MPIB_OP_SEND, 4, pair.node[0].mr, 4096,
				len, 7);
		assert_int_equal(pair_wait(&pair, &rx, 4, d.gen), len);
		assert_int_equal(pair_wait(&pair, &tx, 4, gen), len);
	}
}

pair_test(adaptive_routing_is_off_on_ethernet_by_default)
{
	open_pair(MPIB_AR_AUTO, MPIB_IMM_V2);
	assert_int_equal(requests_of(MIB), 2);
	assert_int_equal(largest, MIB / 2);
}
