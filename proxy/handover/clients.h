/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attached clients, from one proxy to the next: their sockets, segments and
 * regions. Control thread.
 */
#ifndef MPIB_PROXY_HANDOVER_CLIENTS_H
#define MPIB_PROXY_HANDOVER_CLIENTS_H

#include "base/serial.h"
#include "client/client.h"

/* Listen to nobody, or to all again. What they say meanwhile waits in their
 * sockets. */
void proxy_clients_pause(struct proxy_clients *all, bool on);
/* 0, or -EAGAIN: why names who is coming, leaving or registering. */
int proxy_clients_quiescent(const struct proxy_clients *all, char *why,
			    size_t why_len);
/* Unpacked into clients with no listening socket, their engine being halted;
 * nobody is listened to yet. */
void proxy_clients_serialize(struct mpib_serial *p, struct proxy_clients *all);
/* Whose client has the id, or NULL; arg is the clients. */
struct peer_client *proxy_clients_owner(void *arg, uint32_t client);
/* Listen to them, and to those who come to the socket fd. -errno. */
int proxy_clients_go_on(struct proxy_clients *all, int fd);

#endif
