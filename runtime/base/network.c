/* SPDX-License-Identifier: Apache-2.0 */
#include "base/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "base/text.h"

#define V4_BITS 96u /* before the IPv4 address in its mapped form */
#define LONGEST 126u /* mask that still tells of a network */

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
				 "\"%.*s\" is no network, or one too many "
				 "(give up to %d as a.b.c.d/bits or "
				 "IPv6/bits, with zeros after the bits)",
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

/* The length of the mask of the interface that has the address; 0: none. */
static unsigned bits_of_own(const struct ifaddrs *all,
			    const struct in6_addr *own)
{
	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		struct in6_addr addr;
		unsigned bits;

		if (!i->ifa_netmask || !mpib_address_of_interface(i, &addr))
			continue;
		bits = bits_of(i->ifa_netmask);
		/* All of 127.0.0.0/8 is this machine's. */
		if (mpib_address_same(&addr, own) ||
		    (IN6_IS_ADDR_V4MAPPED(own) &&
		     ntohl(mpib_address_ip(&addr)) >> 24 == IN_LOOPBACKNET &&
		     same_bits(&addr, own, bits)))
			return bits;
	}
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
	return mpib_networks_keep(list, &net);
}

bool mpib_network_has(const struct mpib_network *net,
		      const struct in6_addr *addr)
{
	return same_bits(&net->addr, addr, net->bits);
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

int mpib_networks_keep(struct mpib_networks *list,
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
