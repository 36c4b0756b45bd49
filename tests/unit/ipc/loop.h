/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client connected to itself: index 0 sends from `from`, index 1 receives
 * into `to`, both in ordinary memory. The test turns the shard between them.
 */
#ifndef LOOP_H
#define LOOP_H

#include "fake_proxy.h"

#define BYTES (1u << 20) /* of from and to */

extern struct fake_proxy *f;
extern struct mpib_client *c;
extern struct mpib_conn *tx, *rx;
extern struct mpib_region *from_region, *to_region;
extern char *from, *to;

/* Setup and teardown of a test. */
int loop_start(void **state);
/* mortal: the proxy may die, and the client waits for a new one. */
int loop_start_mortal(void **state);
/* The same with these time limits. */
int loop_start_with(void **state, uint32_t grace_ms, uint32_t answer_ms);
int loop_stop(void **state);

/* Make a new tx and rx, both READY. */
void connect_both(void);
struct mpib_request *send_at(size_t off, size_t size, int tag);
struct mpib_request *recv_at(size_t off, size_t size);

/* Complete request r of that index with this result, without moving its
 * bytes. */
void end_as(unsigned index, const struct mpib_request *r, int32_t result);

/* Turn and test r, and also `other`, until r completes. Return its result. */
int finish(struct mpib_request *r, struct mpib_request *other, size_t *sizes);

/* End the proxy's process. When this returns, the library has noticed: the test
 * must not find the old connection. */
void dies(void);
/* Return how many requests of that type came; if that is below n, wait
 * for n. */
unsigned asked(uint32_t type);
void until(uint32_t type, unsigned times);
/* Wait until the connection continues, by the work of its thread. */
void goes_on(struct mpib_conn *conn);
void stops(const struct mpib_conn *conn);

#endif
