/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whom the proxy believes when a command names a program for it to run. A
 * container's root is uid 0, too, and a path means another file in its mount
 * namespace. Control thread.
 */
#ifndef MPIB_PROXY_STATS_TRUST_H
#define MPIB_PROXY_STATS_TRUST_H

#include <stddef.h>
#include <sys/types.h>

/* Whether the process that connected sock is in this process's mount and user
 * namespaces. 0, or -EPERM with why: it is not, or that cannot be seen. */
int mpib_trust_caller(int sock, char *why, size_t len);
/* Whether the file at path and all directories above it belong to root or to
 * the user `asker`, and no other user can change or replace one of them. 0, or
 * -EPERM or -EINVAL with why. */
int mpib_trust_path(const char *path, uid_t asker, char *why, size_t len);

#endif
