/* SPDX-License-Identifier: Apache-2.0 */
/* Restrict this process. Call these functions at start-up, before the proxy
 * reads any input from other processes or nodes. */
#ifndef MPIB_PROXY_PRIVILEGES_H
#define MPIB_PROXY_PRIVILEGES_H

#include "config/config.h"

/* Unless proxy.core is yes, make sure that a crash leaves no core file, and
 * that no other process of this user can trace this one or read its memory. */
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
 * the threads that it starts later. Under the filter the process cannot start a
 * program. If the kernel has no seccomp, log that and continue. With a
 * sanitizer, which needs other calls, set no filter.
 */
void mpib_sandbox(const struct mpib_config *cfg);

#endif
