/* SPDX-License-Identifier: Apache-2.0 */
/* The proxy's reason for a connection's failure. */
#ifndef MPIB_IPC_WHY_H
#define MPIB_IPC_WHY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct mpib_client;
struct mpib_conn;
struct mpib_message;

/* Of one connection. */
struct mpib_reason {
	uint64_t until; /* ms: how long to hope for it; 0: not wanted yet */
	/* Under the client's lock. */
	uint32_t asked; /* id of the WHY; 0: not sent yet */
	uint32_t heard; /* client->heard when it was sent */
	bool early; /* it was asked before the proxy knew */
	char text[240]; /* "": the proxy has none; read once told */
	_Atomic bool told;
};

/* Under the client's lock: m is an answer to WHY. */
void mpib_why_answered(struct mpib_client *c, const struct mpib_message *m);
/* On the connection's thread, which has found it failed with rc. True: the
 * reason is in conn->why. False: call again, the proxy is asked. Never waits.
 */
bool mpib_why_known(struct mpib_conn *conn, int rc);
/* On the connection's thread, before a request. 1: usable; 0: not, and why is
 * still to come; -errno: why not, with the text. */
int mpib_conn_usable(struct mpib_conn *conn);

#endif
