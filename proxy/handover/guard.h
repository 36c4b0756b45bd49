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

/*
 * Become it, by executing ourselves as "--guard=RUN_DIR", which closes all but
 * pipe: that proxies see the end of, should the guard be killed. Returns only
 * when it fails.
 */
void mpib_guard_become(const char *run_dir, int pipe);
/* Be it; the exit status. */
int mpib_guard_run(const char *run_dir);

#endif
