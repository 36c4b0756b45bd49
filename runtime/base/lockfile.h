/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that is locked for as long as a process serves a directory. Any thread;
 * nothing waits.
 */
#ifndef MPIB_BASE_LOCKFILE_H
#define MPIB_BASE_LOCKFILE_H

/*
 * Open name in the directory dir, as a file that nobody else can open, and so lock,
 * and lock it. *fd is the caller's, whatever is returned: -1, or a file to close,
 * which ends the lock.
 *   -EBUSY   another process holds it
 *   -EAGAIN  its last holder removed it meanwhile: try again
 *   or -errno of openat(2)
 */
int mpib_lockfile_take(int dir, const char *name, int *fd);

#endif
