/* SPDX-License-Identifier: Apache-2.0 */
/* mpib/wr_pool.h: WRs are initialized when they are taken, and one call posts a
 * whole chain. */
#include <errno.h>
#include <mpib/wr_pool.h>

#include "test.h"

static struct mpib_wr_pool pool;
static struct ibv_context ctx;
static struct ibv_qp qp = { .context = &ctx };
static unsigned calls, wrs, fail_after;

static int post_send(struct ibv_qp *q, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad)
{
	calls++;
	for (; wr; wr = wr->next) {
		if (wrs == fail_after) {
			*bad = wr;
			return ENOMEM;
		}
		wrs++;
	}
	return 0;
}

static int setup(void **state)
{
	ctx.ops.post_send = post_send;
	calls = wrs = 0;
	fail_after = UINT32_MAX;
	return mpib_wr_pool_init(&pool);
}

static int teardown(void **state)
{
	mpib_wr_pool_fini(&pool);
	return 0;
}

fixture_test(a_wr_is_initialized_when_it_is_taken)
{
	struct mpib_wr *w = mpib_wr_take(&pool);

	assert_ptr_equal(w->wr.sg_list, w->sge);
	assert_int_equal(w->wr.num_sge, 1);
	assert_int_equal(w->wr.opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
	assert_true(w->wr.send_flags & IBV_SEND_SIGNALED);
	w->wr.num_sge = 0;
	w->wr.opcode = IBV_WR_SEND;
	mpib_wr_give(&pool, w);
	assert_ptr_equal(mpib_wr_take(&pool), w);
	assert_int_equal(w->wr.num_sge, 1);
	assert_int_equal(w->wr.opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
}

fixture_test(the_pool_has_4096_wrs_and_returns_each_only_once)
{
	struct mpib_wr *w, *last = NULL;

	for (unsigned i = 0; i < 4096; i++) {
		w = mpib_wr_take(&pool);
		assert_non_null(w);
		assert_int_equal(w->owner, 0);
		w->owner = 1;
		last = w;
	}
	assert_null(mpib_wr_take(&pool));
	mpib_wr_give(&pool, last);
	assert_ptr_equal(mpib_wr_take(&pool), last);
}

fixture_test(a_chain_is_posted_in_order_by_one_doorbell)
{
	struct mpib_wr_chain chain = { 0 };
	struct mpib_wr *w[5], *bad;

	for (unsigned i = 0; i < 5; i++) {
		w[i] = mpib_wr_take(&pool);
		mpib_wr_chain_add(&chain, w[i]);
	}
	assert_int_equal(chain.n, 5);
	for (unsigned i = 0; i < 5; i++)
		assert_ptr_equal(w[i]->wr.next, i < 4 ? &w[i + 1]->wr : NULL);
	assert_int_equal(mpib_wr_chain_post(&chain, &qp, &bad), 0);
	assert_int_equal(calls, 1);
	assert_int_equal(wrs, 5);
	assert_int_equal(chain.n, 0);
	/* When a WR of a posted chain is added to a new chain, the WR's old
	 * `next` pointer must be cleared. */
	mpib_wr_chain_add(&chain, w[1]);
	assert_int_equal(mpib_wr_chain_post(&chain, &qp, &bad), 0);
	assert_int_equal(wrs, 6);
}

fixture_test(a_chain_can_be_appended_to_another_or_to_none)
{
	struct mpib_wr_chain all = { 0 }, part[2] = { { 0 }, { 0 } };
	struct mpib_wr *w[4], *bad;

	for (unsigned i = 0; i < 4; i++) {
		w[i] = mpib_wr_take(&pool);
		mpib_wr_chain_add(&part[i / 2], w[i]);
	}
	mpib_wr_chain_join(&all, &part[0]);
	mpib_wr_chain_join(&all, &part[1]);
	assert_int_equal(all.n, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_ptr_equal(w[i]->wr.next, i < 3 ? &w[i + 1]->wr : NULL);
	assert_int_equal(mpib_wr_chain_post(&all, &qp, &bad), 0);
	assert_int_equal(wrs, 4);
}

fixture_test(the_first_wr_that_was_refused_is_returned)
{
	struct mpib_wr_chain chain = { 0 };
	struct mpib_wr *w[3], *bad = NULL;

	for (unsigned i = 0; i < 3; i++) {
		w[i] = mpib_wr_take(&pool);
		mpib_wr_chain_add(&chain, w[i]);
	}
	fail_after = 2;
	assert_int_equal(mpib_wr_chain_post(&chain, &qp, &bad), -ENOMEM);
	assert_ptr_equal(bad, w[2]);
}
