/* SPDX-License-Identifier: Apache-2.0 */
/* A client's descriptor that changes while the proxy reads it. */
#ifndef MPIB_TESTS_REWRITE_H
#define MPIB_TESTS_REWRITE_H

#include <mpib/ring.h>

/* Change one field of s to another value for a moment. mr and lower numbers are
 * regions of the client with `bytes` each. len is the length of a message. */
void rewrite_slot(struct mpib_ring_slot *s, uint32_t mr, uint64_t bytes,
		  uint32_t len, uint64_t *rng);

#endif
