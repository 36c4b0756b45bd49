/* SPDX-License-Identifier: Apache-2.0 */
/* Where counters that wrap start. */
#ifndef SIM_FIRST_H
#define SIM_FIRST_H

#include <stdint.h>

struct mpib_client;
struct mpib_conn;
struct sim_plan;

void sim_first_seed(const struct sim_plan *plan);
/* Those of the client library: of one that has attached, of a new
 * connection. */
void sim_first_client(struct mpib_client *client);
void sim_first_conn(struct mpib_conn *conn);
/* The number of a connection's first receive. */
uint32_t sim_first_msg(void);
/* How many connections have gone on in another instance. */
uint64_t sim_first_resumed(void);

#endif
