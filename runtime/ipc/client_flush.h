/* SPDX-License-Identifier: Apache-2.0 */
/* The flushes of a connection, on the connection's thread; see client_flush.c. */
#ifndef MPIB_IPC_CLIENT_FLUSH_H
#define MPIB_IPC_CLIENT_FLUSH_H

#include <stdbool.h>
#include <stdint.h>

struct mpib_conn;
struct mpib_request;

#define MPIB_FLUSHES_MAX 256u
/* Ring slots that grouped receives leave free for flushes. The shard handles a
 * flush even if earlier receives wait, because they may wait for a message that
 * follows the flush. */
#define MPIB_FLUSHES_KEPT 8

struct mpib_flush_queue {
	struct mpib_request *room; /* MPIB_FLUSHES_MAX; NULL: none needed */
	struct mpib_request *free; /* that were used and are done */
	struct mpib_request *first, *last; /* not pushed yet, oldest first */
	uint32_t used; /* of room: those behind were never used */
	uint32_t asked; /* flushes so far */
};

/* Whether r is done; pushes what waits. */
bool mpib_flush_over(struct mpib_request *r);
/* The connection's instance has stopped (resume.c). Keep completed flushes, and
 * move the others to left, oldest first. Returns their number. */
unsigned mpib_flush_left(struct mpib_conn *conn, struct mpib_request **left);
/* Post them again, counted from the first on. */
void mpib_flush_repost(struct mpib_conn *conn, struct mpib_request *const *left,
		       unsigned n);
/* Release r. */
void mpib_flush_give(struct mpib_request *r);
void mpib_flush_close(struct mpib_conn *conn);

#endif
