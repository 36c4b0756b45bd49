/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpib/vqp.h when a QP, a post or a receive fails. Numbers such as T1 and I1
 * name known issues in the design that vqp.h follows. Each test fails if the
 * code has the issue.
 */
#include <errno.h>

#include "rig.h"
#include "test.h"

static struct mpib_vwc wc;

static void start(enum mpib_vqp_mode mode, unsigned n)
{
	rig_start(&rig, mode, n, 1, false);
}

/* T1: the opcode of a failed completion has no meaning. hca_break() sets wrong
 * opcodes. */
teardown_test(t1_a_failed_completion_is_matched_to_its_own_wr)
{
	for (unsigned mode = 0; mode < 3; mode++) {
		start((enum mpib_vqp_mode)mode, 2);
		rig_recv(&rig, 7);
		assert_int_equal(rig_write(&rig, 3, 0, 8192), 0);
		for (unsigned i = 0; i < 2; i++)
			hca_break(rig.tx.data[i]);
		assert_int_equal(rig_poll(&rig.tx, &wc, 1), 1);
		assert_false(wc.recv);
		assert_int_equal(wc.wr_id, 3);
		assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
		for (unsigned i = 0; i < 2; i++)
			hca_break(rig.rx.data[i]);
		if (rig.rx.notify[0])
			hca_break(rig.rx.notify[0]);
		assert_int_equal(rig_poll(&rig.rx, &wc, 1), 1);
		assert_true(wc.recv);
		assert_int_equal(wc.wr_id, 7);
		assert_true(wc.status != IBV_WC_SUCCESS);
		rig_down(&rig);
	}
}

/* T2 */
teardown_test(t2_a_dead_qp_accepts_no_more_wrs)
{
	unsigned before;

	start(MPIB_VQP_SPRAY, 4);
	assert_int_equal(rig_write(&rig, 1, 0, 4096), 0);
	hca_break(rig.tx.data[0]);
	assert_int_equal(rig_poll(&rig.tx, &wc, 1), 1);
	assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(mpib_vqp_healthy(rig.tx.vqp), 3);
	before = rig.tx.data[0]->wrs;
	rig_recv(&rig, 1);
	assert_int_equal(rig_write(&rig, 2, 0, 100 * 4096), 0);
	wc = rig_got(&rig); /* the failed message used no sequence number */
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(rig_sent(&rig).wr_id, 2);
	assert_int_equal(rig.tx.data[0]->wrs, before);

	for (unsigned i = 1; i < 4; i++)
		hca_break(rig.tx.data[i]);
	/* The virtual QP does not know yet that its QPs are dead. It learns
	 * this when it posts to them. */
	assert_int_equal(rig_write(&rig, 3, 0, 100 * 4096), 0);
	wc = rig_sent(&rig);
	assert_int_equal(wc.wr_id, 3);
	assert_true(wc.status != IBV_WC_SUCCESS);
	assert_int_equal(rig_write(&rig, 4, 0, 8), -ENETDOWN);
}

/* T3: if only a part of a WR can be posted, the WR completes after that
 * part. */
teardown_test(t3_a_wr_posted_in_part_completes)
{
	start(MPIB_VQP_SPRAY, 2);
	rig.tx.data[1]->fail_post = ENOMEM;
	rig.tx.data[1]->fail_at = 1;
	assert_int_equal(rig_write(&rig, 1, 0, 6 * 4096), 0);
	assert_int_equal(rig.tx.data[0]->wrs, 3);
	assert_int_equal(rig.tx.data[1]->wrs, 1);
	/* Posted fragments of the message are still in flight. */
	assert_int_equal(rig_poll(&rig.tx, &wc, 1), 0);
	rig_steps(&rig, 100);
	assert_int_equal(rig_poll(&rig.tx, &wc, 1), 1);
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.status, IBV_WC_LOC_QP_OP_ERR);
	/* The peer must get no notice of the message. */
	assert_int_equal(rig.tx.notify[0]->wrs, 0);
	/* The next message must not use the QP that failed. */
	rig.tx.data[1]->fail_post = 0;
	rig_recv(&rig, 9);
	assert_int_equal(rig_write(&rig, 2, 0, 6 * 4096), 0);
	wc = rig_got(&rig);
	assert_int_equal(wc.wr_id, 9);
	assert_int_equal(rig.tx.data[1]->wrs, 1);
}

/* T4 */
teardown_test(t4_the_error_is_the_result_of_the_post_and_not_errno)
{
	for (unsigned mode = 0; mode < 3; mode++) {
		start((enum mpib_vqp_mode)mode, 2);
		rig.tx.data[0]->fail_post = ENOMEM;
		errno = EINTR; /* left by another call */
		assert_int_equal(rig_write(&rig, 1, 0, 8192), 0);
		rig_steps(&rig, 10);
		wc = rig_sent(&rig);
		assert_int_equal(wc.status, IBV_WC_LOC_QP_OP_ERR);
		assert_int_equal(wc.error, -ENOMEM);
		rig_down(&rig);
	}
}

/* T6: a notice that cannot be posted fails its WR. */
teardown_test(t6_a_notice_that_cannot_be_posted_fails_its_wr)
{
	start(MPIB_VQP_SPRAY, 4);
	rig.tx.notify[0]->fail_post = ENOMEM;
	assert_int_equal(rig_write(&rig, 1, 0, 9000), 0);
	wc = rig_sent(&rig);
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.status, IBV_WC_LOC_QP_OP_ERR);
	assert_int_equal(wc.error, -ENOMEM);
	assert_int_equal(rig_write(&rig, 2, 0, 9000), -ENETDOWN);
}

/* T6: notices that wait for room fail when their QP fails. */
teardown_test(t6_notices_that_waited_for_room_fail_too)
{
	start(MPIB_VQP_SPRAY, 4);
	for (uint64_t i = 0; i < 20; i++)
		assert_int_equal(rig_write(&rig, i, 0, 128), 0);
	for (unsigned i = 0; i < 50; i++) {
		for (unsigned k = 0; k < 4; k++)
			hca_step(rig.tx.data[k]);
		assert_int_equal(rig_poll(&rig.tx, &wc, 1), 0);
	}
	assert_int_equal(rig.tx.notify[0]->wrs, 8); /* the QP's limit of WRs */
	hca_break(rig.tx.notify[0]);
	for (uint64_t i = 0; i < 20; i++) {
		wc = rig_sent(&rig);
		assert_int_equal(wc.wr_id, i);
		assert_true(wc.status != IBV_WC_SUCCESS);
	}
}

/* T7: if a receive cannot be posted to a QP again, the waiting virtual receives
 * fail. */
teardown_test(t7_a_receive_that_cannot_be_posted_again_fails)
{
	for (unsigned mode = 0; mode < 3; mode++) {
		start((enum mpib_vqp_mode)mode, 2);
		rig_recv(&rig, 1);
		rig_recv(&rig, 2);
		assert_int_equal(rig_write(&rig, 1, 0, 100), 0);
		for (unsigned i = 0; i < 2; i++)
			rig.rx.data[i]->fail_recv = ENOMEM;
		if (rig.rx.notify[0])
			rig.rx.notify[0]->fail_recv = ENOMEM;
		wc = rig_got(&rig);
		assert_int_equal(wc.wr_id, 1);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		wc = rig_got(&rig);
		assert_int_equal(wc.wr_id, 2);
		assert_true(wc.status != IBV_WC_SUCCESS);
		rig_down(&rig);
	}
}

/* T10: each device may place its data at any time before its own IMM. */
teardown_test(t10_a_notice_does_not_overtake_data_of_another_device)
{
	for (unsigned mode = 0; mode < 3; mode++) {
		rig_start(&rig, (enum mpib_vqp_mode)mode, 4, 2, false);
		rig.rx.hca[0].lazy = rig.rx.hca[1].lazy = true;
		for (unsigned i = 0; i < 50; i++) {
			uint64_t len = 1 + (i * 7919) % 60000;

			rig_fill(rig.tx.mem, len, i);
			memset(rig.rx.mem, 0, len);
			rig_recv(&rig, i);
			assert_int_equal(rig_write(&rig, i, 0, len), 0);
			assert_int_equal(rig_got(&rig).wr_id, i);
			assert_memory_equal(rig.tx.mem, rig.rx.mem, len);
			assert_int_equal(rig_sent(&rig).wr_id, i);
		}
		rig_down(&rig);
	}
}

/* A posted receive for a SEND must not complete before QP 0 fails, no matter
 * which other QPs have failed, because QP 0 may still write to its memory. */
teardown_test(a_receive_for_a_send_fails_when_qp_0_fails)
{
	const struct mpib_vrecv pass = { .wr_id = 5, .addr = 1, .length = 64 };

	start(MPIB_VQP_SPRAY, 4);
	rig_recv(&rig, 4);
	assert_int_equal(mpib_vqp_post_recv(rig.rx.vqp, &pass), 0);
	hca_break(rig.rx.notify[0]);
	assert_int_equal(rig_poll(&rig.rx, &wc, 1), 1);
	assert_int_equal(wc.wr_id, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(rig_poll(&rig.rx, &wc, 1), 0);
	assert_int_equal(mpib_vqp_destroy(rig.rx.vqp), -EBUSY);
	hca_break(rig.rx.data[0]);
	assert_int_equal(rig_poll(&rig.rx, &wc, 1), 1);
	assert_int_equal(wc.wr_id, 5);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
}

/* After a send of a virtual QP has failed, the virtual QP must refuse receives,
 * too. */
teardown_test(a_virtual_qp_that_failed_refuses_receives)
{
	const struct mpib_vrecv more = { .wr_id = 8 };

	start(MPIB_VQP_DQPLB, 4);
	assert_int_equal(mpib_vqp_post_recv(rig.tx.vqp, &more), 0);
	assert_int_equal(rig_write(&rig, 1, 0, 8 * 4096), 0);
	hca_break(rig.tx.data[2]);
	/* The receive fails at once. The send waits for its other fragments. */
	assert_true(rig_sent(&rig).recv);
	assert_int_equal(rig_sent(&rig).status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(mpib_vqp_post_recv(rig.tx.vqp, &more), -ENETDOWN);
	assert_int_equal(mpib_vqp_healthy(rig.tx.vqp), 0);
}

teardown_test(a_cq_that_cannot_be_polled_is_an_error)
{
	rig_start(&rig, MPIB_VQP_DQPLB, 2, 2, false);
	rig_recv(&rig, 1);
	assert_int_equal(rig_write(&rig, 1, 0, 4096), 0);
	rig_steps(&rig, 1);
	rig.rx.hca[1].fail_poll = true;
	/* The completion of the other CQ is returned before the error. */
	assert_int_equal(rig_poll(&rig.rx, &wc, 1), 1);
	assert_int_equal(rig_poll(&rig.rx, &wc, 1), -EIO);
	rig.rx.hca[1].fail_poll = false;
	assert_int_equal(rig_poll(&rig.rx, &wc, 1), 0);
}
