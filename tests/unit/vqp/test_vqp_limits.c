/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpib/vqp.h at its limits: refused arguments, bounds, and completions that
 * belong to no request. Numbers such as T1 and I23 name known issues in the
 * design that vqp.h follows. Each test fails if the code has the issue.
 */
#include <errno.h>

#include "rig.h"
#include "test.h"
#include "vqp/seq.h"

static struct mpib_vwc wc;

static struct mpib_vqp_attr attr_of(struct mpib_vqp_qp *qp, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		qp[i] = (struct mpib_vqp_qp){ &rig.tx.data[0]->qp, 0 };
	return (struct mpib_vqp_attr){
		.mode = MPIB_VQP_SPLIT, .n = n, .qp = qp, .cap = 8
	};
}

/* T5, T20: sizes of messages have 64 bits until they are divided into
 * fragments. */
teardown_test(t5_sizes_of_64_bits_are_not_truncated_and_are_checked)
{
	struct mpib_vqp_qp qp[2];
	struct mpib_vqp_attr a;
	struct mpib_vqp *v;

	rig_start(&rig, MPIB_VQP_SPLIT, 2, 1, false);
	assert_int_equal(rig_write(&rig, 1, 0, (1ull << 32) + 1), -EMSGSIZE);
	a = attr_of(qp, 2);
	a.frag = MPIB_VQP_FRAG_MAX + 128;
	assert_int_equal(mpib_vqp_create(rig.tx.vcq, &a, &v), -EINVAL);
	/* fragments of this size would divide lines of 128 bytes, but LL128
	 * needs whole lines */
	a.frag = 100;
	assert_int_equal(mpib_vqp_create(rig.tx.vcq, &a, &v), -EINVAL);
	rig_down(&rig);

	/* 8 GiB are divided into fragments, most of which wait for room. */
	rig_start(&rig, MPIB_VQP_SPRAY, 2, 1, false);
	assert_int_equal(rig_post(&rig, 1, IBV_WR_SEND, IBV_SEND_SIGNALED, 0,
				  1ull << 32),
			 -EMSGSIZE);
	assert_int_equal(rig_write(&rig, 1, 0, 8ull << 30), 0);
	for (unsigned i = 0; i < 8; i++) {
		const struct hca_wr *w = &rig.tx.data[1]->sq[i];

		assert_int_equal(w->sge[0].length, 4096);
		assert_int_equal(w->wr.wr.rdma.remote_addr,
				 (uint64_t)(uintptr_t)rig.rx.mem +
					 (2ull * i + 1) * 4096);
	}
}

teardown_test(no_wr_is_longer_than_the_devices_maximum)
{
	struct mpib_vqp_attr attr = {
		.mode = MPIB_VQP_SPLIT, .n = 2, .cap = 8, .message = 8192
	};
	struct mpib_vqp_qp qp[2];
	struct mpib_vqp *v;

	rig_up(&rig, &attr, 2, 1 << 20);
	assert_int_equal(rig_write(&rig, 1, 0, 16384 + 512), -EMSGSIZE);
	rig_recv(&rig, 2);
	assert_int_equal(rig_write(&rig, 1, 0, 16384), 0);
	assert_int_equal(rig.tx.data[0]->sq[0].sge[0].length, 8192);
	assert_int_equal(rig.tx.data[1]->sq[0].sge[0].length, 8192);
	assert_int_equal(rig_sent(&rig).status, IBV_WC_SUCCESS);
	assert_int_equal(rig_got(&rig).bytes, 16384);
	rig_down(&rig);

	/* Fragments have the same limit in this mode. */
	attr.mode = MPIB_VQP_DQPLB;
	rig_up(&rig, &attr, 1, 1 << 20);
	assert_int_equal(rig_write(&rig, 1, 0, 20000), 0);
	assert_int_equal(rig.tx.data[0]->sq[0].sge[0].length, 8192);
	rig_down(&rig);

	attr = attr_of(qp, 2);
	attr.message = 8192;
	attr.frag = 8320;
	rig_start(&rig, MPIB_VQP_SPLIT, 2, 1, false);
	assert_int_equal(mpib_vqp_create(rig.tx.vcq, &attr, &v), -EINVAL);
	attr.message = 100;
	attr.frag = 0;
	assert_int_equal(mpib_vqp_create(rig.tx.vcq, &attr, &v), -EINVAL);
}

/* T9 */
teardown_test(t9_a_poll_takes_a_bounded_number_of_completions)
{
	struct mpib_vcq_counts n;
	struct ibv_wc stray = { .wr_id = 1ull << 56, .qp_num = 5555 };

	rig_start(&rig, MPIB_VQP_SPLIT, 2, 1, false);
	for (unsigned i = 0; i < 1000; i++)
		hca_forge(&rig.tx.hca[0], &stray);
	rig_poll(&rig.tx, &wc, 1);
	mpib_vcq_read_counts(rig.tx.vcq, &n);
	assert_int_equal(n.cqes, 256);
}

/* T11 */
teardown_test(t11_nothing_in_flight_outlives_its_virtual_qp)
{
	struct mpib_vcq_counts n;
	struct ibv_wc stray = { .qp_num = 9999, .wr_id = 1ull << 56 };

	rig_start(&rig, MPIB_VQP_SPRAY, 2, 1, false);
	assert_int_equal(rig_write(&rig, 1, 0, 9000), 0);
	assert_int_equal(mpib_vqp_destroy(rig.tx.vqp), -EBUSY);
	/* An unknown QP number, or an unknown wr_id of a known QP, must not
	 * cause a crash. */
	hca_forge(&rig.tx.hca[0], &stray);
	stray.qp_num = rig.tx.data[0]->qp.qp_num;
	hca_forge(&rig.tx.hca[0], &stray);
	stray.wr_id = 0;
	hca_forge(&rig.tx.hca[0], &stray);
	rig_poll(&rig.tx, &wc, 1);
	mpib_vcq_read_counts(rig.tx.vcq, &n);
	assert_int_equal(n.unknown, 3);
	rig_recv(&rig, 1);
	assert_int_equal(rig_got(&rig).wr_id, 1);
}

/* T12: SENDs use only QP 0 and respect its cap. */
teardown_test(t12_outstanding_sends_are_bounded)
{
	rig_start(&rig, MPIB_VQP_SPRAY, 4, 1, false);
	for (uint64_t i = 0; i < 256; i++)
		assert_int_equal(
			rig_post(&rig, i, IBV_WR_SEND, IBV_SEND_SIGNALED, 0, 8),
			0);
	assert_int_equal(rig.tx.data[0]->wrs, 8);
	assert_int_equal(
		rig_post(&rig, 256, IBV_WR_SEND, IBV_SEND_SIGNALED, 0, 8),
		-EAGAIN);
}

/* T13, T15, T18 */
teardown_test(requests_whose_completion_could_not_be_seen_are_refused)
{
	struct mpib_vsend w = { .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				.flags = IBV_SEND_SIGNALED,
				.length = 8,
				.local = (uint64_t)(uintptr_t)&w,
				.devices = 1 };

	for (unsigned mode = 0; mode < 3; mode++) {
		rig_start(&rig, (enum mpib_vqp_mode)mode, 4, 2, false);
		assert_int_equal(
			rig_post(&rig, 1, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 0, 8),
			-EINVAL);
		assert_int_equal(rig_post(&rig, 1, IBV_WR_RDMA_READ,
					  IBV_SEND_SIGNALED, 0, 8),
				 -EINVAL);
		assert_int_equal(rig_post(&rig, 1, IBV_WR_RDMA_WRITE,
					  IBV_SEND_SIGNALED, 0, 8),
				 mode == MPIB_VQP_DQPLB ? -EINVAL : 0);
		/* The request has keys only for one device, but may use both
		 * devices. */
		assert_int_equal(mpib_vqp_post_send(rig.tx.vqp, &w), -EINVAL);
		rig_steps(&rig, 10);
		rig_down(&rig);
	}
}

/* The virtual CQ would not see the completions of such a QP. */
teardown_test(a_qp_with_other_cqs_is_refused)
{
	struct mpib_vqp_qp qp[2];
	struct mpib_vqp_attr a;
	struct mpib_vqp *v;

	rig_start(&rig, MPIB_VQP_SPLIT, 2, 2, false);
	a = attr_of(qp, 2);
	for (unsigned i = 0; i < 2; i++)
		qp[i].qp = &hca_qp(&rig.tx.hca[i])->qp;
	qp[1].device = 0;
	assert_int_equal(mpib_vqp_create(rig.tx.vcq, &a, &v), -EINVAL);
	qp[1].device = 1;
	qp[1].qp->recv_cq = qp[0].qp->recv_cq;
	assert_int_equal(mpib_vqp_create(rig.tx.vcq, &a, &v), -EINVAL);
	qp[1].qp->recv_cq = qp[1].qp->send_cq;
	assert_int_equal(mpib_vqp_create(rig.tx.vcq, &a, &v), 0);
	assert_int_equal(mpib_vqp_destroy(v), 0);
}

teardown_test(weights_are_scaled_to_1024_without_overflow)
{
	struct mpib_vqp_qp qp[2];
	struct mpib_vqp_attr a;
	struct mpib_vqp *v;

	rig_start(&rig, MPIB_VQP_SPRAY, 2, 2, false);
	a = attr_of(qp, 2);
	for (unsigned d = 0; d < 2; d++)
		qp[d] = (struct mpib_vqp_qp){ &hca_qp(&rig.tx.hca[d])->qp,
					      (uint8_t)d };
	a.weight[0] = UINT32_MAX;
	a.weight[1] = 1025;
	assert_int_equal(mpib_vqp_create(rig.tx.vcq, &a, &v), -EINVAL);
}

/* T14: both devices give their QPs the same numbers. */
teardown_test(t14_qps_of_two_devices_may_have_the_same_number)
{
	struct mpib_vqp_qp qp[1];
	struct mpib_vqp_attr a;
	struct mpib_vqp *v;

	rig_start(&rig, MPIB_VQP_SPRAY, 4, 2, false);
	assert_int_equal(rig.tx.data[0]->qp.qp_num, rig.tx.data[1]->qp.qp_num);
	rig_recv(&rig, 1);
	assert_int_equal(rig_write(&rig, 1, 0, 60000), 0);
	assert_int_equal(rig_got(&rig).wr_id, 1);
	assert_int_equal(rig_sent(&rig).wr_id, 1);
	/* Passing a QP that is already used is an error. */
	a = attr_of(qp, 1);
	assert_int_equal(mpib_vqp_create(rig.tx.vcq, &a, &v), -EEXIST);
}

/* T19, T22, I23 */
teardown_test(wrong_attributes_are_refused)
{
	struct mpib_vqp_qp qp[2];
	struct mpib_vqp_attr a;
	struct mpib_vqp *v;

	rig_start(&rig, MPIB_VQP_SPRAY, 2, 1, false);
	a = attr_of(qp, 2);
	/* an unlimited cap would need an unlimited number of receives */
	a.cap = 0;
	assert_int_equal(mpib_vqp_create(rig.tx.vcq, &a, &v), -EINVAL);
	a = attr_of(qp, 2);
	a.mode = MPIB_VQP_SPRAY; /* needs a notify QP */
	assert_int_equal(mpib_vqp_create(rig.tx.vcq, &a, &v), -EINVAL);
	/* This mode sends no notices, so a notify QP is an error. */
	a.mode = MPIB_VQP_DQPLB;
	a.notify = qp;
	a.notifies = 1;
	assert_int_equal(mpib_vqp_create(rig.tx.vcq, &a, &v), -EINVAL);
	a = attr_of(qp, 2);
	/* With this cap, more numbers could be in flight than the receiver can
	 * put in order. */
	a.cap = MPIB_SEQ_INFLIGHT / 2 + 1;
	assert_int_equal(mpib_vqp_create(rig.tx.vcq, &a, &v), -EINVAL);
	a = attr_of(qp, 2);
	/* With this depth, there could be too many messages, each with one
	 * number. */
	a.depth = 2 * MPIB_SEQ_SPAN;
	assert_int_equal(mpib_vqp_create(rig.tx.vcq, &a, &v), -EINVAL);
	a = attr_of(qp, 2);
	a.depth = 100;
	assert_int_equal(mpib_vqp_create(rig.tx.vcq, &a, &v), -EINVAL);
	a = attr_of(qp, 2);
	qp[1].device = 1; /* the CQ has no such device */
	assert_int_equal(mpib_vqp_create(rig.tx.vcq, &a, &v), -EINVAL);
	a = attr_of(qp, 2);
	qp[1].qp = NULL; /* as after a failed ibv_create_qp() */
	assert_int_equal(mpib_vqp_create(rig.tx.vcq, &a, &v), -EINVAL);
	a = attr_of(qp, 2);
	a.qp = NULL;
	assert_int_equal(mpib_vqp_create(rig.tx.vcq, &a, &v), -EINVAL);
	/* The default size of fragments is reasonable. */
	assert_in_range(MPIB_VQP_FRAG, 64 << 10, 4 << 20);
}
