/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Make WR pools before the processes of the seeds are forked. A seed writes to
 * only a few of the 184 pages of a pool, and the processes of all seeds share
 * the other pages.
 */
#include <errno.h>
#include <mpib/wr_pool.h>

#include "sim_child.h"
#include "sim_task.h"
#include "sim_wrap.h"

#define POOLS 24 /* enough for most seeds; other seeds allocate more pools */

static struct mpib_wr_pool made[POOLS];
static unsigned used = POOLS;

void sim_pools_make(void)
{
/* With AddressSanitizer, do not share pools, so that uses of a freed pool are
 * detected. */
#ifndef __SANITIZE_ADDRESS__
	for (used = 0; used < POOLS; used++) {
		if (__real_mpib_wr_pool_init(&made[used]) < 0)
			sim_lacks("memory");
	}
	used = 0;
#endif
}

/* If the process is short of memory, this can fail like any allocation. */
int __wrap_mpib_wr_pool_init(struct mpib_wr_pool *pool)
{
	if (used == POOLS)
		return __real_mpib_wr_pool_init(pool);
	if (sim_no_memory())
		return -ENOMEM;
	*pool = made[used++];
	return 0;
}

/* Do not free a pool that was made in advance. Such a pool is not used
 * again. */
void __wrap_mpib_wr_pool_fini(struct mpib_wr_pool *pool)
{
	for (unsigned i = 0; i < used; i++) {
		if (made[i].all == pool->all)
			pool->all = NULL;
	}
	__real_mpib_wr_pool_fini(pool);
}
