/* SPDX-License-Identifier: Apache-2.0 */
#include "base/routes.h"

#include <net/if.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"

#define UP 0x1u /* RTF_UP */
#define REJECT 0x200u /* RTF_REJECT */
#define V4_BITS 96u

/* Split a line at its blanks, in place: how many fields, at most max. */
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

/* Fields: interface, destination, gateway, flags, three counts, mask. Numbers are
 * hexadecimal, addresses as they are in memory. */
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
		rc = mpib_networks_keep(list, &net);
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

/* Fields: destination and its bits, source and its bits, gateway, metric, two
 * counts, flags, interface. */
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
			rc = mpib_networks_keep(list, &net);
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
