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
#include <sys/types.h>

/* CPU time of this thread, ns. */
uint64_t mpib_waking_begin(void);
/* A call on a socket of the user's, that began then, is over. False: such calls have
 * taken so much that who has the socket is to be hung up on. */
bool mpib_waking_end(uid_t user, uint64_t began_ns);

#endif
