/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard. The process that was started first, by a shell, a container's
 * runtime or a supervisor, must keep its pid, for which its starter waits. So
 * after it handed over it becomes the guard: it holds nothing any more, passes
 * signals on to the proxy that serves, and exits with the status of the last
 * proxy. There is no guard under systemd, which can be told of another main
 * process, and none of a daemon, for which no starter waits.
 */
#ifndef MPIB_PROXY_HANDOVER_GUARD_H
#define MPIB_PROXY_HANDOVER_GUARD_H

#include <sys/types.h>

/* Make the link. [1] is the guard's end. Proxies tell through [0] which process
 * serves, and see it hang up should the guard be killed. -errno. */
int mpib_guard_link(int link[2]);
/* Tell the guard that process pid serves. Does nothing where link is -1. */
void mpib_guard_tell(int link, pid_t pid);
/* Become the guard: execute the own program as "--guard=LINK", which closes all
 * descriptors but link. Returns only when that fails. */
void mpib_guard_become(int link);
/* The guard's main loop, also in a process that cannot execute it, and has nothing but
 * link; returns its exit status. */
int mpib_guard_run(int link);

#endif
