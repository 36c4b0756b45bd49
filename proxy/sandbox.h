/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A filter of system calls (seccomp(2)): what the proxy never asks the kernel for,
 * code that somebody has brought into it shall not ask for either.
 */
#ifndef MPIB_PROXY_SANDBOX_H
#define MPIB_PROXY_SANDBOX_H

#include "config/config.h"

enum mpib_seccomp {
	MPIB_SECCOMP_NO,
	MPIB_SECCOMP_YES, /* other calls fail with EPERM */
	MPIB_SECCOMP_KILL, /* they end the process, for tests */
};

/*
 * Set the filter as proxy.seccomp says, with no_new_privs, for this process and
 * the threads that it starts from now on, once mpib_drop() is done: the filter
 * refuses to start a program or to become another user. Where the kernel has
 * none, and in builds with a sanitizer, which needs other calls, say so and go on.
 */
void mpib_sandbox(const struct mpib_config *cfg);

#endif
