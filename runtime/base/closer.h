/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closing descriptors that users created. The last close of a descriptor can
 * last as long as its creator likes: for a FUSE file the kernel asks the user's
 * daemon, a TCP socket lingers, and a Unix socket closes every descriptor in
 * its unread messages. An interrupt ends the lingering of a socket; few other
 * files wait at all (a FUSE file with late write-back does). So a Unix socket
 * is closed immediately, or by a thread within some ms. Any other descriptor
 * gets a thread, which ends with its close.
 */
#ifndef MPIB_BASE_CLOSER_H
#define MPIB_BASE_CLOSER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

/* The most descriptors that one message of a Unix socket can carry. */
#define MPIB_RIGHTS_MAX 253

/* Shut down and close a Unix socket over which the user sent something, perhaps
 * after the last read. If it holds unread messages, the close is queued behind
 * the user's earlier closes, or until a thread can be started. Any thread;
 * never blocks. */
void mpib_close_of(uid_t user, int sock);
/* Close a descriptor that the user sent, on a thread. Blocks only if no thread
 * can be started; for a socket it never blocks. */
void mpib_close_received(uid_t user, int fd);
/* End a mapping of a user's file, and close the file. This may free all of its
 * pages, which takes 0.2 s per GiB. It is queued behind the user's earlier
 * closes. */
void mpib_unmap_of(uid_t user, void *map, size_t len, int fd);
/* Return whether to receive descriptors from the user. 0: yes; -EAGAIN: very
 * many closes run, retry in some ms; -EPIPE: receive nothing more from this
 * user, because many closes have lasted long, or one has while all users
 * together have very many. */
int mpib_may_receive(uid_t user);
/* Return whether waiting sockets use an eighth of the process's descriptors:
 * then accept nothing more from users. *most_of becomes the user with the most
 * of them. */
bool mpib_closers_full(uid_t *most_of);

/* Ending waits in the kernel. */

/* Interrupt the calling thread each ms, whatever it waits for, until the caller
 * calls timer_delete(). Uses SIGURG, so the program cannot use that signal.
 * -errno; only the first error is logged. */
int mpib_interrupts_begin(timer_t *timer);

#endif
