/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of the process that was started first, by a shell, a container's
 * runtime or a supervisor, which wait for its pid: it holds nothing any more,
 * passes signals on to the proxy that serves now, and ends as the last of them
 * ends. Under systemd there is none, for it can be told of another main
 * process; nor is there one of a daemon, for which nobody waits.
 */
#ifndef MPIB_PROXY_HANDOVER_GUARD_H
#define MPIB_PROXY_HANDOVER_GUARD_H

#include <sys/types.h>

/* Both ends, [1] the guard's: proxies say in [0] who serves, and see its end
 * should the guard be killed. -errno. */
int mpib_guard_link(int link[2]);
/* The process pid serves from now on. Nothing where link is -1. */
void mpib_guard_tell(int link, pid_t pid);
/* Become it, by executing ourselves as "--guard=LINK", which closes all but its
 * end of the link. Returns only when it fails. */
void mpib_guard_become(int link);
/* Be it; the exit status. */
int mpib_guard_run(int link);

#endif
