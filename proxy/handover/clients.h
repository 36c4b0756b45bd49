/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handing over the attached clients: their sockets, segments and regions.
 * Control thread.
 */
#ifndef MPIB_PROXY_HANDOVER_CLIENTS_H
#define MPIB_PROXY_HANDOVER_CLIENTS_H

#include "base/serial.h"
#include "client/client.h"

/* on: stop watching the listening socket and all clients' sockets, where
 * requests wait meanwhile; off: watch them again. */
void proxy_clients_pause(struct proxy_clients *all, bool on);
/* 0, or -EAGAIN: why names a client that is leaving or whose regions are being
 * registered or deregistered. */
int proxy_clients_quiescent(const struct proxy_clients *all, char *why,
			    size_t why_len);
/* Clients take too long to become quiescent: refuse the registrations whose memory
 * is still being allocated. */
void proxy_clients_press(struct proxy_clients *all);
/*
 * The clients with their segments and regions. Mapping and registering much memory
 * takes long in the new proxy, so this part is packed while the old proxy's traffic
 * goes on, with attaching and registering paused. Unpacking fills *all, which has no
 * listening socket and no client yet and whose engine is halted; no socket is watched
 * before proxy_clients_go_on().
 */
void proxy_clients_serialize(struct mpib_serial *p, struct proxy_clients *all);
/* The attached client with that id, for the broker; or NULL. arg is the struct
 * proxy_clients. */
struct peer_client *proxy_clients_owner(void *arg, uint32_t client);
/* Watch the clients' sockets, and accept on the listening socket fd. -errno. */
int proxy_clients_go_on(struct proxy_clients *all, int fd);

#endif
