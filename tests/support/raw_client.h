/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client without the client library, which keeps no rule but what its test
 * wants: it asks properly for what it needs and then has the segments in its
 * hands. False: the proxy refused, or is gone.
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
	uint32_t listener; /* 0: none */
	struct mpib_handle handle; /* its */
	uint64_t tail[MPIB_CONNS_MAX];
};

/* sock: connected to the control socket; the client's from now on. */
bool raw_attach(struct raw_client *x, int sock);
/* A registered pool of so many bytes; mem is the client's to unmap. */
bool raw_pool(struct raw_client *x, size_t bytes, uint32_t *mr, void **mem);
/* A connection from this client to itself; returns when neither end is
 * PENDING. */
bool raw_pair(struct raw_client *x, uint32_t rx, uint32_t tx);
/* Returns when the index is FREE. */
bool raw_close(struct raw_client *x, uint32_t index);
uint32_t raw_state(const struct raw_client *x, uint32_t index);
/* Into the ring at index, as it is. */
void raw_push(struct raw_client *x, uint32_t index, const struct mpib_desc *d);
/* Set bits of a word of the summary and ring the doorbell. */
void raw_ring(struct raw_client *x, unsigned word, uint64_t bits);
void raw_detach(struct raw_client *x);

#endif
