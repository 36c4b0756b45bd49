/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting the parts of a proxy, in order. On failure they return -errno, with
 * why as in config.h, and mpib_proxy_stop() stops whatever was started. Control
 * thread.
 */
#ifndef MPIB_PROXY_START_H
#define MPIB_PROXY_START_H

#include "proxy.h"

int mpib_start(struct mpib_proxy *p, char *why);

/* peer_link.c: open the broker, with the peer link's address and key. */
int mpib_start_peer_link(struct mpib_proxy *p, char *why);

#endif
