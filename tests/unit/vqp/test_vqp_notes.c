/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other known issues in the design that mpib/vqp.h follows, besides failures
 * (test_vqp_faults.c): allocation, ownership and ignored fields. Each test
 * fails if the code has the issue. The linker replaces malloc(), calloc() and
 * realloc() by the __wrap_ functions below.
 */
#include <errno.h>

#include "rig.h"
#include "test.h"

static unsigned allocations;

WRAPS(void *, malloc, size_t n)
{
	allocations++;
	return __real_malloc(n);
}

WRAPS(void *, calloc, size_t n, size_t bytes)
{
	allocations++;
	return __real_calloc(n, bytes);
}

WRAPS(void *, realloc, void *p, size_t bytes)
{
	allocations++;
	return __real_realloc(p, bytes);
}

/* T16, T17 */
teardown_test(t16_t17_posts_and_polls_allocate_nothing)
{
	for (unsigned mode = 0; mode < 3; mode++) {
		unsigned before;

		rig_start(&rig, (enum mpib_vqp_mode)mode, 4, 2, false);
		before = allocations;
		assert_true(before > 0); /* the counter works */
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

/* T21: creating a virtual QP takes all QPs or none, and keeps no pointer to the
 * arguments. */
teardown_test(t21_create_takes_all_qps_or_none)
{
	struct mpib_vqp_qp *qp = calloc(3, sizeof(*qp));
	struct mpib_vqp_attr *attr = calloc(1, sizeof(*attr));
	struct mpib_vqp *vqp;

	rig_start(&rig, MPIB_VQP_SPLIT, 2, 1, false);
	for (unsigned i = 0; i < 2; i++)
		qp[i].qp = &hca_qp(&rig.tx.hca[0])->qp;
	qp[2].qp = &rig.tx.data[0]->qp; /* used by another virtual QP */
	*attr = (struct mpib_vqp_attr){ .n = 3, .qp = qp, .cap = 4 };
	assert_int_equal(mpib_vqp_create(rig.tx.vcq, attr, &vqp), -EEXIST);
	attr->n = 2; /* the other QPs are free again */
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

/* Without an error, the caller would believe that the field has an effect. */
teardown_test(fields_that_would_be_ignored_are_refused)
{
	const struct mpib_vsend right = {
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.flags = IBV_SEND_SIGNALED,
		.devices = 1,
	};
	struct mpib_vsend w = right;

	rig_start(&rig, MPIB_VQP_DQPLB, 2, 1, false);
	/* After an accepted inline send, the caller would reuse the memory
	 * immediately. */
	w.flags |= IBV_SEND_INLINE;
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
