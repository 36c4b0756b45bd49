/* SPDX-License-Identifier: Apache-2.0 */
/* An io_uring that refuses what it is given. */
#include "vt.h"

#include <errno.h>
#include <liburing.h>

#define ROOM (1u << 20)

/* How often io_uring is to refuse from now on; and how often a ring that has
 * refused was used again. */
static unsigned refusals, stale;

int __wrap_io_uring_submit_and_get_events(struct io_uring *ring);
int __real_io_uring_submit_and_get_events(struct io_uring *ring);

int __wrap_io_uring_submit_and_get_events(struct io_uring *ring)
{
	enum {
		REFUSED = 0x5eed
	}; /* a mark where liburing has padding */

	if (refusals) {
		refusals--;
		ring->pad2 = REFUSED;
		return -EBADF;
	}
	stale += ring->pad2 == REFUSED;
	return __real_io_uring_submit_and_get_events(ring);
}

/* Neither the ring nor the one that replaces it submits anything: what was
 * prepared in them must not be sent later, from memory of other messages. */
static void a_new_ring_that_submits_nothing_is_given_up_too(void **state)
{
	struct vt *t = *state;
	struct vt_mem src = vt_mem(t, &t->a, ROOM, VT_ALL);
	struct vt_mem dst = vt_mem(t, &t->b, ROOM, VT_ALL);
	struct ibv_sge sge = vt_sge(&src, 0, ROOM);
	struct ibv_qp *qa, *qb;

	vt_pair(t, &vt_usual, &qa, &qb);
	for (uint64_t id = 0; id < 40; id++) {
		vt_fill(src.p, ROOM, id);
		vt_write(qa, id, &sge, &dst);
		refusals = id > 4 && id % 2 ? 2 : 0;
		vt_expect(t, &t->a.send, id, IBV_WC_SUCCESS);
		assert_memory_equal(src.p, dst.p, ROOM);
		assert_int_equal(stale, 0);
	}
}

const struct CMUnitTest test_list[] = {
	vt_test(a_new_ring_that_submits_nothing_is_given_up_too),
	{ 0 },
};
