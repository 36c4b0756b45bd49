/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The peer link's messages. On the wire: u32 length of what follows, u8 type,
 * then the fields below in order, little-endian. Ids named "to" are the
 * addressee's own, so that it looks up nothing of ours.
 *
 *   HELLO        magic, lowest and highest version, node, challenge; the
 *                connecting end, first           -> WELCOME | REFUSED
 *   WELCOME      version, node, challenge, proof; from version 3: session, the
 *                one with the caller that this end still has, or 0
 *   REFUSED      error, why; -EALREADY: both called at once, yours lost
 *   READY        proof; the caller took the WELCOME: the link is up at both
 *                ends. From version 3: session and seen. The session of the
 *                WELCOME goes on: the called end answers PONG, and each sends
 *                again what the other has not seen. Any other is a new one,
 *                and what belonged to the old is over
 *   PING         the other end answers PONG. From version 3 both have seen: how
 *                many messages of the session this end has, these two apart
 *   LANE_OPEN    from, key, lane_info          -> LANE_ACCEPT | LANE_REJECT
 *   LANE_ACCEPT  to, from, lane_info; of both the end, how the lane is spread,
 *                whether with delivery words, and which rails are away (since
 *                version 6), is left out from where it says nothing: so
 *                version 2 had it. A rail that is away has no QPs, whatever
 *                numbers are there; the end that lost it sends FENCE then
 *   LANE_REJECT  to, error, why
 *   LANE_CLOSE   to (0: never learnt), from, error, why; the sender kills its
 *                end, the other end kills its own
 *   LANE_RAIL    to, rail_msg: one rail of the lane stops, or comes back
 *   CONN_OPEN    from, lane, listener, connection    -> CONN_ACCEPT | CONN_REJECT
 *   CONN_ACCEPT  to, from, connection
 *   CONN_REJECT  to, error, why
 *   CONN_CANCEL  to is the sender's own id: it never learnt another
 *                                              -> as to CONN_OPEN
 *   CONN_CLOSE   to, error, why; the sender writes nothing any more
 *                                              -> CONN_CLOSED
 *   CONN_CLOSED  to; nor does this end
 *   CONN_MOVED   to, connection; another process goes on with this end (handover.h):
 *                connection holds from now on. Both rails are fenced. Since version 4
 *
 * With a cluster's key (auth.h) what an end sends after its WELCOME or READY
 * is sealed: 16 bytes after the message, counted in its length. Without one,
 * challenges and proofs are zeros.
 */
#ifndef MPIB_PEER_PROTOCOL_H
#define MPIB_PEER_PROTOCOL_H

#include "engine/recovery/failover.h"
#include "peer/auth.h"
#include "peer/codec.h"

#define MPIB_PEER_MAGIC 0x7265657062697031ull
#define MPIB_PEER_VERSION_MIN 2u
#define MPIB_PEER_VERSION 6u
/* The first with sessions that outlive a link. */
#define MPIB_PEER_VERSION_RESUME 3u
/* The first whose lane_info says how a lane is spread. */
#define MPIB_PEER_VERSION_SPREAD 3u
#define MPIB_PEER_VERSION_MOVE 4u /* knows CONN_MOVED, and why rails stop */
/* The first whose lane_info says whether there are delivery words. */
#define MPIB_PEER_VERSION_DELIVERY 5u
#define MPIB_PEER_VERSION_AWAY 6u /* knows lanes that are short of a rail */
#define MPIB_PEER_FRAME_MAX 2048u

enum mpib_peer_type {
	MPIB_PEER_HELLO = 1,
	MPIB_PEER_WELCOME,
	MPIB_PEER_REFUSED,
	MPIB_PEER_READY,
	MPIB_PEER_PING,
	MPIB_PEER_PONG,
	MPIB_PEER_LANE_OPEN,
	MPIB_PEER_LANE_ACCEPT,
	MPIB_PEER_LANE_REJECT,
	MPIB_PEER_LANE_CLOSE,
	MPIB_PEER_CONN_OPEN,
	MPIB_PEER_CONN_ACCEPT,
	MPIB_PEER_CONN_REJECT,
	MPIB_PEER_CONN_CANCEL,
	MPIB_PEER_CONN_CLOSE,
	MPIB_PEER_CONN_CLOSED,
	MPIB_PEER_LANE_RAIL,
	MPIB_PEER_CONN_MOVED,
};

/* Who a proxy is: where its peer link listens, and which life of it. */
struct mpib_node_id {
	uint32_t addr; /* IPv4, network order */
	uint16_t port; /* host order */
	uint64_t boot; /* random at start */
	uint32_t sout; /* IPv4 of its SOUT rail, network order; 0: none */
};

/* Which lane two proxies mean; serial tells private lanes apart. */
struct mpib_lane_key {
	uint32_t uid;
	uint16_t from_shard, to_shard; /* opener's, acceptor's */
	uint8_t traffic_class; /* both ends send with it; 0: as configured */
	uint64_t serial; /* 0: shared */
};

struct mpib_peer_msg {
	enum mpib_peer_type type;
	uint64_t magic;
	uint16_t version_min, version;
	struct mpib_node_id node;
	uint8_t challenge[MPIB_AUTH_BYTES], proof[MPIB_AUTH_BYTES];
	uint64_t session, seen; /* by version, which READY, PING and PONG do
				   not carry: it is 0 or RESUME in them */
	uint32_t to, from;
	struct mpib_lane_key key;
	struct mpib_lane_info lane_info;
	uint32_t lane; /* addressee's id of it */
	uint32_t listen_id;
	uint64_t nonce;
	uint32_t uid;
	struct engine_conn_info conn;
	struct mpib_rail_msg rail;
	int32_t error; /* -errno */
	char why[200];
};

/* Bytes written to buf (MPIB_PEER_FRAME_MAX), length included. Any thread, as
 * the two below. */
size_t mpib_peer_encode(const struct mpib_peer_msg *m, uint8_t *buf);
/* One frame without its length, from anybody: every count, enum and number is
 * in its range afterwards, and why is printable. -EPROTO: not a message of this
 * protocol. */
int mpib_peer_decode(const uint8_t *buf, size_t len, struct mpib_peer_msg *m);
const char *mpib_peer_type_name(enum mpib_peer_type type);

#endif
