/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two kinds of objects that any user can create, and on which system calls of
 * other processes block. The first is a file of a FUSE file system, whose
 * server is a process of the user. A process that reads or closes this file
 * waits until the server answers. The second is a socket that lingers.
 */
#ifndef MPIB_TESTS_STALL_H
#define MPIB_TESTS_STALL_H

#include <stddef.h>

/* Call this only in a child process. Move the caller into a new user namespace
 * and a new mount namespace, and open the blocking file there. Until the caller
 * ends, a read of this file blocks in any process, and a close blocks in other
 * processes. If `closes` is set, only a close() by the first thread of a
 * process blocks, for example when the process executes another program. Return
 * -1 if this machine does not allow such a file. */
int stall_open(_Bool closes);
/* Start a thread that writes a page of the blocking file to `fd`. The write
 * never ends, so the file of `fd` and its file position stay locked. Return
 * false if the thread cannot be started. */
_Bool stall_write(int stalled, int fd);

/* Call this only in a child process. Open a TCP socket whose last close waits
 * because of unread data. The other end stays open. */
int stall_socket(void);
/* Send `len` bytes with `fds` (at most 8) descriptors. Return -1 and set errno
 * on failure. */
int stall_send(int sock, void *bytes, size_t len, const int *fd, unsigned fds);
/* Send an out-of-band byte with a descriptor on a stream. A receiver that does
 * not read out-of-band data skips the byte. */
int stall_send_urgent(int sock, int fd);

#endif
