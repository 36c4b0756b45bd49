/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that is connected to itself. Index 0 sends from `from`, and index 1
 * receives into `to`. Both buffers are ordinary memory. The test makes the
 * turns of the shard between the two ends.
 */
#ifndef LOOP_H
#define LOOP_H

#include "fake_proxy.h"

#define BYTES (1u << 20) /* size of `from` and `to` */

extern struct fake_proxy *f;
extern struct mpib_client *c;
extern struct mpib_conn *tx, *rx;
extern struct mpib_region *from_region, *to_region;
extern char *from, *to;

/* Setups, and the teardown, of a test. */
int loop_start(void **state);
/* As loop_start(), but the proxy may die, and the client waits for a new
 * proxy. */
int loop_start_mortal(void **state);
/* As loop_start_mortal(), with these time limits. */
int loop_start_with(void **state, uint32_t grace_ms, uint32_t answer_ms);
int loop_stop(void **state);

/* Connect a new `tx` and `rx`, and wait until both are READY. */
void connect_both(void);
struct mpib_request *send_at(size_t off, size_t size, int tag);
struct mpib_request *recv_at(size_t off, size_t size);

/* Complete request `r` of the connection at `index` with the given result,
 * without moving any bytes. */
void end_as(unsigned index, const struct mpib_request *r, int32_t result);

/* Make turns of the shard, and test `r` and `other`, until `r` completes.
 * Return the result of `r`. */
int finish(struct mpib_request *r, struct mpib_request *other, size_t *sizes);

/* Kill the proxy, and wait until the library has noticed the death. */
void dies(void);
/* Return how many requests of that type the proxy has received. */
unsigned asked(uint32_t type);
/* Wait until the proxy has received `times` requests of that type. */
void until(uint32_t type, unsigned times);
/* Wait until the helper has a new index for the connection. Then resume the
 * connection, as the connection's thread does. */
void goes_on(struct mpib_conn *conn);
void stops(const struct mpib_conn *conn);

#endif
