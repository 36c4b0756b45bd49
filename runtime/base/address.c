/* SPDX-License-Identifier: Apache-2.0 */
#include "base/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

struct in6_addr mpib_address_of_ip(uint32_t ip)
{
	struct in6_addr addr = { .s6_addr = { [10] = 0xff, [11] = 0xff } };

	memcpy(&addr.s6_addr[12], &ip, sizeof(ip));
	return addr;
}

uint32_t mpib_address_ip(const struct in6_addr *addr)
{
	uint32_t ip = 0;

	if (IN6_IS_ADDR_V4MAPPED(addr))
		memcpy(&ip, &addr->s6_addr[12], sizeof(ip));
	return ip;
}

bool mpib_address_same(const struct in6_addr *a, const struct in6_addr *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

bool mpib_address_parse(const char *text, struct in6_addr *addr)
{
	struct in_addr ip;

	if (inet_pton(AF_INET, text, &ip) == 1) {
		*addr = mpib_address_of_ip(ip.s_addr);
		return true;
	}
	return inet_pton(AF_INET6, text, addr) == 1;
}

const char *mpib_address_text(const struct in6_addr *addr, uint16_t port,
			      char *buf, size_t len)
{
	bool v4 = IN6_IS_ADDR_V4MAPPED(addr);
	char text[INET6_ADDRSTRLEN];

	inet_ntop(v4 ? AF_INET : AF_INET6,
		  v4 ? (const void *)&addr->s6_addr[12] : addr, text,
		  sizeof(text));
	if (port == 0)
		snprintf(buf, len, "%s", text);
	else
		snprintf(buf, len, v4 ? "%s:%u" : "[%s]:%u", text, port);
	return buf;
}

socklen_t mpib_address_socket(const struct in6_addr *addr, uint16_t port,
			      struct sockaddr_storage *sa)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)sa;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)sa;

	memset(sa, 0, sizeof(*sa));
	if (IN6_IS_ADDR_V4MAPPED(addr)) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		v4->sin_addr.s_addr = mpib_address_ip(addr);
		return sizeof(*v4);
	}
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(port);
	v6->sin6_addr = *addr;
	return sizeof(*v6);
}

uint16_t mpib_address_take(const void *sa, struct in6_addr *addr)
{
	const struct sockaddr_in *v4 = sa;
	const struct sockaddr_in6 *v6 = sa;

	if (v4->sin_family == AF_INET6) {
		*addr = v6->sin6_addr;
		return ntohs(v6->sin6_port);
	}
	*addr = mpib_address_of_ip(v4->sin_addr.s_addr);
	return ntohs(v4->sin_port);
}

/* Get an interface's address. Return false if the interface has no address, or
 * if the address is neither IPv4 nor IPv6. */
static bool address_of_interface(const struct ifaddrs *i, struct in6_addr *addr)
{
	int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;

	if (family != AF_INET && family != AF_INET6)
		return false;
	mpib_address_take(i->ifa_addr, addr);
	return true;
}

void mpib_address_interface(const struct in6_addr *own, char name[IF_NAMESIZE])
{
	struct ifaddrs *all;

	*name = '\0';
	if (getifaddrs(&all) < 0)
		return;
	for (const struct ifaddrs *i = all; i && !*name; i = i->ifa_next) {
		struct in6_addr addr;

		if (address_of_interface(i, &addr) &&
		    mpib_address_same(&addr, own))
			snprintf(name, IF_NAMESIZE, "%s", i->ifa_name);
	}
	freeifaddrs(all);
}

/* Find the source address that the kernel would use for packets to the address
 * in `text`. */
static bool address_towards(const char *text, struct in6_addr *addr)
{
	struct sockaddr_storage sa;
	struct in6_addr far;
	socklen_t len;
	bool found;
	int fd;

	mpib_address_parse(text, &far);
	len = mpib_address_socket(&far, 9, &sa);
	fd = socket(sa.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	found = connect(fd, (struct sockaddr *)&sa, len) == 0;
	len = sizeof(sa);
	found = found && getsockname(fd, (struct sockaddr *)&sa, &len) == 0;
	close(fd);
	if (found)
		mpib_address_take(&sa, addr);
	return found;
}

bool mpib_address_default(struct in6_addr *addr)
{
	/* Use addresses that are reserved for documentation (RFC 5737, RFC
	 * 3849): only the default route leads to them. */
	return address_towards("192.0.2.1", addr) ||
	       address_towards("2001:db8::1", addr);
}

#define V4_BITS 96u /* IPv4-mapped form: bits before the IPv4 address */
#define LONGEST 126u /* longest mask, in bits, that still describes a network */

static bool same_bits(const struct in6_addr *a, const struct in6_addr *b,
		      unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	if (memcmp(a, b, whole))
		return false;
	return !rest ||
	       !((a->s6_addr[whole] ^ b->s6_addr[whole]) >> (8 - rest));
}

static struct in6_addr first_of(const struct in6_addr *addr, unsigned bits)
{
	struct in6_addr first = { 0 };

	for (unsigned i = 0; i < bits; i++)
		first.s6_addr[i / 8] |= addr->s6_addr[i / 8] & 0x80 >> i % 8;
	return first;
}

int mpib_network_parse(const char *text, size_t len, struct mpib_network *net)
{
	char buf[INET6_ADDRSTRLEN + 8], *slash;
	struct in6_addr first;
	uint64_t bits;

	if (len >= sizeof(buf))
		return -EINVAL;
	memcpy(buf, text, len);
	buf[len] = '\0';
	slash = strchr(buf, '/');
	if (!slash || !mpib_number(slash + 1, 0, 128, &bits))
		return -EINVAL;
	*slash = '\0';
	if (!mpib_address_parse(buf, &net->addr))
		return -EINVAL;
	if (!strchr(buf, ':'))
		bits += V4_BITS;
	if (bits > 128)
		return -EINVAL;
	net->bits = (unsigned)bits;
	first = first_of(&net->addr, net->bits);
	return mpib_address_same(&first, &net->addr) ? 0 : -EINVAL;
}

int mpib_networks_parse(struct mpib_networks *list, const char *text, char *why,
			size_t why_len)
{
	list->n = 0;
	for (const char *at = text; *at;) {
		size_t len = strcspn(at, ",");

		if (list->n == MPIB_NETWORKS_MAX ||
		    mpib_network_parse(at, len, &list->net[list->n]) < 0) {
			snprintf(why, why_len,
				 "\"%.*s\" is not a network, or is one too "
				 "many (give at most %d as a.b.c.d/LEN or "
				 "IPv6/LEN, with zeros after the first LEN "
				 "bits)",
				 (int)(len < 64 ? len : 64), at,
				 MPIB_NETWORKS_MAX);
			return -EINVAL;
		}
		list->n++;
		at += len;
		at += *at == ',';
	}
	return 0;
}

static unsigned bits_of(const struct sockaddr *mask)
{
	unsigned skip = mask->sa_family == AF_INET6 ? 0 : V4_BITS, bits = 0;
	struct in6_addr addr;

	mpib_address_take(mask, &addr);
	for (unsigned i = skip; i < 128; i++)
		bits += addr.s6_addr[i / 8] >> (7 - i % 8) & 1;
	return bits + skip;
}

/* Return the mask length of the interface that has the address; 0: no interface
 * has it. */
static unsigned bits_of_own(const struct ifaddrs *all,
			    const struct in6_addr *own)
{
	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		struct in6_addr addr;
		unsigned bits;

		if (!i->ifa_netmask || !address_of_interface(i, &addr))
			continue;
		bits = bits_of(i->ifa_netmask);
		/* All of 127.0.0.0/8 belongs to this machine. */
		if (mpib_address_same(&addr, own) ||
		    (IN6_IS_ADDR_V4MAPPED(own) &&
		     ntohl(mpib_address_ip(&addr)) >> 24 == IN_LOOPBACKNET &&
		     same_bits(&addr, own, bits)))
			return bits;
	}
	return 0;
}

bool mpib_network_has(const struct mpib_network *net,
		      const struct in6_addr *addr)
{
	return same_bits(&net->addr, addr, net->bits);
}

/* Add `net`, unless one network of the list contains it. Return 0 or
 * -ENOSPC. */
static int networks_keep(struct mpib_networks *list,
			 const struct mpib_network *net)
{
	for (unsigned i = 0; i < list->n; i++) {
		const struct mpib_network *have = &list->net[i];

		if (have->bits <= net->bits &&
		    mpib_network_has(have, &net->addr))
			return 0;
	}
	if (list->n == MPIB_NETWORKS_MAX)
		return -ENOSPC;
	list->net[list->n++] = *net;
	return 0;
}

int mpib_networks_add_own(struct mpib_networks *list,
			  const struct in6_addr *own)
{
	struct mpib_network net;
	struct ifaddrs *all;

	if (list->n == MPIB_NETWORKS_MAX)
		return -ENOSPC;
	if (getifaddrs(&all) < 0)
		return -errno;
	net.bits = bits_of_own(all, own);
	freeifaddrs(all);
	if (net.bits == 0)
		return -ENOENT;
	if (net.bits > LONGEST)
		return -ERANGE;
	net.addr = first_of(own, net.bits);
	return networks_keep(list, &net);
}

bool mpib_networks_have(const struct mpib_networks *list,
			const struct in6_addr *addr)
{
	for (unsigned i = 0; i < list->n; i++) {
		if (mpib_network_has(&list->net[i], addr))
			return true;
	}
	return list->n == 0;
}

#define UP 0x1u /* RTF_UP */
#define REJECT 0x200u /* RTF_REJECT */

/* Split a line at its blanks, in place. Return the number of fields, at most
 * `max`. */
static unsigned split(char *line, char **field, unsigned max)
{
	unsigned n = 0;
	char *at = NULL;

	for (char *f = strtok_r(line, " \t\n", &at); f && n < max;
	     f = strtok_r(NULL, " \t\n", &at))
		field[n++] = f;
	return n;
}

static unsigned long hex(const char *text)
{
	return strtoul(text, NULL, 16);
}

static bool leads_somewhere(unsigned long flags)
{
	return (flags & (UP | REJECT)) == UP;
}

/* Fields of a line: interface, destination, gateway, flags, three counters,
 * mask. Numbers are hexadecimal. Addresses are in network order. */
int mpib_routes_take(struct mpib_networks *list, const char *interface,
		     FILE *table)
{
	char line[256], *field[8];
	int rc = 0;

	while (rc == 0 && fgets(line, sizeof(line), table)) {
		struct mpib_network net;

		if (split(line, field, 8) < 8 ||
		    strcmp(field[0], interface) != 0 || hex(field[7]) == 0 ||
		    !leads_somewhere(hex(field[3])))
			continue;
		net.addr = mpib_address_of_ip((uint32_t)hex(field[1]));
		net.bits =
			V4_BITS + (unsigned)__builtin_popcountl(hex(field[7]));
		rc = networks_keep(list, &net);
	}
	return rc;
}

static bool hex_address(const char *text, struct in6_addr *addr)
{
	if (strlen(text) != 2 * sizeof(addr->s6_addr))
		return false;
	for (size_t i = 0; i < sizeof(addr->s6_addr); i++) {
		const char byte[] = { text[2 * i], text[2 * i + 1], '\0' };

		addr->s6_addr[i] = (uint8_t)hex(byte);
	}
	return true;
}

/* Fields of a line: destination and prefix length, source and prefix length,
 * gateway, metric, two counters, flags, interface. */
int mpib_routes_take6(struct mpib_networks *list, const char *interface,
		      FILE *table)
{
	char line[256], *field[10];
	int rc = 0;

	while (rc == 0 && fgets(line, sizeof(line), table)) {
		struct mpib_network net;

		if (split(line, field, 10) < 10 ||
		    strcmp(field[9], interface) != 0 ||
		    !leads_somewhere(hex(field[8])) ||
		    !hex_address(field[0], &net.addr) ||
		    IN6_IS_ADDR_LINKLOCAL(&net.addr) ||
		    IN6_IS_ADDR_MULTICAST(&net.addr))
			continue;
		net.bits = (unsigned)hex(field[1]);
		if (net.bits > 0 && net.bits <= 128)
			rc = networks_keep(list, &net);
	}
	return rc;
}

int mpib_routes_add(struct mpib_networks *list, const struct in6_addr *own)
{
	static const char *const path[] = { "/proc/self/net/route",
					    "/proc/self/net/ipv6_route" };
	char name[IF_NAMESIZE];
	int rc = 0;

	mpib_address_interface(own, name);
	for (unsigned i = 0; rc == 0 && *name && i < 2; i++) {
		FILE *table = fopen(path[i], "re");

		if (!table)
			continue;
		rc = i == 0 ? mpib_routes_take(list, name, table)
			    : mpib_routes_take6(list, name, table);
		fclose(table);
	}
	return rc;
}
