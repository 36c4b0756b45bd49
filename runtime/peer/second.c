/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A proxy has the address that names it, and may have a second one, of another
 * interface, on which it accepts calls, too. Each end sends its second address
 * over an established link. Before the first link, a handle may contain it; it
 * is used only if the cluster's key proves both identities. Two proxies still
 * have one link. When it breaks, or is silent for a part of the allowed time,
 * calls go to both addresses in turn, from the caller's own first or second,
 * until the peer's time ends. Control thread.
 */
#include <string.h>

#include "base/log.h"
#include "peer/internal.h"

/* Fractions of the time that a peer may be silent. LINK_PART: for a link,
 * before the other address is tried. QUICK_PART: for bytes that its kernel has
 * not acknowledged (a kernel does so even if its process stands still), and for
 * each such try. */
#define LINK_PART 3
#define QUICK_PART 20
#define LINK_LEAST_S 3 /* a silent peer is asked once a second */

static bool is_there(const struct in6_addr *addr)
{
	return !IN6_IS_ADDR_UNSPECIFIED(addr);
}

/* A first address may not reach a second one. */
static bool both_have(const struct mpib_peer *p)
{
	return is_there(&p->second) && is_there(&p->broker->second);
}

static unsigned part_of(unsigned all, unsigned parts, unsigned least)
{
	unsigned part = all / parts < least ? least : all / parts;

	return part < all ? part : all;
}

void mpib_second_patience(const struct mpib_peer *p, struct mpib_link *link,
			  bool call)
{
	unsigned all = p->broker->silence_s, quick = all, silent = all;

	if (both_have(p)) {
		quick = part_of(all, QUICK_PART, 1);
		silent = part_of(all, call ? QUICK_PART : LINK_PART,
				 LINK_LEAST_S);
	}
	mpib_link_set_patience(link, silent, quick);
}

void mpib_second_tell(struct mpib_peer *p)
{
	struct mpib_peer_msg m = {
		.type = MPIB_PEER_SECOND,
		.second = p->broker->second,
	};

	mpib_peer_tell(p, &m);
}

void mpib_second_take(struct mpib_peer *p, const struct in6_addr *addr)
{
	if (is_there(addr) && !mpib_peer_at(p->broker, addr)) {
		mpib_debug("peer %s: its second address is in none of the "
			   "networks of the proxies here",
			   p->label);
		p->second = in6addr_any;
	} else {
		p->second = *addr;
	}
	if (p->link)
		mpib_second_patience(p, p->link, false);
}

/* Return whether this node had no link to the peer, so the peer has sent
 * nothing about itself. */
static bool is_new(const struct mpib_peer *p)
{
	return p->node.boot == 0;
}

/* Without a key any host at the address could pose as the peer. */
void mpib_second_hear(struct mpib_peer *p, const struct mpib_handle *handle)
{
	struct in6_addr addr;

	memcpy(&addr, handle->second, sizeof(addr));
	if (!p->broker->key.set || !is_new(p) || !is_there(&addr) ||
	    !mpib_peer_at(p->broker, &addr))
		return;
	p->second = addr;
	/* A call may be under way with a handle that has the first address
	 * only, and with more time for that. */
	if (p->link)
		mpib_second_patience(p, p->link, true);
}

bool mpib_second_speaks(struct mpib_broker *b, const struct mpib_node_id *node,
			const struct in6_addr *from)
{
	const struct mpib_peer *p;

	if (mpib_address_same(&node->addr, from))
		return true;
	p = mpib_peer_lookup(b, &node->addr, node->port, false);
	if (!is_there(from) || !mpib_peer_at(b, from))
		return false;
	if (!p || is_new(p))
		return b->key.set;
	return mpib_address_same(&p->second, from);
}

void mpib_second_turn(struct mpib_peer *p, bool second)
{
	p->by_second = both_have(p) && !second;
}

const struct in6_addr *mpib_second_to(const struct mpib_peer *p,
				      const struct in6_addr **from)
{
	bool second = p->by_second && both_have(p);

	*from = second ? &p->broker->second : &p->broker->self.addr;
	return second ? &p->second : &p->node.addr;
}
