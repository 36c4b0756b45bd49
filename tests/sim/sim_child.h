/* SPDX-License-Identifier: Apache-2.0 */
/* A process that runs one seed, so that no state of the previous seed
 * remains. */
#ifndef SIM_CHILD_H
#define SIM_CHILD_H

#include <sys/types.h>

#include "sim_seed.h"

struct sim_ask {
	unsigned messages;
	/* Kind of fault that makes a seed fail (--suspect), or NULL. */
	const char *suspect;
};

/* sim_pools.c: make the WR pools that each process inherits. Call this once. */
void sim_pools_make(void);
/* Start a child, which runs the seed. `smaller` lists the parts of the plan to
 * leave out. NULL means none. If `quiet` is set, the child prints nothing, and
 * its allocations get other addresses than in a child without `quiet`. */
pid_t sim_child_start(const struct sim_ask *ask, uint64_t seed,
		      const struct sim_smaller *smaller,
		      struct sim_result *result, bool quiet);
/* Convert the status that waitpid() returned: return the exit status, or 128 +
 * the signal. */
int sim_child_status(int status);
/* Return whether the child ended without a result: the machine lacked a
 * resource, or the kernel killed the child for lack of memory. */
bool sim_child_unrun(int status);

#endif
