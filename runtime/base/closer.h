/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closing what others made. The last close of a descriptor can last for as long as
 * its maker likes: a FUSE file has a process of his asked, a TCP socket lingers; and
 * a Unix socket lets go of what is in messages that nobody has read. Then a lingering
 * socket waits no longer once its thread is interrupted, and few other files wait at
 * all (a FUSE file that is written back late does). So a Unix socket is closed at once,
 * or by a thread, mostly in some ms, and any other descriptor has a thread, which ends
 * with its close.
 */
#ifndef MPIB_BASE_CLOSER_H
#define MPIB_BASE_CLOSER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

/* As many descriptors as may come with one message of a Unix socket. */
#define MPIB_RIGHTS_MAX 253

/* Hang up, and close a Unix socket by which the user sent something, which he may have
 * done last. What has something unread waits its turn behind many of his, or until a
 * thread can be made. Any thread, never waits itself. */
void mpib_close_of(uid_t user, int sock);
/* Close a descriptor that the user sent. It waits for nothing but a thread, where
 * none can be made, and keeps no socket waiting. */
void mpib_close_received(uid_t user, int fd);
/* End a mapping of a file of the user's, and close the file. That may free all of its
 * pages: 0.2 s a GiB. It waits its turn behind the user's others. */
void mpib_unmap_of(uid_t user, void *map, size_t len, int fd);
/* Whether to receive descriptors of the user: 0; -EAGAIN: very many closes are under
 * way, for some ms at most; -EPIPE: many have been for long, or one has where those of
 * all users are very many: nothing more should be taken of him. */
int mpib_may_receive(uid_t user);
/* Whether sockets that wait take an eighth of all descriptors that the process may
 * have: then no more is to be taken of users. Most are of *most_of's. */
bool mpib_closers_full(uid_t *most_of);

/* Waits in the kernel that are to end, whatever they are for. */

/* Interrupt whatever the calling thread waits for, each ms, until timer_delete(), which
 * is the caller's. By SIGURG, which the program can have no other use for. -errno, of
 * which the first is logged. */
int mpib_interrupts_begin(timer_t *timer);

#endif
