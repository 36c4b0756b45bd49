/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection between two clients, each of its own proxy. Both clients are in
 * this process, and the rails access the clients' memory without a copy. The
 * test posts each message itself. If a call fails, the test fails. For
 * continuous traffic, see mover.h.
 */
#ifndef MPIB_TESTS_ENDS_H
#define MPIB_TESTS_ENDS_H

#include <mpib/client.h>

#include "node.h"

#define ENDS_JOB 0xfedcba9876543210ull /* the job of all these clients */

struct ends {
	struct mpib_client *from, *to;
	struct mpib_conn *tx, *rx;
	size_t room; /* bytes of `src`, and of `dst` */
	char *src, *dst;
	struct mpib_region *src_mr, *dst_mr;
};

struct mpib_client *ends_attach(const struct node *n, const char *name);
/* Attach the clients "sender" and "receiver", allocate memory, and connect. */
void ends_open(struct ends *e, const struct node *from, const struct node *to,
	       size_t room);
/* Connect the clients. Earlier connections stay open. */
void ends_connect(struct ends *e);
void ends_detach(struct ends *e);

/* Post a send or a receive. If the library has no free request, retry. */
struct mpib_request *ends_send(const struct ends *e, size_t size, int tag);
struct mpib_request *ends_receive(const struct ends *e, int tag);
/* Wait until the request completes. Return its size. */
size_t ends_finish(struct mpib_request *r);
/* Send a message of `size` new bytes, and check the received bytes. */
void ends_move(const struct ends *e, size_t size, int tag);

#endif
