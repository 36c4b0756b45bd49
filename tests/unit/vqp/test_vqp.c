/* SPDX-License-Identifier: Apache-2.0 */
/* mpib/vqp.h where nothing fails: what each mode puts where, and reports. */
#include <arpa/inet.h>
#include <errno.h>

#include "rig.h"
#include "test.h"
#include "vqp/seq.h"

#define MIB (1u << 20)

static void start(enum mpib_vqp_mode mode, unsigned n, unsigned devices,
		  uint32_t frag, uint32_t cap)
{
	const struct mpib_vqp_attr attr = {
		.mode = mode, .n = n, .cap = cap, .frag = frag
	};

	rig_up(&rig, &attr, devices, 4 * MIB);
}

/* One message, and what both sides report of it. */
static void transfer(uint64_t off, uint64_t len, uint64_t wr_id)
{
	struct mpib_vwc wc;

	rig_fill(rig.tx.mem + off, len, (unsigned)wr_id);
	rig_recv(&rig, wr_id + 1000);
	assert_int_equal(rig_write(&rig, wr_id, off, len), 0);
	wc = rig_got(&rig);
	assert_int_equal(wc.wr_id, wr_id + 1000);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_true(wc.recv);
	assert_int_equal(wc.qp_num, 77);
	assert_memory_equal(rig.tx.mem + off, rig.rx.mem + off, len);
	if (rig.attr.mode != MPIB_VQP_SPRAY || rig.attr.n == 1)
		assert_int_equal(wc.bytes, len);
	wc = rig_sent(&rig);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_false(wc.recv);
}

static void every_mode_carries_every_size(void **state)
{
	static const uint64_t len[] = { 0,    1,       127,	    128,
					4096, 4097,    65536,	    65537,
					MIB,  MIB - 1, 3 * MIB + 17 };
	static const unsigned n[] = { 1, 2, 3, 8, 64 };

	for (unsigned mode = 0; mode < 3; mode++) {
		for (unsigned i = 0; i < 5 * 2; i++) {
			unsigned devices = 1 + i % 2;

			start((enum mpib_vqp_mode)mode, n[i / 2], devices, 4096,
			      16);
			for (unsigned k = 0; k < sizeof(len) / sizeof(len[0]);
			     k++)
				transfer(k * 100, len[k], k);
			rig_down(&rig);
		}
	}
}

static unsigned wrs_of(struct hca_qp **q, unsigned n)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += q[i]->wrs;
	return sum;
}

static void split_is_one_wr_a_device_on_128_bytes(void **state)
{
	const struct mpib_vqp_attr attr = {
		.mode = MPIB_VQP_SPLIT, .n = 4, .cap = 8, .weight = { 256, 768 }
	};

	rig_up(&rig, &attr, 2, 4 * MIB);
	for (unsigned i = 0; i < 4; i++)
		transfer(0, MIB + 1, i);
	assert_int_equal(wrs_of(rig.tx.data, 4), 8);
	/* Devices alternate over the QPs, and QPs of a device take turns. */
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(rig.tx.data[i]->wrs, 2);
	for (unsigned i = 0; i < 4; i++) {
		uint32_t len = rig.tx.data[i]->sq[0].sge[0].length;

		assert_int_equal(len, i % 2 ? MIB / 4 * 3 + 1 : MIB / 4);
	}
	/* Too little for a cut: one device has it all. */
	transfer(0, 100, 9);
	assert_int_equal(wrs_of(rig.tx.data, 4), 9);
}

static void spray_tells_only_when_all_data_is_answered(void **state)
{
	struct mpib_vwc wc;

	start(MPIB_VQP_SPRAY, 4, 1, 4096, 8);
	rig_recv(&rig, 1);
	assert_int_equal(rig_write(&rig, 2, 0, 4 * 4096), 0);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(rig.tx.data[i]->wrs, 1);
	assert_true(hca_step(rig.tx.data[0]));
	assert_true(hca_step(rig.tx.data[1]));
	assert_true(hca_step(rig.tx.data[3]));
	assert_int_equal(rig_poll(&rig.tx, &wc, 1), 0);
	assert_int_equal(rig.tx.notify[0]->wrs, 0);
	assert_true(hca_step(rig.tx.data[2]));
	assert_int_equal(rig_poll(&rig.tx, &wc, 1), 0);
	assert_int_equal(rig.tx.notify[0]->wrs, 1);
	assert_int_equal(rig.tx.notify[0]->sq[0].sge[0].length, 0);
	assert_true(hca_step(rig.tx.notify[0]));
	assert_int_equal(rig_poll(&rig.tx, &wc, 1), 1);
	assert_int_equal(rig_poll(&rig.rx, &wc, 1), 1);
}

/* Whoever sees the message sees what was written before it, as on a QP. */
static void splits_message_waits_for_writes_before_it(void **state)
{
	struct mpib_vwc wc;

	start(MPIB_VQP_SPLIT, 2, 1, 4096, 8);
	rig_fill(rig.tx.mem, 4096, 1);
	rig_recv(&rig, 1);
	assert_int_equal(rig_post(&rig, 2, IBV_WR_RDMA_WRITE, 0, 0, 4096), 0);
	assert_int_equal(rig_write(&rig, 3, 4096, 64), 0);
	assert_int_equal(rig.tx.data[0]->wrs, 1);
	assert_false(hca_step(rig.tx.data[1]));
	assert_int_equal(rig_poll(&rig.rx, &wc, 1), 0);
	assert_true(hca_step(rig.tx.data[0]));
	assert_int_equal(rig_poll(&rig.tx, &wc, 1), 0);
	assert_true(hca_step(rig.tx.data[1]));
	assert_int_equal(rig_poll(&rig.rx, &wc, 1), 1);
	assert_memory_equal(rig.tx.mem, rig.rx.mem, 4096);
	assert_int_equal(rig_sent(&rig).wr_id, 3);
	/* Those that nobody wrote before go one after the other. */
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(rig_write(&rig, i, 0, 64), 0);
	assert_int_equal(wrs_of(rig.tx.data, 2), 6);
}

static void dqplb_numbers_each_fragment_and_marks_the_last(void **state)
{
	start(MPIB_VQP_DQPLB, 4, 1, 4096, 8);
	transfer(0, 3 * 4096, 1);
	for (unsigned i = 0; i < 3; i++) {
		uint32_t imm = ntohl(rig.tx.data[i]->sq[0].wr.imm_data);

		assert_int_equal(imm & 0xffffff, i);
		assert_int_equal(imm >> 31, i == 2);
	}
}

static void a_turn_is_one_doorbell_a_qp(void **state)
{
	struct mpib_vcq_counts n;
	struct mpib_vwc wc;

	start(MPIB_VQP_DQPLB, 4, 1, 4096, 8);
	assert_int_equal(rig_write(&rig, 1, 0, 32 * 4096), 0);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(rig.tx.data[i]->posts, 1);
		assert_int_equal(rig.tx.data[i]->wrs, 8);
	}
	/* WRs that wait for room go out together as well. */
	for (uint64_t i = 2; i < 10; i++)
		assert_int_equal(rig_write(&rig, i, 0, 4096), 0);
	rig_steps(&rig, 1000);
	rig_poll(&rig.tx, &wc, 1);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(rig.tx.data[i]->posts, 2);
	mpib_vcq_read_counts(rig.tx.vcq, &n);
	assert_int_equal(n.doorbells, 8);
	assert_int_equal(n.wrs, 40);
}

static void completions_come_in_the_order_posted(void **state)
{
	struct mpib_vwc wc;

	for (unsigned mode = 0; mode < 3; mode++) {
		start((enum mpib_vqp_mode)mode, 8, 2, 4096, 4);
		for (uint64_t i = 0; i < 100; i++) {
			rig_recv(&rig, i);
			assert_int_equal(
				rig_write(&rig, i, 0, (i * 977) % 50000), 0);
		}
		for (uint64_t i = 0; i < 100; i++) {
			wc = rig_sent(&rig);
			assert_int_equal(wc.wr_id, i);
		}
		for (uint64_t i = 0; i < 100; i++) {
			wc = rig_got(&rig);
			assert_int_equal(wc.wr_id, i);
			if (mode != MPIB_VQP_SPRAY)
				assert_int_equal(wc.bytes, (i * 977) % 50000);
		}
		rig_down(&rig);
	}
}

/* Messages may come before anybody waits for one; the peer is held back when
 * they are more than fit. */
static void notices_wait_for_receives(void **state)
{
	struct mpib_vwc wc;

	for (unsigned mode = 0; mode < 3; mode++) {
		unsigned sent = 0, got = 0;

		start((enum mpib_vqp_mode)mode, 4, 1, 4096, 8);
		for (unsigned turn = 0; turn < 4000; turn++) {
			if (sent < 1000 && rig_write(&rig, sent, 0, 8) == 0)
				sent++;
			rig_steps(&rig, 4);
			rig_poll(&rig.tx, &wc, 1);
			assert_int_equal(rig_poll(&rig.rx, &wc, 1), 0);
		}
		assert_in_range(sent, 256, 999); /* held back */
		for (; got < 1000; got++) {
			rig_recv(&rig, got);
			while (sent < 1000 && rig_write(&rig, sent, 0, 8) == 0)
				sent++;
			wc = rig_got(&rig);
			assert_int_equal(wc.wr_id, got);
			while (rig_poll(&rig.tx, &wc, 1))
				;
		}
		rig_down(&rig);
	}
}

static void a_send_and_its_receive_pass_through_on_qp_0(void **state)
{
	struct mpib_vrecv r = { .wr_id = 5, .addr = 1, .length = 64 };
	struct mpib_vwc wc;

	start(MPIB_VQP_SPRAY, 4, 1, 4096, 8);
	assert_int_equal(mpib_vqp_post_recv(rig.rx.vqp, &r), 0);
	assert_int_equal(
		rig_post(&rig, 6, IBV_WR_SEND, IBV_SEND_SIGNALED, 0, 64), 0);
	assert_int_equal(rig.tx.data[0]->wrs, 1);
	wc = rig_got(&rig);
	assert_int_equal(wc.wr_id, 5);
	assert_int_equal(wc.bytes, 64);
	assert_int_equal(rig_sent(&rig).wr_id, 6);
}

static void a_send_waits_for_all_before_it(void **state)
{
	struct mpib_vrecv r = { .wr_id = 5, .addr = 1, .length = 64 };
	struct mpib_vwc wc;

	start(MPIB_VQP_SPRAY, 2, 1, 4096, 8);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(mpib_vqp_post_recv(rig.rx.vqp, &r), 0);
	assert_int_equal(rig_post(&rig, 1, IBV_WR_RDMA_WRITE, 0, 0, 8192), 0);
	assert_int_equal(rig_write(&rig, 2, 0, 0), 0);
	for (uint64_t i = 3; i < 6; i++)
		assert_int_equal(rig_post(&rig, i, IBV_WR_SEND,
					  IBV_SEND_SIGNALED, 0, 64),
				 0);
	assert_true(hca_step(rig.tx.data[0]));
	assert_int_equal(rig_poll(&rig.tx, &wc, 1), 0);
	assert_false(hca_step(rig.tx.data[0])); /* the WRITE is not whole */
	assert_true(hca_step(rig.tx.data[1]));
	assert_int_equal(rig_poll(&rig.tx, &wc, 1), 0);
	assert_false(hca_step(rig.tx.data[0])); /* nor has its notice come */
	assert_true(hca_step(rig.tx.notify[0]));
	assert_int_equal(rig_poll(&rig.tx, &wc, 1), 1);
	/* QP 0 keeps them in order. */
	assert_int_equal(rig.tx.data[0]->wrs, 4);
	for (uint64_t i = 3; i < 6; i++)
		assert_int_equal(rig_sent(&rig).wr_id, i);
}

/* A receive of the caller's would lie behind the mode's own empty ones. */
static void
sends_are_refused_where_they_would_take_a_modes_receive(void **state)
{
	const struct mpib_vrecv r = { .wr_id = 5, .addr = 1, .length = 64 };

	for (unsigned mode = 0; mode < 3; mode++) {
		int want = mode == MPIB_VQP_SPRAY ? 0 : -EINVAL;

		start((enum mpib_vqp_mode)mode, 2, 1, 4096, 8);
		assert_int_equal(mpib_vqp_post_recv(rig.rx.vqp, &r), want);
		assert_int_equal(rig_post(&rig, 6, IBV_WR_SEND,
					  IBV_SEND_SIGNALED, 0, 64),
				 want);
		rig_down(&rig);
	}
	start(MPIB_VQP_DQPLB, 1, 1, 4096, 8);
	assert_int_equal(mpib_vqp_post_recv(rig.rx.vqp, &r), 0);
}

static void a_single_qp_passes_the_imm_on(void **state)
{
	struct mpib_vwc wc;

	start(MPIB_VQP_DQPLB, 1, 1, 4096, 8);
	rig_recv(&rig, 1);
	assert_int_equal(rig_write(&rig, 2, 0, 100000), 0);
	assert_int_equal(rig.tx.data[0]->wrs, 1); /* not fragmented */
	wc = rig_got(&rig);
	assert_true(wc.has_imm);
	assert_int_equal(wc.imm, 0x1234);
	assert_int_equal(wc.bytes, 100000);
}

static void who_asks_for_no_completion_gets_none(void **state)
{
	start(MPIB_VQP_SPRAY, 4, 1, 4096, 8);
	assert_int_equal(rig_post(&rig, 1, IBV_WR_RDMA_WRITE, 0, 0, 9000), 0);
	assert_int_equal(rig_post(&rig, 2, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED,
				  0, 9000),
			 0);
	assert_int_equal(rig_sent(&rig).wr_id, 2);
	/* Inside, all are signalled: else nobody would know that they ended. */
	assert_true(rig.tx.data[0]->sq[0].wr.send_flags & IBV_SEND_SIGNALED);
}

const struct CMUnitTest test_list[] = {
	teardown_test(every_mode_carries_every_size),
	teardown_test(split_is_one_wr_a_device_on_128_bytes),
	teardown_test(spray_tells_only_when_all_data_is_answered),
	teardown_test(splits_message_waits_for_writes_before_it),
	teardown_test(dqplb_numbers_each_fragment_and_marks_the_last),
	teardown_test(a_turn_is_one_doorbell_a_qp),
	teardown_test(completions_come_in_the_order_posted),
	teardown_test(notices_wait_for_receives),
	teardown_test(a_send_and_its_receive_pass_through_on_qp_0),
	teardown_test(a_send_waits_for_all_before_it),
	teardown_test(sends_are_refused_where_they_would_take_a_modes_receive),
	teardown_test(a_single_qp_passes_the_imm_on),
	teardown_test(who_asks_for_no_completion_gets_none),
	{ 0 },
};
