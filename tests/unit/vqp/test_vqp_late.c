/* SPDX-License-Identifier: Apache-2.0 */
/* mpib/vqp.h over devices that place what they carried late: what a message has to
 * wait for, or to tell of, that was posted before it. */
#include "rig.h"
#include "test.h"

static struct mpib_vwc wc;

/* n QPs, of two devices in turn, both of which place data late. */
static void start_late(enum mpib_vqp_mode mode, unsigned n, bool replay)
{
	rig_start(&rig, mode, n, 2, replay);
	rig.rx.hca[0].lazy = rig.rx.hca[1].lazy = true;
	rig_fill(rig.tx.mem, 8192, 1);
	rig_recv(&rig, 1);
}

/* The WRITE is that message's, too, for whoever sees the message. */
static void a_notice_overtakes_no_earlier_write(void **state)
{
	static const enum mpib_vqp_mode modes[] = { MPIB_VQP_SPLIT,
						    MPIB_VQP_SPRAY };

	for (unsigned i = 0; i < 2; i++) {
		start_late(modes[i], 2, false);
		assert_int_equal(
			rig_post(&rig, 1, IBV_WR_RDMA_WRITE, 0, 0, 4096), 0);
		assert_int_equal(rig_write(&rig, 2, 4096, 64), 0);
		assert_int_equal(rig_got(&rig).wr_id, 1);
		assert_memory_equal(rig.tx.mem, rig.rx.mem, 4096);
		assert_int_equal(rig_sent(&rig).wr_id, 2);
		rig_down(&rig);
	}
}

static void a_notice_overtakes_nothing_that_was_replayed(void **state)
{
	for (unsigned write = 0; write < 2; write++) {
		start_late(MPIB_VQP_SPRAY, 2, true);
		if (write)
			assert_int_equal(rig_post(&rig, 1, IBV_WR_RDMA_WRITE, 0,
						  0, 4096),
					 0);
		assert_int_equal(rig_write(&rig, 2, 0, write ? 0 : 4096), 0);
		hca_break(rig.tx.data[0]);
		hca_break(rig.rx.data[0]);
		assert_int_equal(rig_poll(&rig.tx, &wc, 1), 0);
		assert_int_equal(mpib_vqp_replay(rig.tx.vqp), 0);
		assert_int_equal(rig_got(&rig).wr_id, 1);
		assert_memory_equal(rig.tx.mem, rig.rx.mem, 4096);
		assert_int_equal(rig_sent(&rig).wr_id, 2);
		rig_down(&rig);
	}
}

static void nor_does_a_message_of_split(void **state)
{
	start_late(MPIB_VQP_SPLIT, 4, true);
	/* Short ones go by the second device alone. */
	assert_int_equal(rig_post(&rig, 1, IBV_WR_RDMA_WRITE, 0, 0, 64), 0);
	assert_int_equal(rig_write(&rig, 2, 64, 64), 0);
	hca_break(rig.tx.data[1]);
	hca_break(rig.rx.data[1]);
	assert_int_equal(rig_poll(&rig.tx, &wc, 1), 0);
	assert_int_equal(mpib_vqp_replay(rig.tx.vqp), 0);
	assert_int_equal(rig.tx.data[0]->wrs, 1);
	assert_int_equal(rig_got(&rig).wr_id, 1);
	assert_memory_equal(rig.tx.mem, rig.rx.mem, 128);
	assert_int_equal(rig_sent(&rig).wr_id, 2);
}

/* Of the message whose notice was to be for it nobody hears. */
static void a_notice_that_was_lost_leaves_its_devices_to_the_next(void **state)
{
	start_late(MPIB_VQP_SPRAY, 2, false);
	assert_int_equal(rig_write(&rig, 1, 4096, 64), 0);
	assert_int_equal(rig_got(&rig).wr_id, 1);
	assert_int_equal(rig_sent(&rig).wr_id, 1);
	rig_recv(&rig, 2);
	assert_int_equal(rig_post(&rig, 1, IBV_WR_RDMA_WRITE, 0, 0, 4096), 0);
	assert_int_equal(rig_write(&rig, 2, 4096, 64), 0);
	hca_break(rig.tx.data[0]);
	wc = rig_sent(&rig);
	assert_int_equal(wc.wr_id, 2);
	assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(rig_write(&rig, 3, 4096, 0), 0);
	assert_int_equal(rig_got(&rig).wr_id, 2);
	assert_memory_equal(rig.tx.mem, rig.rx.mem, 4096);
	assert_int_equal(rig_sent(&rig).wr_id, 3);
}

/* The memory of what failed may be used again when a later message has come. */
static void nor_does_the_one_that_was_posted_already(void **state)
{
	start_late(MPIB_VQP_SPRAY, 4, false);
	/* By both devices, and then by the first alone. */
	assert_int_equal(rig_write(&rig, 1, 0, 8192), 0);
	assert_int_equal(rig_write(&rig, 2, 8192, 64), 0);
	hca_break(rig.tx.data[0]);
	wc = rig_sent(&rig);
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(rig_got(&rig).wr_id, 1);
	assert_memory_equal(rig.tx.mem + 4096, rig.rx.mem + 4096, 4096);
	assert_int_equal(rig_sent(&rig).wr_id, 2);
}

static void what_failed_half_posted_is_told_of_by_the_next(void **state)
{
	start_late(MPIB_VQP_SPRAY, 2, false);
	/* More than both QPs take. */
	assert_int_equal(rig_write(&rig, 1, 0, 20 * 4096), 0);
	assert_int_equal(rig.tx.data[1]->wrs, 8);
	while (hca_step(rig.tx.data[1]))
		;
	hca_break(rig.tx.data[0]);
	wc = rig_sent(&rig);
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(rig_write(&rig, 2, 8192, 0), 0);
	assert_int_equal(rig_got(&rig).wr_id, 1);
	assert_memory_equal(rig.tx.mem + 4096, rig.rx.mem + 4096, 4096);
	assert_int_equal(rig_sent(&rig).wr_id, 2);
}

static void a_send_waits_for_what_failed_half_posted(void **state)
{
	unsigned before;

	start_late(MPIB_VQP_SPRAY, 4, false);
	assert_int_equal(rig_write(&rig, 1, 0, 40 * 4096), 0);
	hca_break(rig.tx.data[1]);
	while (hca_step(rig.tx.data[0]))
		;
	assert_int_equal(rig_poll(&rig.tx, &wc, 1), 0);
	before = rig.tx.data[0]->wrs;
	assert_int_equal(
		rig_post(&rig, 2, IBV_WR_SEND, IBV_SEND_SIGNALED, 0, 64), 0);
	/* Two QPs have fragments yet. */
	assert_int_equal(rig.tx.data[0]->wrs, before);
	assert_int_equal(rig_sent(&rig).wr_id, 1);
	assert_int_equal(rig_poll(&rig.tx, &wc, 0), 0);
	assert_int_equal(rig.tx.data[0]->wrs, before + 1);
}

/* It tells of what was written by its device, and of nothing on another one. */
static void a_replayed_imm_stays_on_its_device(void **state)
{
	start_late(MPIB_VQP_SPLIT, 4, true);
	assert_int_equal(rig_post(&rig, 1, IBV_WR_RDMA_WRITE, 0, 0, 8192), 0);
	rig_steps(&rig, 2);
	assert_int_equal(rig_poll(&rig.tx, &wc, 1), 0);
	assert_int_equal(rig_write(&rig, 2, 8192, 0), 0);
	assert_int_equal(rig.tx.data[3]->wrs, 1);
	hca_break(rig.tx.data[3]);
	hca_break(rig.rx.data[3]);
	assert_int_equal(rig_poll(&rig.tx, &wc, 1), 0);
	assert_int_equal(mpib_vqp_replay(rig.tx.vqp), 0);
	assert_int_equal(rig_got(&rig).wr_id, 1);
	assert_memory_equal(rig.tx.mem, rig.rx.mem, 8192);
	assert_int_equal(rig_sent(&rig).wr_id, 2);
}

const struct CMUnitTest test_list[] = {
	teardown_test(a_notice_overtakes_no_earlier_write),
	teardown_test(a_notice_overtakes_nothing_that_was_replayed),
	teardown_test(nor_does_a_message_of_split),
	teardown_test(a_notice_that_was_lost_leaves_its_devices_to_the_next),
	teardown_test(nor_does_the_one_that_was_posted_already),
	teardown_test(what_failed_half_posted_is_told_of_by_the_next),
	teardown_test(a_send_waits_for_what_failed_half_posted),
	teardown_test(a_replayed_imm_stays_on_its_device),
	{ 0 },
};
