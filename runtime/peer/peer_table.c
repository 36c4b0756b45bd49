/* SPDX-License-Identifier: Apache-2.0 */
/* The table of peers: finding, creating and evicting entries. An entry is
 * created for a peer that has proved its identity or that a client here wants
 * to reach, never for a caller that has proved nothing. Control thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/users.h"
#include "peer/internal.h"

/* Limits that bound this proxy's memory: of all peers, and of those that one
 * user wanted and that have not answered. */
#define PEERS_MAX 8192u
#define PEERS_OF_ONE_MAX (PEERS_MAX / 4)

static struct mpib_peer_key key_of(const struct in6_addr *addr, uint16_t port,
				   bool called)
{
	return (struct mpib_peer_key){ *addr, port, called };
}

static struct mpib_peer *new_peer(struct mpib_broker *b,
				  const struct in6_addr *addr, uint16_t port,
				  bool called)
{
	struct mpib_peer *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->broker = b;
	p->node.addr = *addr;
	p->node.port = port;
	p->called = called;
	p->maker = MPIB_NOBODY;
	TAILQ_INIT(&p->lanes);
	TAILQ_INIT(&p->waiting);
	mpib_address_text(addr, port, p->label, sizeof(p->label));
	TAILQ_INSERT_TAIL(&b->peers, p, entry);
	p->key = key_of(addr, port, called);
	HASH_ADD(hh, b->by_key, key, sizeof(p->key), p);
	b->peer_count++;
	return p;
}

/* Return whether this proxy can drop the entry: at most a link uses it. The
 * next connection creates it again. */
static bool peer_idle(const struct mpib_peer *p)
{
	return p->state != MPIB_PEER_CALLING && !p->conns && !p->closes &&
	       !p->away.armed && TAILQ_EMPTY(&p->lanes);
}

static void free_peer(struct mpib_peer *p)
{
	struct mpib_broker *b = p->broker;

	TAILQ_REMOVE(&b->peers, p, entry);
	HASH_DELETE(hh, b->by_key, p);
	mpib_sum_less(&b->peer_count);
	mpib_timer_disarm(b->loop, &p->retry);
	mpib_timer_disarm(b->loop, &p->away);
	mpib_timer_disarm(b->loop, &p->relink);
	peer_closes_free(p);
	free(p->asking.report);
	if (p->link)
		mpib_link_close(p->link);
	free(p);
}

/* Return the oldest unneeded entry, preferably one without a link. */
static struct mpib_peer *idlest(const struct mpib_broker *b)
{
	struct mpib_peer *p, *linked = NULL;

	TAILQ_FOREACH(p, &b->peers, entry)
	{
		if (!peer_idle(p))
			continue;
		if (p->state == MPIB_PEER_IDLE)
			return p;
		if (!linked)
			linked = p;
	}
	return linked;
}

bool mpib_peer_room(const struct mpib_broker *b, uid_t uid)
{
	return b->peer_count < mpib_places_for(PEERS_MAX, uid) || idlest(b);
}

struct mpib_peer *mpib_peer_lookup(const struct mpib_broker *b,
				   const struct in6_addr *addr, uint16_t port,
				   bool called)
{
	struct mpib_peer_key key = key_of(addr, port, called);
	struct mpib_peer *p;

	HASH_FIND(hh, b->by_key, &key, sizeof(key), p);
	return p;
}

struct mpib_peer *mpib_peer_find(struct mpib_broker *b, uid_t uid,
				 const struct in6_addr *addr, uint16_t port,
				 bool called)
{
	struct mpib_peer *p = mpib_peer_lookup(b, addr, port, called);

	if (p)
		return p;
	if (b->peer_count >= mpib_places_for(PEERS_MAX, uid)) {
		p = idlest(b);
		if (!p)
			return NULL;
		free_peer(p);
	}
	return new_peer(b, addr, port, called);
}

bool mpib_peer_at(const struct mpib_broker *b, const struct in6_addr *addr)
{
	return !b->networks || mpib_address_same(addr, &b->self.addr) ||
	       mpib_networks_have(b->networks, addr);
}

static struct in6_addr address_of_handle(const struct mpib_handle *handle)
{
	struct in6_addr addr = mpib_address_of_ip(handle->addr);

	if (handle->addr == 0)
		memcpy(&addr, handle->addr6, sizeof(addr));
	return addr;
}

/* Count the peers that the user wanted, that have not answered and are still
 * needed. */
static unsigned peers_wanted_by(const struct mpib_broker *b, uid_t uid)
{
	const struct mpib_peer *p;
	unsigned n = 0;

	TAILQ_FOREACH(p, &b->peers, entry)
	n += p->maker == uid && p->state != MPIB_PEER_UP && !peer_idle(p);
	return n;
}

int mpib_peer_for(struct mpib_broker *b, uid_t uid,
		  const struct mpib_handle *handle, struct mpib_peer **peer)
{
	struct in6_addr addr = address_of_handle(handle);
	struct mpib_peer *p = mpib_peer_lookup(b, &addr, handle->port, false);

	*peer = p;
	if (p) {
		mpib_second_hear(p, handle);
		return 0;
	}
	if (!mpib_peer_at(b, &addr))
		return -EACCES;
	if (peers_wanted_by(b, uid) >= PEERS_OF_ONE_MAX)
		return -EDQUOT;
	if (!mpib_peer_room(b, uid))
		return -ENOSPC;
	p = mpib_peer_find(b, uid, &addr, handle->port, false);
	if (!p)
		return -ENOMEM;
	mpib_second_hear(p, handle);
	p->maker = uid;
	*peer = p;
	return 0;
}

void mpib_peers_free(struct mpib_broker *b)
{
	struct mpib_peer *p;

	while ((p = TAILQ_FIRST(&b->peers)))
		free_peer(p);
}
