/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of a proxy's sockets. The proxy, clients and tools must agree
 * on it. */
#ifndef MPIB_BASE_RUN_DIR_H
#define MPIB_BASE_RUN_DIR_H

#include <stdbool.h>
#include <stddef.h>

/* Write to buf the run directory that a process uses if no run directory is
 * configured, see mpib_run_dir(). Return NULL if the path exceeds `len`. Any
 * thread. */
const char *mpib_run_dir_default(char *buf, size_t len);

/* Write to buf the admin directory: it holds the admin socket of the proxy
 * whose run directory is `run_dir`. Its path is the real path of `run_dir`,
 * followed by MPIB_ADMIN_SUFFIX. So it is next to the run directory, even if
 * `run_dir` is a symbolic link. Return false if `run_dir` does not exist or the
 * path exceeds `len`. Any thread. */
bool mpib_admin_dir(const char *run_dir, char *buf, size_t len);

/* A lock file, held by a process while it serves a directory. Any thread; never
 * blocks. */

/*
 * Open the file `name` in the directory `dir` and lock it. No other user can
 * open the file, so no other user can lock it. *fd is always set: to -1, or to
 * a descriptor that the caller must close. Closing it releases the lock.
 * Return 0, or -errno of openat(2), or:
 *   -EBUSY   another process holds the lock
 *   -EAGAIN  the previous holder has just removed the file: try again
 */
int mpib_lockfile_take(int dir, const char *name, int *fd);

#endif
