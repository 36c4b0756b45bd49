/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WR pools are made before the processes of the seeds start. A seed writes to a
 * few of a pool's 184 pages. All seeds share the other pages.
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
#ifndef __SANITIZE_ADDRESS__ /* AddressSanitizer detects uses of a freed pool */
	for (used = 0; used < POOLS; used++) {
		if (__real_mpib_wr_pool_init(&made[used]) < 0)
			sim_lacks("memory");
	}
	used = 0;
#endif
}

/* This allocation may fail, no matter which task makes it. */
int __wrap_mpib_wr_pool_init(struct mpib_wr_pool *pool)
{
	if (used == POOLS)
		return __real_mpib_wr_pool_init(pool);
	if (sim_no_memory())
		return -ENOMEM;
	*pool = made[used++];
	return 0;
}

/* A pool that was made in advance is used only once. A write copies its page
 * first. */
void __wrap_mpib_wr_pool_fini(struct mpib_wr_pool *pool)
{
	for (unsigned i = 0; i < used; i++) {
		if (made[i].all == pool->all)
			pool->all = NULL;
	}
	__real_mpib_wr_pool_fini(pool);
}
