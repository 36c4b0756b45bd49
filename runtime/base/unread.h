/* SPDX-License-Identifier: Apache-2.0 */
/* What a user sent by a Unix socket, and nobody has read. Any thread. */
#ifndef MPIB_BASE_UNREAD_H
#define MPIB_BASE_UNREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Whether it is a Unix socket, which was shut down, and there is nothing in it, so
 * that there will be nothing: its close lets go of nothing. */
bool mpib_unread_none(int sock);
/* As recv() of a Unix socket, with MSG_DONTWAIT and what flags says, but what
 * descriptors come along are closed so. */
ssize_t mpib_recv_of(uid_t user, int sock, void *to, size_t len, int flags);

#endif
