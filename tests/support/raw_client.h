/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client without the client library, for tests that violate the protocol. The
 * client attaches correctly, and the test may write anything into its segments.
 * The functions return false if the proxy refuses the request or has ended.
 */
#ifndef MPIB_TESTS_RAW_CLIENT_H
#define MPIB_TESTS_RAW_CLIENT_H

#include <mpib/control.h>
#include <mpib/segment.h>
#include <stdbool.h>

struct raw_client {
	int sock, doorbell;
	struct mpib_submit *submit;
	const struct mpib_reply *reply;
	uint32_t listener; /* 0 if there is no listener */
	struct mpib_handle handle; /* the listener's handle */
	uint64_t tail[MPIB_INDEXES_MAX];
};

/* Attach over `sock`, which is connected to the control socket. The client
 * takes ownership of `sock`. */
bool raw_attach(struct raw_client *x, int sock);
/* Get a registered pool of `bytes` bytes. The caller unmaps *mem. */
bool raw_pool(struct raw_client *x, size_t bytes, uint32_t *mr, void **mem);
/* Make a connection from this client to itself. Wait until neither end is
 * PENDING. */
bool raw_pair(struct raw_client *x, uint32_t rx, uint32_t tx);
/* Close connection `index`, and wait until its state is FREE. */
bool raw_close(struct raw_client *x, uint32_t index);
uint32_t raw_state(const struct raw_client *x, uint32_t index);
/* Push `d` into the ring of connection `index` without checking it. */
void raw_push(struct raw_client *x, uint32_t index, const struct mpib_desc *d);
/* Do the same as raw_push(), but do not ring the doorbell, see raw_ring(). */
void raw_put(struct raw_client *x, uint32_t index, const struct mpib_desc *d);
/* Set bits in word number `word` of the summary, and ring the doorbell. */
void raw_ring(struct raw_client *x, unsigned word, uint64_t bits);
void raw_detach(struct raw_client *x);

#endif
