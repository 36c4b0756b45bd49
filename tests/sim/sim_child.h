/* SPDX-License-Identifier: Apache-2.0 */
/* The process that runs one seed, so that nothing is left of the one before. */
#ifndef SIM_CHILD_H
#define SIM_CHILD_H

#include <sys/types.h>

#include "sim_seed.h"

struct sim_ask {
	unsigned messages;
	const char *suspect; /* a fault that counts as a failure; NULL: none */
};

/* sim_pools.c: WR pools that each process finds made. Called once. */
void sim_pools_make(void);
/* Begin one, whose plan is made smaller if smaller is not NULL. quiet: it says
 * nothing, and its addresses are others. */
pid_t sim_child_start(const struct sim_ask *ask, uint64_t seed,
		      const struct sim_smaller *smaller,
		      struct sim_result *result, bool quiet);
/* What a process that has ended came to: its exit status, or 128 + the
 * signal. */
int sim_child_status(int status);
/* It ended for want of something: by the kernel, for want of memory, too. */
bool sim_child_unrun(int status);

#endif
