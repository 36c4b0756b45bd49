/* SPDX-License-Identifier: Apache-2.0 */
/* A list of networks, IPv4 and IPv6, and whether an address is in one. */
#ifndef MPIB_BASE_NETWORK_H
#define MPIB_BASE_NETWORK_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#define MPIB_NETWORKS_MAX 32

struct mpib_networks {
	unsigned n; /* 0: no network is given, and every address counts as in */
	struct mpib_network {
		struct in6_addr addr; /* see base/address.h */
		unsigned bits; /* of the mapped form: 96 more for IPv4 */
	} net[MPIB_NETWORKS_MAX];
};

/* Parse one network of len characters. -EINVAL: it is none, or has other than
 * zeros after the bits. Any thread, as all of these. */
int mpib_network_parse(const char *text, size_t len, struct mpib_network *net);
/*
 * Parse "10.1.0.0/16,fd00:1::/32"; empty is none. -EINVAL with why, a sentence
 * fragment that names the fault and the remedy.
 */
int mpib_networks_parse(struct mpib_networks *list, const char *text, char *why,
			size_t why_len);
/*
 * Add the network of this machine's own address, as its interface has it. 0;
 * -ENOENT: no interface has the address; -ERANGE: it has so long a mask (from
 * /31, for IPv6 /127) that it tells of no network; -ENOSPC; -errno.
 */
int mpib_networks_add_own(struct mpib_networks *list,
			  const struct in6_addr *own);
bool mpib_network_has(const struct mpib_network *net,
		      const struct in6_addr *addr);
bool mpib_networks_have(const struct mpib_networks *list,
			const struct in6_addr *addr);
/* Add net, unless all of it is in one network of the list. 0, or -ENOSPC. */
int mpib_networks_keep(struct mpib_networks *list,
		       const struct mpib_network *net);

#endif
