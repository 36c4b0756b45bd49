/* SPDX-License-Identifier: Apache-2.0 */
/* Change a client's descriptor while the proxy reads it. */
#ifndef MPIB_TESTS_REWRITE_H
#define MPIB_TESTS_REWRITE_H

#include <mpib/ring.h>

/* Change one field of the descriptor in `s` for a moment, then restore it. `mr`
 * is the client's highest region number. `bytes` is the size of the client's
 * regions. `len` is the length of a message. */
void rewrite_slot(struct mpib_ring_slot *s, uint32_t mr, uint64_t bytes,
		  uint32_t len, uint64_t *rng);

#endif
