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

#endif
