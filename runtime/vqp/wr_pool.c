/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of send WRs, and chains of WRs posted by one ibv_post_send(). */
#include <mpib/wr_pool.h>

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

_Static_assert((MPIB_WR_POOL & (MPIB_WR_POOL - 1)) == 0, "a power of two");

int mpib_wr_pool_init(struct mpib_wr_pool *pool)
{
	*pool = (struct mpib_wr_pool){ .left = MPIB_WR_POOL };
	STAILQ_INIT(&pool->free);
	pool->all = calloc(MPIB_WR_POOL, sizeof(*pool->all));
	if (!pool->all)
		return -ENOMEM;
	for (uint32_t i = 0; i < MPIB_WR_POOL; i++) {
		struct mpib_wr *w = &pool->all[i];

		w->wr.sg_list = w->sge;
		w->wr.num_sge = 1;
		w->wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		w->wr.send_flags = IBV_SEND_SIGNALED;
		STAILQ_INSERT_TAIL(&pool->free, w, link);
	}
	return 0;
}

void mpib_wr_pool_fini(struct mpib_wr_pool *pool)
{
	free(pool->all);
	pool->all = NULL;
}

struct mpib_wr *mpib_wr_take(struct mpib_wr_pool *pool)
{
	struct mpib_wr *w = STAILQ_FIRST(&pool->free);

	if (!w)
		return NULL;
	STAILQ_REMOVE_HEAD(&pool->free, link);
	pool->left--;
	return w;
}

void mpib_wr_give(struct mpib_wr_pool *pool, struct mpib_wr *w)
{
	w->wr.num_sge = 1;
	w->wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	w->wr.send_flags = IBV_SEND_SIGNALED;
	/* LIFO: the WR used last is the one in the CPU's cache. */
	STAILQ_INSERT_HEAD(&pool->free, w, link);
	pool->left++;
}
