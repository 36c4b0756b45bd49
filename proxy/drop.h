/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rights that are needed once, to make the run directory and to be allowed
 * locked memory, and given up before anything of a pending_peer is read.
 */
#ifndef MPIB_PROXY_DROP_H
#define MPIB_PROXY_DROP_H

#include "config/config.h"

/*
 * Become run.user, if it is set, for good: its groups, no capability, nothing
 * to be gained by exec. The run directory is made for it where it is missing.
 * Before any other thread. -EPERM when not root, -ENOENT: no such user.
 */
int mpib_drop(const struct mpib_config *cfg, char *why);

#endif
