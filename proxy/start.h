/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of a proxy comes up in which order: of the first one, and of one that
 * takes over from another. proxy.c takes down again whatever came up. Each says
 * why as in config.h where it fails, with -errno. Control thread.
 */
#ifndef MPIB_PROXY_START_H
#define MPIB_PROXY_START_H

#include "proxy.h"

int mpib_start_first(struct mpib_proxy *p, char *why);
/* Up to its last step it leaves no trace: where one fails before, it tells the
 * other proxy, and the process ends. */
int mpib_start_next(struct mpib_proxy *p, char *why);

/* peer_link.c: the link to other nodes, at its address and with its key. */
int mpib_start_peer_link(struct mpib_proxy *p, char *why);

#endif
