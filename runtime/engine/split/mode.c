/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of split modes and sources, for logs and tools. Any thread.
 */
#include "engine/split/mode.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/address.h"

const char *mpib_mode_name(enum mpib_mode mode)
{
	static const char *const name[] = {
		[MPIB_MODE_VANILLA] = "vanilla",
		[MPIB_MODE_ADVANCED] = "advanced",
		[MPIB_MODE_ADAPTIVE] = "adaptive",
		[MPIB_MODE_STATIC] = "static",
	};

	return mode <= MPIB_MODE_STATIC ? name[mode] : "?";
}

const char *mpib_split_source_name(enum mpib_split_source source)
{
	static const char *const name[] = {
		[MPIB_SPLIT_STATIC] = "static",
		[MPIB_SPLIT_HINT] = "hint",
		[MPIB_SPLIT_ISOLATION] = "isolation",
		[MPIB_SPLIT_ADAPTIVE] = "adaptive",
		[MPIB_SPLIT_FAILOVER] = "fail-over",
		[MPIB_SPLIT_DRAIN] = "drain",
		[MPIB_SPLIT_ONE_RAIL] = "one rail",
	};

	return source <= MPIB_SPLIT_ONE_RAIL ? name[source] : "?";
}

/*
 * The islands of nodes, see mode.h. Any thread.
 */

static uint32_t mask_of(unsigned bits)
{
	return bits ? UINT32_MAX << (32 - bits) : 0;
}

/* Parse one network, such as "10.1.0.0/16". The text has `len` characters. */
static int island_parse_net(const char *text, size_t len,
			    struct mpib_island_net *net)
{
	struct mpib_network any;
	int rc = mpib_network_parse(text, len, &any);

	if (rc < 0 || !IN6_IS_ADDR_V4MAPPED(&any.addr) || any.bits < 96)
		return -EINVAL;
	net->mask = mask_of(any.bits - 96);
	net->net = ntohl(mpib_address_ip(&any.addr));
	return 0;
}

static const struct mpib_island_net *island_find(const struct mpib_islands *is,
						 uint32_t net, uint32_t mask)
{
	for (unsigned i = 0; i < is->n; i++) {
		if (is->net[i].net == net && is->net[i].mask == mask)
			return &is->net[i];
	}
	return NULL;
}

static int parse_nets(struct mpib_islands *is, const char *text, char *why,
		      size_t why_len)
{
	unsigned island = 1;

	for (const char *at = text;;) {
		size_t len = strcspn(at, "+,");
		struct mpib_island_net net;

		if (island_parse_net(at, len, &net) < 0) {
			snprintf(why, why_len,
				 "\"%.*s\" is not a network (give a.b.c.d/LEN "
				 "with zeros after the first LEN bits)",
				 (int)(len < 64 ? len : 64), at);
			return -EINVAL;
		}
		if (is->n == MPIB_ISLAND_NETS ||
		    island_find(is, net.net, net.mask)) {
			snprintf(why, why_len, "\"%.*s\" is %s", (int)len, at,
				 is->n == MPIB_ISLAND_NETS
					 ? "one network too many (at most 64)"
					 : "there twice (drop one)");
			return -EINVAL;
		}
		net.island = island;
		is->net[is->n++] = net;
		at += len;
		if (!*at)
			return 0;
		island += *at++ == ',';
	}
}

int mpib_islands_parse(struct mpib_islands *is, unsigned prefix,
		       const char *text, char *why, size_t why_len)
{
	*is = (struct mpib_islands){ .prefix = (uint8_t)prefix };
	if (!*text)
		return 0;
	if (prefix) {
		snprintf(why, why_len,
			 "a prefix and networks exclude each other (drop one)");
		return -EINVAL;
	}
	return parse_nets(is, text, why, why_len);
}

static unsigned island_of(const struct mpib_islands *is, uint32_t addr)
{
	const struct mpib_island_net *best = NULL;

	for (unsigned i = 0; i < is->n; i++) {
		const struct mpib_island_net *n = &is->net[i];

		if ((addr & n->mask) == n->net &&
		    (!best || n->mask > best->mask))
			best = n;
	}
	return best ? best->island : 0;
}

enum mpib_path mpib_islands_path(const struct mpib_islands *is, uint32_t a,
				 uint32_t b)
{
	uint32_t ha = ntohl(a), hb = ntohl(b);
	unsigned island;

	if (!mpib_islands_given(is))
		return MPIB_PATH_UNKNOWN;
	if (!a || !b)
		return MPIB_PATH_INTER;
	if (a == b)
		return MPIB_PATH_INTRA;
	if (is->prefix)
		return (ha ^ hb) & mask_of(is->prefix) ? MPIB_PATH_INTER
						       : MPIB_PATH_INTRA;
	island = island_of(is, ha);
	return island && island == island_of(is, hb) ? MPIB_PATH_INTRA
						     : MPIB_PATH_INTER;
}

const char *mpib_path_name(enum mpib_path path)
{
	switch (path) {
	case MPIB_PATH_INTRA:
		return "intra-island";
	case MPIB_PATH_INTER:
		return "inter-island";
	case MPIB_PATH_UNKNOWN:
		break;
	}
	return "no islands";
}
