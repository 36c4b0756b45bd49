/* SPDX-License-Identifier: Apache-2.0 */
/* The start values of counters that wrap. */
#ifndef SIM_FIRST_H
#define SIM_FIRST_H

#include <stdint.h>

struct mpib_client;
struct mpib_conn;
struct sim_plan;

void sim_first_seed(const struct sim_plan *plan);
/* Set the counters of the client library: sim_first_client() for a client that
 * has attached, sim_first_conn() for a new connection. */
void sim_first_client(struct mpib_client *client);
void sim_first_conn(struct mpib_conn *conn);
/* Return the number of a connection's first receive. */
uint32_t sim_first_msg(void);
/* Return how often a connection has resumed in another instance. */
uint64_t sim_first_resumed(void);

#endif
