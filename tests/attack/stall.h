/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What any user may have and others wait for. A file whose file system is a process
 * of that user, which answers when it likes: whoever reads the file waits, and
 * whoever closes it. And a socket that lingers.
 */
#ifndef MPIB_TESTS_STALL_H
#define MPIB_TESTS_STALL_H

#include <stddef.h>

/* For children: that file, in namespaces that the caller gets; its reads and, but
 * by the caller, its closes end with the caller's process. Or only closes by a
 * process's first thread do, as by a process that executes another program. -1: the
 * machine lets users have none. */
int stall_open(_Bool closes);
/* Begin to write a page of the file to fd, at its position, by a thread of its own:
 * so the lock of fd's file, and of its position, is held from now on. False: it
 * cannot. */
_Bool stall_write(int stalled, int fd);

/* For children: a TCP socket whose last close waits for what nobody reads; the other
 * end stays open. */
int stall_socket(void);
/* Send so many bytes with descriptors, 8 at most. -1 and errno. */
int stall_send(int sock, void *bytes, size_t len, const int *fd, unsigned fds);
/* A byte with a descriptor, by a stream, that who reads in order goes past. */
int stall_send_urgent(int sock, int fd);

#endif
