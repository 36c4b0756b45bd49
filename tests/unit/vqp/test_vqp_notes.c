/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What else the design that mpib/vqp.h follows is known for, beside failures
 * (test_vqp_faults.c): who allocates, who owns, whose keys, what is gathered.
 * Each test fails on that behaviour. The linker leads malloc and its like here.
 */
#include <errno.h>

#include "rig.h"
#include "test.h"

#define MIB (1u << 20)

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);

static unsigned allocations;

void *__wrap_malloc(size_t n)
{
	allocations++;
	return __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	allocations++;
	return __real_calloc(n, bytes);
}

void *__wrap_realloc(void *p, size_t bytes)
{
	allocations++;
	return __real_realloc(p, bytes);
}

/* T16, T17 */
static void t16_t17_posts_and_polls_allocate_nothing(void **state)
{
	for (unsigned mode = 0; mode < 3; mode++) {
		unsigned before;

		rig_start(&rig, (enum mpib_vqp_mode)mode, 4, 2, false);
		before = allocations;
		assert_true(before > 0); /* they are seen */
		for (uint64_t i = 0; i < 50; i++) {
			rig_recv(&rig, i);
			assert_int_equal(rig_write(&rig, i, 0, 100000), 0);
			assert_int_equal(rig_got(&rig).wr_id, i);
			assert_int_equal(rig_sent(&rig).wr_id, i);
		}
		assert_int_equal(allocations, before);
		rig_down(&rig);
	}
}

/* T21: there is one way to make one, which takes all or nothing, and keeps
 * nothing of what it was given to read. */
static void t21_what_makes_a_virtual_qp_owns_it_or_leaves_no_trace(void **state)
{
	struct mpib_vqp_qp *qp = calloc(3, sizeof(*qp));
	struct mpib_vqp_attr *attr = calloc(1, sizeof(*attr));
	struct mpib_vqp *vqp;

	rig_start(&rig, MPIB_VQP_SPLIT, 2, 1, false);
	for (unsigned i = 0; i < 2; i++)
		qp[i].qp = &hca_qp(&rig.tx.hca[0])->qp;
	qp[2].qp = &rig.tx.data[0]->qp; /* somebody's already */
	*attr = (struct mpib_vqp_attr){ .n = 3, .qp = qp, .cap = 4 };
	assert_int_equal(mpib_vqp_create(rig.tx.vcq, attr, &vqp), -EEXIST);
	attr->n = 2; /* the others are free again */
	assert_int_equal(mpib_vqp_create(rig.tx.vcq, attr, &vqp), 0);
	memset(qp, 0xff, 3 * sizeof(*qp));
	memset(attr, 0xff, sizeof(*attr));
	free(qp);
	free(attr);
	assert_int_equal(mpib_vqp_healthy(vqp), 2);
	assert_int_equal(mpib_vqp_destroy(vqp), 0);
	rig_recv(&rig, 1);
	assert_int_equal(rig_write(&rig, 1, 0, 4096), 0);
	assert_int_equal(rig_got(&rig).wr_id, 1);
}

static void check_keys(const struct hca_qp *q, unsigned device)
{
	static const uint32_t lkey[] = { 1, 3 }, rkey[] = { 2, 4 };

	for (uint32_t i = 0; i < q->sq_head; i++) {
		const struct hca_wr *w = &q->sq[i];

		assert_int_equal(w->wr.wr.rdma.rkey, rkey[device]);
		if (w->wr.num_sge)
			assert_int_equal(w->sge[0].lkey, lkey[device]);
	}
}

/* I9 */
static void i9_each_device_has_its_own_keys(void **state)
{
	for (unsigned mode = 0; mode < 3; mode++) {
		rig_start(&rig, (enum mpib_vqp_mode)mode, 4, 2, false);
		rig_recv(&rig, 1);
		assert_int_equal(rig_write(&rig, 1, 0, 100000), 0);
		assert_int_equal(rig_sent(&rig).status, IBV_WC_SUCCESS);
		for (unsigned i = 0; i < 4; i++) {
			assert_true(rig.tx.data[i]->wrs > 0 ||
				    mode == MPIB_VQP_SPLIT);
			check_keys(rig.tx.data[i], i % 2);
		}
		for (unsigned d = 0; rig.tx.notify[0] && d < 2; d++)
			check_keys(rig.tx.notify[d], d);
		rig_down(&rig);
	}
}

/* I13: what is found by a QP's number stays where it is when the table of these
 * grows under it. */
static void i13_completions_find_their_qp_while_others_come_and_go(void **state)
{
	struct mpib_vqp *other[120];
	struct mpib_vwc wc;

	rig_start(&rig, MPIB_VQP_DQPLB, 4, 1, false);
	rig_recv(&rig, 1);
	assert_int_equal(rig_write(&rig, 1, 0, 30 * 4096), 0);
	for (unsigned i = 0; i < 120; i++) {
		struct mpib_vqp_qp qp = { &hca_qp(&rig.tx.hca[0])->qp, 0 };
		const struct mpib_vqp_attr attr = { .n = 1,
						    .qp = &qp,
						    .cap = 1 };

		assert_int_equal(mpib_vqp_create(rig.tx.vcq, &attr, &other[i]),
				 0);
		if (i % 2) {
			assert_int_equal(mpib_vqp_destroy(other[i]), 0);
			other[i] = NULL;
		}
		rig_steps(&rig, 1);
		assert_true(rig_poll(&rig.tx, &wc, 0) == 0);
		rig_poll(&rig.rx, &wc, 0);
	}
	assert_int_equal(rig_got(&rig).wr_id, 1);
	assert_int_equal(rig_sent(&rig).wr_id, 1);
	for (unsigned i = 0; i < 120; i += 2)
		assert_int_equal(mpib_vqp_destroy(other[i]), 0);
}

/* Control at off in the sender's memory, ahead of payload from elsewhere. */
static void send_headed(enum ibv_wr_opcode opcode, uint64_t len)
{
	const struct mpib_vsend wr = {
		.wr_id = 1,
		.local = (uint64_t)(uintptr_t)rig.tx.mem + MIB,
		.remote = (uint64_t)(uintptr_t)rig.rx.mem,
		.length = len,
		.opcode = opcode,
		.flags = IBV_SEND_SIGNALED,
		.devices = 3,
		.key = { { 1, 2 }, { 3, 4 } },
		.head = { .local = (uint64_t)(uintptr_t)rig.tx.mem,
			  .length = 12,
			  .lkey = { 5, 6 } },
	};

	assert_int_equal(mpib_vqp_post_send(rig.tx.vqp, &wr), 0);
}

/* I14: a list of SGEs, so that control travels in the WR of what it tells of. */
static void i14_a_head_travels_with_its_payload(void **state)
{
	static const uint64_t len[] = { 0, 1, 4096, 4097, 100000 };

	for (unsigned mode = 1; mode < 3; mode++) {
		for (unsigned i = 0; i < 5; i++) {
			const struct hca_wr *first;

			rig_start(&rig, (enum mpib_vqp_mode)mode, 4, 2, false);
			rig_fill(rig.tx.mem, 12, 1);
			rig_fill(rig.tx.mem + MIB, len[i], i);
			rig_recv(&rig, 1);
			send_headed(IBV_WR_RDMA_WRITE_WITH_IMM, len[i]);
			first = &rig.tx.data[0]->sq[0];
			assert_int_equal(first->wr.num_sge, 1 + (len[i] > 0));
			assert_int_equal(first->sge[0].length, 12);
			assert_int_equal(first->sge[0].lkey, 5);
			assert_int_equal(rig_sent(&rig).status, IBV_WC_SUCCESS);
			assert_memory_equal(rig.rx.mem, rig.tx.mem, 12);
			assert_memory_equal(rig.rx.mem + 12, rig.tx.mem + MIB,
					    len[i]);
			assert_int_equal(rig.rx.mem[12 + len[i]], 0);
			rig_down(&rig);
		}
	}
	/* A SEND takes it along, too, in one WR. */
	rig_start(&rig, MPIB_VQP_SPRAY, 4, 2, false);
	send_headed(IBV_WR_SEND, 1000);
	assert_int_equal(rig.tx.data[0]->sq[0].wr.num_sge, 2);
	assert_int_equal(rig.tx.data[0]->sq[0].sge[1].length, 1000);
	rig_down(&rig);
	/* SPLIT's first part is not always there. */
	rig_start(&rig, MPIB_VQP_SPLIT, 4, 2, false);
	assert_int_equal(mpib_vqp_post_send(rig.tx.vqp,
					    &(struct mpib_vsend){
						    .opcode = IBV_WR_RDMA_WRITE,
						    .devices = 3,
						    .head.length = 12 }),
			 -EINVAL);
}

/* I15: keys are taken once, with the WR, and fragments that wait have them
 * still when the caller has used his for something else. */
static void i15_keys_are_taken_with_the_wr(void **state)
{
	struct mpib_vsend wr = {
		.wr_id = 1,
		.length = 100 * 4096, /* many times what is let out at once */
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.flags = IBV_SEND_SIGNALED,
		.devices = 3,
		.key = { { 1, 2 }, { 3, 4 } },
	};

	rig_start(&rig, MPIB_VQP_DQPLB, 4, 2, false);
	wr.local = (uint64_t)(uintptr_t)rig.tx.mem;
	wr.remote = (uint64_t)(uintptr_t)rig.rx.mem;
	rig_recv(&rig, 1);
	assert_int_equal(mpib_vqp_post_send(rig.tx.vqp, &wr), 0);
	memset(&wr, 0xff, sizeof(wr));
	assert_int_equal(rig_sent(&rig).status, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < 4; i++) {
		assert_true(rig.tx.data[i]->wrs > 8);
		check_keys(rig.tx.data[i], i % 2);
	}
}

/* Whoever gets no error believes that it was done. */
static void what_would_be_left_out_is_refused(void **state)
{
	const struct mpib_vsend right = {
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.flags = IBV_SEND_SIGNALED,
		.devices = 1,
	};
	struct mpib_vsend w = right;

	rig_start(&rig, MPIB_VQP_DQPLB, 2, 1, false);
	w.flags |= IBV_SEND_INLINE; /* so its memory would be free at once */
	assert_int_equal(mpib_vqp_post_send(rig.tx.vqp, &w), -EINVAL);
	w = right;
	w.more = true;
	assert_int_equal(mpib_vqp_post_send(rig.tx.vqp, &w), -EINVAL);
	w = right;
	w.on = 1;
	assert_int_equal(mpib_vqp_post_send(rig.tx.vqp, &w), -EINVAL);
	w = right;
	w.control.length = 8;
	assert_int_equal(mpib_vqp_post_send(rig.tx.vqp, &w), -EINVAL);
	assert_int_equal(mpib_vqp_post_send(rig.tx.vqp, &right), 0);
}

const struct CMUnitTest test_list[] = {
	teardown_test(t16_t17_posts_and_polls_allocate_nothing),
	teardown_test(t21_what_makes_a_virtual_qp_owns_it_or_leaves_no_trace),
	teardown_test(i9_each_device_has_its_own_keys),
	teardown_test(i13_completions_find_their_qp_while_others_come_and_go),
	teardown_test(i14_a_head_travels_with_its_payload),
	teardown_test(i15_keys_are_taken_with_the_wr),
	teardown_test(what_would_be_left_out_is_refused),
	{ 0 },
};
