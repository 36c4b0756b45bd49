/* SPDX-License-Identifier: Apache-2.0 */
/* The networks that are reached through an interface, of the kernel's main
 * routing table. Any thread. */
#ifndef MPIB_BASE_ROUTES_H
#define MPIB_BASE_ROUTES_H

#include <stdio.h>

#include "base/network.h"

/*
 * Add where the routes through the interface lead that table (as in
 * /proc/self/net/route, or ipv6_route) has, but for a default route, which says
 * nothing, and those that one network of the list holds. 0, or -ENOSPC.
 */
int mpib_routes_take(struct mpib_networks *list, const char *interface,
		     FILE *table);
int mpib_routes_take6(struct mpib_networks *list, const char *interface,
		      FILE *table);
/* Both, of the kernel's tables, for the interface that has the address; a table
 * that is not there has no routes. 0, or -ENOSPC. */
int mpib_routes_add(struct mpib_networks *list, const struct in6_addr *own);

#endif
