/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of nodes, IPv4 or IPv6. Both are stored as struct in6_addr: an IPv4
 * address is mapped (::ffff:a.b.c.d), and sockets for it are IPv4 sockets. Any
 * thread.
 */
#ifndef MPIB_BASE_ADDRESS_H
#define MPIB_BASE_ADDRESS_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

struct ifaddrs;

#define MPIB_ADDRESS_MAX (INET6_ADDRSTRLEN + 8) /* with brackets and port */

/* Return the mapped form of an IPv4 address; `ip` is in network order. */
struct in6_addr mpib_address_of_ip(uint32_t ip);
/* Return the IPv4 address in network order; 0: `addr` is not IPv4. */
uint32_t mpib_address_ip(const struct in6_addr *addr);
bool mpib_address_same(const struct in6_addr *a, const struct in6_addr *b);
/* Return false if `text` is neither a.b.c.d nor an IPv6 address. */
bool mpib_address_parse(const char *text, struct in6_addr *addr);
/* Write "a.b.c.d:port" or "[IPv6]:port", without ":port" if port is 0. Return
 * buf. */
const char *mpib_address_text(const struct in6_addr *addr, uint16_t port,
			      char *buf, size_t len);
/* Fill in the socket address for bind() and connect(); `port` is in host order.
 * Return its length. The socket's family is sa->ss_family. */
socklen_t mpib_address_socket(const struct in6_addr *addr, uint16_t port,
			      struct sockaddr_storage *sa);
/* Read a struct sockaddr of either family. Return the port in host order. */
uint16_t mpib_address_take(const void *sa, struct in6_addr *addr);
/* Write the name of the interface that has exactly this address, or "". */
void mpib_address_interface(const struct in6_addr *own, char name[IF_NAMESIZE]);
/* Find this machine's source address on its default route, without sending
 * anything. Return false if there is no default route. */
bool mpib_address_default(struct in6_addr *addr);

/* A list of IPv4 and IPv6 networks, to test whether one of them contains an
 * address. */

#define MPIB_NETWORKS_MAX 32

struct mpib_networks {
	unsigned n; /* 0: no list was given, so every address matches */
	struct mpib_network {
		struct in6_addr addr; /* an IPv4 address is mapped */
		/* prefix length in IPv6 form, so 96 more for IPv4 */
		unsigned bits;
	} net[MPIB_NETWORKS_MAX];
};

/* Parse one network in the first `len` characters of `text`. -EINVAL: the text
 * is not a network, or the network's host bits are not zero. All functions
 * here: any thread. */
int mpib_network_parse(const char *text, size_t len, struct mpib_network *net);
/* Parse "10.1.0.0/16,fd00:1::/32"; an empty text is an empty list. On -EINVAL,
 * `why` contains the fault and the remedy, as part of a sentence. */
int mpib_networks_parse(struct mpib_networks *list, const char *text, char *why,
			size_t why_len);
/* Add the network of this machine's own address, with the mask of the address's
 * interface. Returns 0, -ENOSPC or another -errno. -ENOENT: no interface has
 * the address. -ERANGE: the mask is too long to describe a network (/31 or
 * longer, for IPv6 /127 or longer). */
int mpib_networks_add_own(struct mpib_networks *list,
			  const struct in6_addr *own);
bool mpib_network_has(const struct mpib_network *net,
		      const struct in6_addr *addr);
bool mpib_networks_have(const struct mpib_networks *list,
			const struct in6_addr *addr);

/* Find the networks that are reached through an interface, from the kernel's
 * main routing table. Any thread. */

/* `table` has the format of /proc/self/net/route or, for mpib_routes_take6(),
 * of /proc/self/net/ipv6_route. Add the destinations of its routes through the
 * interface, except the default route and destinations inside a network of the
 * list. Return 0 or -ENOSPC. */
int mpib_routes_take(struct mpib_networks *list, const char *interface,
		     FILE *table);
int mpib_routes_take6(struct mpib_networks *list, const char *interface,
		      FILE *table);
/* Add the routes of both kernel tables for the interface that has the address.
 * A missing table counts as empty. Return 0 or -ENOSPC. */
int mpib_routes_add(struct mpib_networks *list, const struct in6_addr *own);

#endif
