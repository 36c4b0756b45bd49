/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of send WRs, and chains of WRs posted by one ibv_post_send(). */
#include <mpib/wr_pool.h>

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

_Static_assert((MPIB_WR_POOL & (MPIB_WR_POOL - 1)) == 0, "a power of two");

int mpib_wr_pool_init(struct mpib_wr_pool *pool)
{
	*pool = (struct mpib_wr_pool){ 0 };
	pool->all = calloc(MPIB_WR_POOL, sizeof(*pool->all));
	if (!pool->all)
		return -ENOMEM;
	for (uint32_t i = MPIB_WR_POOL; i-- > 0;) {
		pool->all[i].wr.sg_list = pool->all[i].sge;
		mpib_wr_give(pool, &pool->all[i]);
	}
	return 0;
}

void mpib_wr_pool_fini(struct mpib_wr_pool *pool)
{
	free(pool->all);
	pool->all = NULL;
}
