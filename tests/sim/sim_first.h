/* SPDX-License-Identifier: Apache-2.0 */
/* Set the start values of counters that wrap. */
#ifndef SIM_FIRST_H
#define SIM_FIRST_H

#include <stdint.h>

struct mpib_client;
struct mpib_conn;
struct sim_plan;

void sim_first_seed(const struct sim_plan *plan);
/* Set the counters of the client library. Call sim_first_client() when a client
 * has attached, and sim_first_conn() for a new connection. */
void sim_first_client(struct mpib_client *client);
void sim_first_conn(struct mpib_conn *conn);
/* Return the number of a connection's first receive. */
uint32_t sim_first_msg(void);
/* Return how many times a connection was resumed at another instance of a
 * proxy. */
uint64_t sim_first_resumed(void);

#endif
