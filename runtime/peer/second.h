/* SPDX-License-Identifier: Apache-2.0 */
/* The second address on which a proxy, this or another, accepts calls, so that
 * a link can be made again when the interface of the first fails. Control
 * thread. */
#ifndef MPIB_PEER_SECOND_H
#define MPIB_PEER_SECOND_H

#include "peer/link.h"

struct mpib_broker;
struct mpib_handle;
struct mpib_peer;

/* Tell a peer whose link has come up the second address of this proxy. */
void mpib_second_tell(struct mpib_peer *p);
/* Record the second address that the peer itself sent. */
void mpib_second_take(struct mpib_peer *p, const struct in6_addr *addr);
/* Record the second address from a peer's handle, which anyone may have
 * forged. */
void mpib_second_hear(struct mpib_peer *p, const struct mpib_handle *handle);
/* Return whether a caller from this address may speak for the node. If there is
 * a key, the caller must still prove it. */
bool mpib_second_speaks(struct mpib_broker *b, const struct mpib_node_id *node,
			const struct in6_addr *from);
/* A call to the first address, or the second, failed, or its link broke: the
 * next call goes to the other. */
void mpib_second_turn(struct mpib_peer *p, bool second);
/* Return where the next call goes to, and from which address. */
const struct in6_addr *mpib_second_to(const struct mpib_peer *p,
				      const struct in6_addr **from);
/* Set how long the peer's link, or a call, may be silent. */
void mpib_second_patience(const struct mpib_peer *p, struct mpib_link *link,
			  bool call);

#endif
