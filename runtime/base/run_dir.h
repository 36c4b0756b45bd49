/* SPDX-License-Identifier: Apache-2.0 */
/* Where a proxy's sockets are; proxy, clients and tools agree on it. */
#ifndef MPIB_BASE_RUN_DIR_H
#define MPIB_BASE_RUN_DIR_H

#include <stdbool.h>
#include <stddef.h>

/* Write the run directory that a process looks into which was told of none into
 * buf: see mpib_run_dir(). NULL when it exceeds len. Any thread. */
const char *mpib_run_dir_default(char *buf, size_t len);

/* Write the directory of the admin socket of the proxy that runs in run_dir
 * into buf: the run directory's whole path, without links, and
 * MPIB_ADMIN_SUFFIX. So it is beside the run directory however that is spelt.
 * False when run_dir does not exist or the path exceeds len. Any thread. */
bool mpib_admin_dir(const char *run_dir, char *buf, size_t len);

/*
 * A file that is locked for as long as a process serves a directory. Any thread;
 * nothing waits.
 */

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
