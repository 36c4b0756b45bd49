/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dropping privileges. The proxy uses root's rights once, to make the run
 * directory and to raise the limit of locked memory. It drops them before it
 * reads any input from other processes or nodes.
 */
#ifndef MPIB_PROXY_PRIVILEGES_H
#define MPIB_PROXY_PRIVILEGES_H

#include "config/config.h"

/*
 * If run.user is set, become that user permanently: with the user's groups,
 * without capabilities, and with no_new_privs (prctl(2)). Makes the run
 * directory for that user if it is missing. Call this before other threads are
 * made. -EPERM: this process is not root; -ENOENT: there is no such user; or
 * another -errno. `why` is as in config.h.
 */
int mpib_drop(const struct mpib_config *cfg, char *why);

/* Unless proxy.core is yes, make sure that a crash leaves no core file, and
 * that no other process of this user can trace this one or read its memory.
 * Call it after mpib_drop(), which changes what the kernel allows. */
void mpib_keep_secrets(const struct mpib_config *cfg);

/*
 * A filter of system calls (seccomp(2)). It forbids system calls that the proxy
 * never makes, so that injected code cannot make them either.
 */

enum mpib_seccomp {
	MPIB_SECCOMP_NO,
	MPIB_SECCOMP_YES, /* other calls fail with EPERM */
	MPIB_SECCOMP_KILL, /* other calls end the process; for tests */
};

/*
 * Set the filter as proxy.seccomp says, with no_new_privs, for this process and
 * the threads that it starts later. Call this after mpib_drop(), because under
 * the filter the process cannot become another user or start a program. If the
 * kernel has no seccomp, log that and continue. With a sanitizer, which needs
 * other calls, set no filter.
 */
void mpib_sandbox(const struct mpib_config *cfg);

#endif
