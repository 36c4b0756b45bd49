/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of a request's arguments. On the connection's thread, only on the slow
 * path; with a text. */
#ifndef MPIB_IPC_ARGUMENTS_H
#define MPIB_IPC_ARGUMENTS_H

#include <stddef.h>

struct mpib_client;
struct mpib_conn;
struct mpib_region;

/* 0, or -errno: of n buffers that a connection of c is to send or to receive. */
int mpib_check_buffers(const struct mpib_client *c, int n, void *const *data,
		       const size_t *size, struct mpib_region *const *region);
/* conn is asked for what only its other end does. -EINVAL, or why conn cannot be
 * used at all. */
int mpib_wrong_end(struct mpib_conn *conn, const char *what);

#endif
