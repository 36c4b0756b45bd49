/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it costs to wake those who wait at the other end of a user's socket. Whoever
 * sends to it, or reads from it, goes through the list of them, which is as long as
 * the user likes. Control thread.
 */
#ifndef MPIB_BASE_WAKING_H
#define MPIB_BASE_WAKING_H

#include <stdbool.h>
#include <stdint.h>

/* Of a socket. Zeroed memory is one on which there were no calls. */
struct mpib_waking {
	unsigned
		slow; /* grows with each call that was, and shrinks with others */
	uint64_t took_ns; /* by those that were, since it was 0 */
};

/* CPU time of this thread, ns. */
uint64_t mpib_waking_begin(void);
/* A call on the socket, that began then, is over. False: nearly each takes much, and
 * all did so much that the socket is to be hung up on. A few that do say nothing: a
 * machine whose CPUs are others', too, counts what it has them for, and it may be at any
 * place. */
bool mpib_waking_end(struct mpib_waking *w, uint64_t began_ns);

#endif
