/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mover is one connection between two nodes, with both ends in this process.
 * A mover sends messages of random size and checks them. A step does not block,
 * so one thread can drive many movers and do other work. If the proxies
 * register dma-bufs, a mover without copies registers a memfd as a dma-buf, and
 * flushes each message before it reads the bytes.
 */
#ifndef MPIB_TESTS_MOVER_H
#define MPIB_TESTS_MOVER_H

#include <mpib/client.h>
#include <stdbool.h>
#include <stdint.h>

#include "test.h"

struct mover {
	struct mpib_client *from, *to;
	struct mpib_listener *listener;
	struct mpib_conn *tx, *rx;
	struct mpib_region *tx_mr, *rx_mr;
	struct mpib_request *sent, *received, *flushed;
	char *src, *dst;
	bool allocated; /* `src` and `dst` come from mpib_mem_alloc() */
	bool device; /* `src` and `dst` were registered by mpib_reg_fd() */
	size_t room, size, got;
	enum {
		MOVER_IDLE,
		MOVER_POSTED,
		MOVER_FLYING,
		MOVER_FLUSHING
	} stage;
	uint64_t seed, messages, bytes, wrong, flushes;
};

/* Attach to the proxies with the run directories `from` and `to`, and begin to
 * connect. `room` is the size of the largest message. If `direct` is set, use
 * memory that is sent without a copy. Return 0 or -errno. */
int mover_open(struct mover *m, const char *from, const char *to, size_t room,
	       bool direct, uint64_t seed);
/* Return 1 if both ends are ready, 0 if they are not ready yet, or -errno. */
int mover_ready(struct mover *m);
/* Wait until both ends are ready. Return 0, -ETIME after a minute, or
 * -errno. */
int mover_wait(struct mover *m);
/* Call mover_open() and mover_wait(). */
int mover_begin(struct mover *m, const char *from, const char *to, size_t room,
		bool direct, uint64_t seed);
/* Move another `messages` messages. Return that number, -EBADMSG if a message
 * was wrong, or another -errno. */
int mover_move(struct mover *m, uint64_t messages);
/* Return a text for an error that one of these functions returned. */
const char *mover_why(int rc);
static inline void mover_must(int rc)
{
	if (rc < 0)
		fail_msg("%s", mover_why(rc));
}
/* Make one step, such as a post or a comparison. Return 1 if there was
 * progress, 0 if not, or -errno. */
int mover_step(struct mover *m);
/* Test the request *r. Return 1 if the request has completed or *`r` is NULL.
 * Return 0 if the request has not completed, or -errno. */
int mover_look(struct mpib_request **r, size_t *size);
/* Close the mover, which may be in any state. */
void mover_close(struct mover *m);

#endif
