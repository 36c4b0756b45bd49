/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that any user can create and that block other processes. The first
 * kind is a file whose file system (FUSE) is a process of the user. A process
 * that reads or closes the file waits until the file system answers. The second
 * kind is a socket that lingers.
 */
#ifndef MPIB_TESTS_STALL_H
#define MPIB_TESTS_STALL_H

#include <stddef.h>

/* For children: open the blocking file in new namespaces of the caller. Until
 * the calling process ends, reads of this file block, and so do closes of it by
 * other processes. If `closes` is set, close() blocks only in the first thread
 * of a process, for example when the process executes another program. Return
 * -1 if users of this machine may not have such a file. */
int stall_open(_Bool closes);
/* Start a thread that writes a page of the blocking file to `fd`. The write
 * never ends, so the thread keeps the file behind `fd` and its file position
 * locked. Return false if that is not possible. */
_Bool stall_write(int stalled, int fd);

/* For children: open a TCP socket whose last close waits because of unread
 * data. The other end stays open. */
int stall_socket(void);
/* Send `len` bytes with `fds` (at most 8) descriptors. Return -1 and set errno
 * on failure. */
int stall_send(int sock, void *bytes, size_t len, const int *fd, unsigned fds);
/* Send an out-of-band byte with a descriptor on a stream. A receiver that reads
 * in order skips the byte. */
int stall_send_urgent(int sock, int fd);

#endif
