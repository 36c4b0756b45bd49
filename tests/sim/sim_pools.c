/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WR pools are made before the processes of the seeds are forked. A seed writes
 * only to a few of the 184 pages of a pool. All seeds share the other pages.
 */
#include <errno.h>
#include <mpib/wr_pool.h>

#include "sim_child.h"
#include "sim_task.h"
#include "sim_wrap.h"

#define POOLS 24 /* enough for most seeds; the others allocate more */

static struct mpib_wr_pool made[POOLS];
static unsigned used = POOLS;

void sim_pools_make(void)
{
/* Do not share: AddressSanitizer must detect uses of a freed pool. */
#ifndef __SANITIZE_ADDRESS__
	for (used = 0; used < POOLS; used++) {
		if (__real_mpib_wr_pool_init(&made[used]) < 0)
			sim_lacks("memory");
	}
	used = 0;
#endif
}

/* Like any allocation, this may fail if the process is short of memory. */
int __wrap_mpib_wr_pool_init(struct mpib_wr_pool *pool)
{
	if (used == POOLS)
		return __real_mpib_wr_pool_init(pool);
	if (sim_no_memory())
		return -ENOMEM;
	*pool = made[used++];
	return 0;
}

/* A pool that was made in advance is not freed and not used again. */
void __wrap_mpib_wr_pool_fini(struct mpib_wr_pool *pool)
{
	for (unsigned i = 0; i < used; i++) {
		if (made[i].all == pool->all)
			pool->all = NULL;
	}
	__real_mpib_wr_pool_fini(pool);
}
