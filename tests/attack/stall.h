/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that any user can have and that block others. A file whose file
 * system is a process of that user, which answers when it likes: a process that
 * reads or closes the file waits. And a socket that lingers.
 */
#ifndef MPIB_TESTS_STALL_H
#define MPIB_TESTS_STALL_H

#include <stddef.h>

/* For children: open that file, in new namespaces of the caller. Its reads, and
 * its closes by other processes, block until the caller's process ends. With
 * closes, only closes by a process's first thread do, as in a process that
 * executes another program. Returns -1 if the machine does not allow users such
 * a file. */
int stall_open(_Bool closes);
/* Begin to write a page of the file to fd, at its position, in a new thread,
 * which holds the lock of fd's file and of its position from now on. Returns
 * false if that is not possible. */
_Bool stall_write(int stalled, int fd);

/* For children: open a TCP socket whose last close waits for unread data; the
 * other end stays open. */
int stall_socket(void);
/* Send this many bytes with at most 8 descriptors. Returns -1 and sets errno on
 * failure. */
int stall_send(int sock, void *bytes, size_t len, const int *fd, unsigned fds);
/* Send an out-of-band byte with a descriptor on a stream, which a reader in
 * order skips. */
int stall_send_urgent(int sock, int fd);

#endif
