/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that any user may have: its file system is a process of that user, which
 * answers when it likes. Whoever reads the file waits, and whoever closes it.
 */
#ifndef MPIB_TESTS_STALL_H
#define MPIB_TESTS_STALL_H

/* For children: that file, in namespaces that the caller gets; its reads and, but
 * by the caller, its closes end with the caller's process. -1: the machine lets
 * users have none. */
int stall_open(void);
/* Begin to write a page of the file to fd, at its position, by a thread of its own:
 * so the lock of fd's file, and of its position, is held from now on. False: it
 * cannot. */
_Bool stall_write(int stalled, int fd);

#endif
