/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of nodes, IPv4 or IPv6. Both are a struct in6_addr: an IPv4 address
 * is mapped (::ffff:a.b.c.d), and sockets for it are IPv4 sockets. Any thread.
 */
#ifndef MPIB_BASE_ADDRESS_H
#define MPIB_BASE_ADDRESS_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct ifaddrs;

#define MPIB_ADDRESS_MAX (INET6_ADDRSTRLEN + 8) /* with brackets and port */

/* ip in network order. */
struct in6_addr mpib_address_of_ip(uint32_t ip);
/* The IPv4 address in network order; 0: it is no IPv4 address. */
uint32_t mpib_address_ip(const struct in6_addr *addr);
bool mpib_address_same(const struct in6_addr *a, const struct in6_addr *b);
/* False: text is neither a.b.c.d nor an IPv6 address. */
bool mpib_address_parse(const char *text, struct in6_addr *addr);
/* "a.b.c.d:port" or "[IPv6]:port", without ":port" if port is 0. Returns buf. */
const char *mpib_address_text(const struct in6_addr *addr, uint16_t port,
			      char *buf, size_t len);
/* Fill in the socket address for bind() and connect(); port in host order.
 * Returns its length; sa->ss_family is the family of the socket. */
socklen_t mpib_address_socket(const struct in6_addr *addr, uint16_t port,
			      struct sockaddr_storage *sa);
/* The reverse, of a struct sockaddr of either family. Returns the port in host
 * order. */
uint16_t mpib_address_take(const void *sa, struct in6_addr *addr);
/* False: it has none, or one of another kind. */
bool mpib_address_of_interface(const struct ifaddrs *i, struct in6_addr *addr);
/* The name of the interface that has exactly this address, or "". */
void mpib_address_interface(const struct in6_addr *own, char name[IF_NAMESIZE]);
/* This machine's own address on its default route; sends nothing. False: there
 * is no default route. */
bool mpib_address_default(struct in6_addr *addr);

#endif
