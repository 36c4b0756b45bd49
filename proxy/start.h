/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting the parts of a proxy, in order: of a proxy that starts afresh, and
 * of a new proxy that takes over. On failure they return -errno, with why as in
 * config.h, and mpib_proxy_stop() stops whatever was started. Control thread.
 */
#ifndef MPIB_PROXY_START_H
#define MPIB_PROXY_START_H

#include "proxy.h"

int mpib_start_first(struct mpib_proxy *p, char *why);
/* Take over from the old proxy. If that fails before TAKEN is sent, nothing has
 * changed: tells the old proxy why and ends this process. */
int mpib_start_next(struct mpib_proxy *p, char *why);

/* peer_link.c: open the broker, with the peer link's address and key. */
int mpib_start_peer_link(struct mpib_proxy *p, char *why);

#endif
