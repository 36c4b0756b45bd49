/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpib/vqp.h over real verbs, with several QPs per device. In each mode, the
 * bytes of a message must be placed before its receive completes, and each
 * message must arrive exactly once and in order.
 */
#include <errno.h>

#include "verbs/soft/soft.h"
#include "vqp_pair.h"

#define MIB (1u << 20)
#define HEAD 64u

#define CASE(name) TEST_OF(name, vv_setup, vv_teardown)

CASE(messages_of_every_size_arrive_in_every_mode)
{
	static const uint32_t size[] = { 0,    1,    127,    128,     4095,
					 4096, 4097, 100000, MIB - 1, MIB };
	struct mpib_vwc wc;

	for (unsigned m = 0; m < 3; m++) {
		vv_start((enum mpib_vqp_mode)m, VV_QPS, 0, false);
		for (unsigned i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
			vt_fill(vv_tx.mem, size[i], m * 100 + i);
			assert_int_equal(vv_want(i), 0);
			assert_int_equal(vv_post(i, 0, size[i]), 0);
			while (!vv_poll_side(&vv_rx, &wc))
				vv_poll_side(&vv_tx, &wc);
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			assert_memory_equal(vv_tx.mem, vv_rx.mem, size[i]);
			assert_int_equal(wc.bytes,
					 m == MPIB_VQP_SPRAY ? 0 : size[i]);
			vv_finish(i + 1, false);
		}
		assert_int_equal(vv_tx.failed + vv_rx.failed, 0);
		vv_stop();
	}
}

/* Sizes are random, 16 messages are in flight, and receives are posted late. */
CASE(messages_keep_their_order)
{
	enum {
		N = 300,
		SLOTS = 16,
		SLOT = VV_BYTES / SLOTS
	};
	uint64_t seed = 77, sent = 0, wanted = 0;
	uint32_t size[SLOTS] = { 0 };
	struct mpib_vwc wc;

	for (unsigned m = 0; m < 3; m++) {
		vv_start((enum mpib_vqp_mode)m, VV_QPS, 0, false);
		for (sent = wanted = 0; vv_rx.done < N;) {
			unsigned k = sent % SLOTS;

			if (sent < N && sent - vv_tx.done < SLOTS &&
			    sent - vv_rx.done < SLOTS) {
				size[k] = (uint32_t)(vt_rand(&seed) % SLOT);
				vt_fill(vv_tx.mem + k * SLOT, size[k], sent);
				assert_int_equal(
					vv_post(sent, k * SLOT, size[k]), 0);
				sent++;
			}
			if (wanted < sent && vt_rand(&seed) % 4 == 0)
				assert_int_equal(vv_want(wanted++), 0);
			vv_poll_side(&vv_tx, &wc);
			k = vv_rx.done % SLOTS;
			if (vv_poll_side(&vv_rx, &wc))
				assert_memory_equal(vv_tx.mem + k * SLOT,
						    vv_rx.mem + k * SLOT,
						    size[k]);
		}
		vv_finish(N, false);
		assert_int_equal(vv_tx.failed + vv_rx.failed, 0);
		vv_stop();
	}
}

CASE(a_head_is_placed_before_its_payload)
{
	static const uint32_t size[] = { 0, 100, 5 * VV_FRAG + 1 };

	for (unsigned m = MPIB_VQP_SPRAY; m <= MPIB_VQP_DQPLB; m++) {
		vv_start((enum mpib_vqp_mode)m, VV_QPS, 0, false);
		vt_fill(vv_tx.mem, MIB, m);
		for (unsigned i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
			struct mpib_vsend w = vv_send_of(i, HEAD, size[i]);

			/* The head comes from the end of the memory, which is
			 * not part of the payload. */
			w.remote -= HEAD;
			w.head.local =
				(uint64_t)(uintptr_t)vv_tx.mem + MIB - HEAD;
			w.head.length = HEAD;
			for (unsigned d = 0; d < MPIB_VQP_DEVICES; d++)
				w.head.lkey[d] = vv_tx.mr[d]->lkey;
			assert_int_equal(vv_want(i), 0);
			assert_int_equal(mpib_vqp_post_send(vv_tx.vqp, &w), 0);
			vv_finish(i + 1, false);
			assert_memory_equal(vv_rx.mem, vv_tx.mem + MIB - HEAD,
					    HEAD);
			assert_memory_equal(vv_rx.mem + HEAD, vv_tx.mem + HEAD,
					    size[i]);
		}
		assert_int_equal(vv_tx.failed + vv_rx.failed, 0);
		vv_stop();
	}
}

CASE(a_send_can_be_mixed_with_messages)
{
	struct mpib_vsend w;
	struct mpib_vrecv r;

	vv_start(MPIB_VQP_SPRAY, VV_QPS, 0, false);
	vt_fill(vv_tx.mem, MIB, 9);
	r = (struct mpib_vrecv){ .wr_id = 0,
				 .addr = (uint64_t)(uintptr_t)vv_rx.mem + MIB,
				 .length = 500,
				 .lkey = vv_rx.mr[0]->lkey };
	assert_int_equal(mpib_vqp_post_recv(vv_rx.vqp, &r), 0);
	assert_int_equal(vv_want(1), 0);
	w = vv_send_of(0, 1000, 500);
	w.opcode = IBV_WR_SEND;
	assert_int_equal(mpib_vqp_post_send(vv_tx.vqp, &w), 0);
	assert_int_equal(vv_post(1, 0, 100000), 0);
	vv_finish(2, false);
	assert_int_equal(vv_tx.failed + vv_rx.failed, 0);
	assert_memory_equal(vv_rx.mem + MIB, vv_tx.mem + 1000, 500);
	assert_memory_equal(vv_rx.mem, vv_tx.mem, 100000);
	vv_stop();
}

static void break_qp(unsigned i)
{
	struct vt *t = vv_dev[i % MPIB_VQP_DEVICES];

	assert_int_equal(vt_to(t, vv_tx.data[i], IBV_QPS_ERR), 0);
	assert_int_equal(vt_to(t, vv_rx.data[i], IBV_QPS_ERR), 0);
}

/* Two QPs, of one device or of both, break at any moment. The fragments of the
 * broken QPs are sent again over other QPs, and every message must arrive
 * exactly once. */
CASE(a_replay_neither_loses_nor_repeats_a_message)
{
	enum {
		N = 16,
		LEN = VV_BYTES / N
	};
	struct mpib_vcq_counts n;
	struct mpib_vwc wc;

	for (unsigned round = 0; round < 40; round++) {
		vv_start(round & 1 ? MPIB_VQP_SPRAY : MPIB_VQP_DQPLB, VV_QPS, 0,
			 true);
		vt_fill(vv_tx.mem, VV_BYTES, round);
		for (unsigned i = 0; i < N; i++) {
			assert_int_equal(vv_want(i), 0);
			assert_int_equal(vv_post(i, i * (size_t)LEN, LEN), 0);
		}
		for (unsigned i = 0; i < round / 2; i++) {
			vv_poll_side(&vv_tx, &wc);
			if (round % 3)
				vv_poll_side(&vv_rx, &wc);
		}
		break_qp(round % VV_QPS);
		break_qp((round + 1 + round % 4) % VV_QPS);
		vv_finish(N, true);
		assert_int_equal(vv_tx.failed + vv_rx.failed, 0);
		assert_memory_equal(vv_rx.mem, vv_tx.mem, VV_BYTES);
		mpib_vcq_read_counts(vv_tx.vcq, &n);
		/* If the device moves bytes only in the test's turns, all
		 * fragments were still in flight in the first rounds. */
		assert_true(n.replayed > 0 || round > 1 ||
			    !vv_dev[0]->can_fault);
		assert_true(mpib_vqp_healthy(vv_tx.vqp) >= VV_QPS - 2);
		vv_stop();
	}
}

CASE(without_replays_a_broken_qp_fails_both_ends)
{
	enum {
		N = 16,
		LEN = VV_BYTES / N
	};

	/* A device that moves bytes by itself may already have sent
	 * everything. */
	if (!vv_dev[0]->can_fault)
		skip();
	for (unsigned m = 0; m < 3; m++) {
		vv_start((enum mpib_vqp_mode)m, VV_QPS, 0, false);
		for (unsigned i = 0; i < N; i++) {
			assert_int_equal(vv_want(i), 0);
			assert_int_equal(vv_post(i, i * (size_t)LEN, LEN), 0);
		}
		for (unsigned i = 0; i < VV_QPS; i++)
			break_qp(i);
		for (unsigned d = 0; d < MPIB_VQP_DEVICES; d++) {
			if (vv_rx.notify[d])
				vt_to(vv_dev[d], vv_rx.notify[d], IBV_QPS_ERR);
		}
		vv_finish(N, false);
		assert_true(vv_tx.failed && vv_rx.failed);
		assert_int_equal(mpib_vqp_healthy(vv_tx.vqp), 0);
		assert_int_equal(mpib_vqp_healthy(vv_rx.vqp), 0);
		assert_int_equal(vv_post(N, 0, 1), -ENETDOWN);
		assert_int_equal(vv_want(N), -ENETDOWN);
		vv_stop();
	}
}

/* One device stalls with WRs in flight while the other continues. The sender
 * must stop using new sequence numbers before the receiver could lose one. */
CASE(a_stalled_device_loses_no_message)
{
	enum {
		N = 20000,
		SPAN = 8192,
		LEN = 16
	};
	const struct mpib_soft_fault hole = { .black_hole = 1 };
	const struct mpib_soft_fault none = { .black_hole = 0 };
	int64_t limit = vt_ms() + 60000;
	uint64_t sent = 0, wanted = 0, before = 0;
	unsigned still = 0; /* number of polls since the last new fragment */
	struct mpib_vcq_counts n;
	struct mpib_vwc wc;
	bool held = true;

	if (!vv_dev[1]->can_fault)
		skip();
	vv_opt.timeout = 0; /* never */
	vv_start(MPIB_VQP_DQPLB, VV_QPS, 2 * SPAN, false);
	assert_int_equal(mpib_soft_set_fault(vv_dev[1]->a.ctx, &hole), 0);
	while (vv_tx.done < N || vv_rx.done < N) {
		for (int rc = 0; rc == 0 && sent < N; sent += rc == 0)
			rc = vv_post(sent, 0, LEN);
		for (int rc = 0; rc == 0 && wanted < N; wanted += rc == 0)
			rc = vv_want(wanted);
		while (vv_poll_side(&vv_tx, &wc))
			;
		while (vv_poll_side(&vv_rx, &wc))
			assert_int_equal(wc.bytes, LEN);
		mpib_vcq_read_counts(vv_tx.vcq, &n);
		still = n.wrs == before ? still + 1 : 0;
		before = n.wrs;
		/* If the working device carried fragment 0 and completed it,
		 * the sender may have used SPAN + 1 sequence numbers. */
		if (held)
			assert_in_range(n.wrs, 0, SPAN + 1);
		if (held && still > 1000) {
			assert_true(n.wrs >= SPAN);
			assert_int_equal(
				mpib_soft_set_fault(vv_dev[1]->a.ctx, &none),
				0);
			held = false;
		}
		assert_true(vt_ms() < limit);
	}
	assert_false(held);
	assert_int_equal(vv_tx.failed + vv_rx.failed, 0);
	assert_int_equal(mpib_vqp_late(vv_rx.vqp), 0);
	vv_stop();
}
