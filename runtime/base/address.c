/* SPDX-License-Identifier: Apache-2.0 */
#include "base/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

bool mpib_address_of_interface(const struct ifaddrs *i, struct in6_addr *addr)
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

		if (mpib_address_of_interface(i, &addr) &&
		    mpib_address_same(&addr, own))
			snprintf(name, IF_NAMESIZE, "%s", i->ifa_name);
	}
	freeifaddrs(all);
}

/* The source address that the kernel would take towards text. */
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
	/* Networks of documents, RFC 5737 and 3849: nobody has a route to these
	 * but the default one. */
	return address_towards("192.0.2.1", addr) ||
	       address_towards("2001:db8::1", addr);
}
