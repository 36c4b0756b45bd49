/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closing descriptors that users created. The creator of a descriptor can make
 * the last close of this descriptor take arbitrarily long. For a FUSE file the
 * kernel asks the user's daemon, a TCP socket lingers, and a Unix socket closes
 * every descriptor in its unread messages. An interrupt ends the wait of a
 * lingering socket, but not every wait: a FUSE file with late write-back keeps
 * waiting. So a Unix socket is closed immediately, or by a thread within some
 * ms. Any other descriptor gets its own thread until its close returns.
 */
#ifndef MPIB_BASE_CLOSER_H
#define MPIB_BASE_CLOSER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

/* Maximum number of descriptors that one message of a Unix socket can carry. */
#define MPIB_RIGHTS_MAX 253

/* Shut down and close a Unix socket over which the user may have sent data that
 * was never read. If the socket holds unread messages, the close is queued
 * behind the user's earlier closes. The close is also queued while no thread
 * can be started. Any thread; never blocks. */
void mpib_close_of(uid_t user, int sock);
/* Close, on a separate thread, a descriptor that the user sent. Blocks only if
 * no thread can be started; for a socket it never blocks. */
void mpib_close_received(uid_t user, int fd);
/* End a mapping of a user's file, and close the file. This may free all pages
 * of the file, which takes 0.2 s per GiB. This work is queued behind the user's
 * earlier closes. */
void mpib_unmap_of(uid_t user, void *map, size_t len, int fd);
/* Check whether to receive descriptors from the user. 0: yes. -EAGAIN: very
 * many closes of the user are running; retry in some ms. -EPIPE: receive
 * nothing more from this user, because many of its closes have taken long.
 * While very many closes of all users together are running, a single long close
 * of this user causes -EPIPE. */
int mpib_may_receive(uid_t user);
/* Return whether the sockets that wait to be closed use an eighth of the
 * process's descriptors. If so, accept nothing more from users. *most_of
 * becomes the user with the most such sockets. */
bool mpib_closers_full(uid_t *most_of);

#endif
