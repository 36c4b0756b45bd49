/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dropping privileges. Root's rights are used once, to make the run directory
 * and to raise the limit of locked memory, and are given up before any input
 * from other processes or nodes is read.
 */
#ifndef MPIB_PROXY_PRIVILEGES_H
#define MPIB_PROXY_PRIVILEGES_H

#include "config/config.h"

/*
 * Become run.user for good, if it is set: with that user's groups, without
 * capabilities, and with no_new_privs (prctl(2)). Makes the run directory for
 * that user if it is missing. Call before other threads are made. -EPERM: not
 * root; -ENOENT: no such user; -errno; why as in config.h.
 */
int mpib_drop(const struct mpib_config *cfg, char *why);

/* Unless proxy.core is yes: a crash leaves no core file, and no other process
 * of this user may trace this one or read its memory. Call after mpib_drop(),
 * which changes what the kernel allows. */
void mpib_keep_secrets(const struct mpib_config *cfg);

/*
 * A filter of system calls (seccomp(2)): code that an attacker injects can make
 * no system call that the proxy itself never makes.
 */

enum mpib_seccomp {
	MPIB_SECCOMP_NO,
	MPIB_SECCOMP_YES, /* other calls fail with EPERM */
	MPIB_SECCOMP_KILL, /* they end the process, for tests */
};

/*
 * Set the filter as proxy.seccomp says, with no_new_privs, for this process and
 * the threads that it starts from now on, once mpib_drop() is done: the filter
 * refuses to start a program or to become another user. If the kernel has no
 * seccomp, or the build has a sanitizer, which needs other calls, log that and
 * continue.
 */
void mpib_sandbox(const struct mpib_config *cfg);

#endif
