/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that any user can have and that block other processes. One is a file
 * whose file system is a process of that user. A process that reads or closes
 * the file waits until the file system answers. The other is a socket that
 * lingers.
 */
#ifndef MPIB_TESTS_STALL_H
#define MPIB_TESTS_STALL_H

#include <stddef.h>

/* For children: open the blocking file in new namespaces of the caller. Its
 * reads block until the caller's process ends, and so do closes by other
 * processes. If `closes` is set, only closes by a process's first thread block,
 * as in a process that executes another program. Return -1 if users of this
 * machine may not have such a file. */
int stall_open(_Bool closes);
/* Begin to write a page of the file to fd, at fd's position, in a new thread.
 * From now on the thread holds the lock of fd's file and of its position.
 * Return false if that is not possible. */
_Bool stall_write(int stalled, int fd);

/* For children: open a TCP socket whose last close waits because of unread
 * data. The other end stays open. */
int stall_socket(void);
/* Send this many bytes with at most 8 descriptors. Return -1 and set errno on
 * failure. */
int stall_send(int sock, void *bytes, size_t len, const int *fd, unsigned fds);
/* Send an out-of-band byte with a descriptor on a stream. A receiver that reads
 * in order skips the byte. */
int stall_send_urgent(int sock, int fd);

#endif
