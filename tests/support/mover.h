/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection between two nodes, from this process, over which messages of
 * random size go and are compared, step by step. It never waits for long, so
 * one thread can drive many beside whatever else it does.
 */
#ifndef MPIB_TESTS_MOVER_H
#define MPIB_TESTS_MOVER_H

#include <mpib/client.h>
#include <stdbool.h>
#include <stdint.h>

struct mover {
	struct mpib_client *from, *to;
	struct mpib_listener *listener;
	struct mpib_conn *tx, *rx;
	struct mpib_region *tx_mr, *rx_mr;
	struct mpib_request *sent, *received;
	char *src, *dst;
	bool allocated; /* both from mpib_mem_alloc() */
	size_t room, size, got;
	enum {
		MOVER_IDLE,
		MOVER_POSTED,
		MOVER_FLYING
	} stage;
	uint64_t seed, messages, bytes, wrong;
};

/* Attach to the proxies at both run directories and begin to connect. room is
 * the largest message; direct memory needs no copy. -errno. */
int mover_open(struct mover *m, const char *from, const char *to, size_t room,
	       bool direct, uint64_t seed);
/* The same in two steps: nobody accepts before the second. */
int mover_call(struct mover *m, const char *from, const char *to, size_t room,
	       bool direct, uint64_t seed);
int mover_answer(struct mover *m);
/* 1 when both ends are ready, 0 not yet, -errno. */
int mover_ready(struct mover *m);
/* One look: post, test, compare. 1 when something happened, 0, -errno of the
 * first call that failed. */
int mover_step(struct mover *m);
/* In any state. */
void mover_close(struct mover *m);

#endif
