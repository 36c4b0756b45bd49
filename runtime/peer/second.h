/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second address at which a proxy, this or another, takes calls, so that a link
 * is made again when the interface of the first fails. Control thread.
 */
#ifndef MPIB_PEER_SECOND_H
#define MPIB_PEER_SECOND_H

#include "peer/link.h"

struct mpib_broker;
struct mpib_handle;
struct mpib_peer;

/* Tell a peer whose link has come up where it may call, too. */
void mpib_second_tell(struct mpib_peer *p);
/* It said so itself. */
void mpib_second_take(struct mpib_peer *p, const struct in6_addr *addr);
/* A handle of there, which anybody may have made, says so. */
void mpib_second_hear(struct mpib_peer *p, const struct mpib_handle *handle);
/* Whether a caller from this address may speak for the node, which it yet has to
 * prove where there is a key. */
bool mpib_second_speaks(struct mpib_broker *b, const struct mpib_node_id *node,
			const struct in6_addr *from);
/* A call to the first address, or the second, failed, or a link that stood there
 * broke: the next call goes to the other. */
void mpib_second_turn(struct mpib_peer *p, bool second);
/* Where the next call goes to, and from which address. */
const struct in6_addr *mpib_second_to(const struct mpib_peer *p,
				      const struct in6_addr **from);
/* Set how long the peer's link, or a call, may be silent. */
void mpib_second_patience(const struct mpib_peer *p, struct mpib_link *link,
			  bool call);

#endif
