/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that is connected to itself. Index 0 sends from `from`, and index 1
 * receives into `to`. Both buffers are ordinary memory. The test makes the
 * turns of the shard between them.
 */
#ifndef LOOP_H
#define LOOP_H

#include "fake_proxy.h"

#define BYTES (1u << 20) /* size of from and to */

extern struct fake_proxy *f;
extern struct mpib_client *c;
extern struct mpib_conn *tx, *rx;
extern struct mpib_region *from_region, *to_region;
extern char *from, *to;

/* Setup and teardown of a test. */
int loop_start(void **state);
/* The proxy may die, and the client waits for a new one. */
int loop_start_mortal(void **state);
/* Do the same with these time limits. */
int loop_start_with(void **state, uint32_t grace_ms, uint32_t answer_ms);
int loop_stop(void **state);

/* Make a new tx and rx, and wait until both are READY. */
void connect_both(void);
struct mpib_request *send_at(size_t off, size_t size, int tag);
struct mpib_request *recv_at(size_t off, size_t size);

/* Complete request r of that index with this result. Move none of its bytes. */
void end_as(unsigned index, const struct mpib_request *r, int32_t result);

/* Turn the shard and test r, and also `other`, until r completes. Return its
 * result. */
int finish(struct mpib_request *r, struct mpib_request *other, size_t *sizes);

/* End the proxy's process. Return when the library has noticed. Otherwise the
 * test would find the old connection. */
void dies(void);
/* Wait until at least n requests of that type have arrived. Return their
 * number. */
unsigned asked(uint32_t type);
void until(uint32_t type, unsigned times);
/* Wait until the connection continues. Its thread must do some work for
 * that. */
void goes_on(struct mpib_conn *conn);
void stops(const struct mpib_conn *conn);

#endif
