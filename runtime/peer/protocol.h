/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages on peer links. On the wire: u32 length of what follows, u8 type,
 * then the fields below in this order, little-endian. An id named "to" is one
 * that the addressee gave out, so the addressee finds its object by it; "from"
 * is the sender's.
 *
 *   HELLO        magic, lowest and highest version, node, challenge; sent
 *                first, by the connecting end -> WELCOME | REFUSED
 *   WELCOME      version, node, challenge, proof, session: the one with
 *                the caller that the called end still has, or 0
 *   REFUSED      error, why; -EALREADY: both ends called at once and this call
 *                lost
 *   READY        proof, session, seen; the caller took the WELCOME, and the
 *                link is up at both ends. If session is the
 *                WELCOME's, that session goes on: the called end answers PONG,
 *                and each end sends again what the other has not seen. If it is
 *                another, a new session begins and all that belonged to the old
 *                one is over
 *   PING         seen -> PONG. Sent only while the link is up
 *   PONG         seen: how many messages of the session the sender of the PING
 *                or PONG has received, not counting PING and PONG
 *   LANE_OPEN    from, key, lane_info          -> LANE_ACCEPT | LANE_REJECT
 *   LANE_ACCEPT  to, from, lane_info. A rail that is away has no QPs, and the
 *                QP numbers sent for it count for nothing; the end that lost
 *                the rail then sends FENCE
 *   LANE_REJECT  to, error, why
 *   LANE_CLOSE   to (0: never learnt), from, error, why; the sender kills its
 *                end of the lane, the other end kills its own
 *   LANE_RAIL    to, rail_msg: one rail of the lane stops or comes back
 *   CONN_OPEN    from, lane, listener, nonce, uid, connection
 *                                              -> CONN_ACCEPT | CONN_REJECT
 *   CONN_ACCEPT  to, from, connection
 *   CONN_REJECT  to, error, why
 *   CONN_CANCEL  to, here the id that the sender gave as from in CONN_OPEN,
 *                since it has learnt no other  -> as to CONN_OPEN
 *   CONN_CLOSE   to, error, why; the sender has stopped writing
 *                                              -> CONN_CLOSED
 *   CONN_CLOSED  to; this end has stopped writing, too
 *   CONN_MOVED   to, connection: another process goes on with this end
 *                (handover/handover.h), and from now on connection says where
 *                its tables are. Both rails are fenced
 *   ASK          how is your node? -> REPORT
 *   REPORT       report: how the sender's node is; one may answer several ASK
 *   SECOND       address: where the sender takes peer links, too, on the port of
 *                its first, or ::. When a link is up
 *
 * A connection is its number, the key and the address of its tables; from version
 * 12 on CONN_OPEN says in bits 31..20 of the number how many entries these have,
 * MPIB_TABLE_SLOTS, and CONN_ACCEPT and CONN_MOVED repeat it. 0, as before, is
 * MPIB_SLOTS.
 *
 * In a cluster with a key (auth.h) a proof is about HELLO and WELCOME, and that of the
 * READY about this, too; in what it is about all proofs are zeros. Every message that an
 * end sends after its WELCOME or READY is encrypted and sealed: 16 bytes after the
 * message, counted in its length, which is not encrypted. In a cluster without a key
 * challenges and proofs are zeros.
 */
#ifndef MPIB_PEER_PROTOCOL_H
#define MPIB_PEER_PROTOCOL_H

#include "base/address.h"
#include "engine/recovery/failover.h"
#include "peer/auth.h"
#include "peer/codec.h"
#include "peer/report.h"

#define MPIB_PEER_MAGIC 0x7265657062697031ull
#define MPIB_PEER_VERSION_MIN 11u
#define MPIB_PEER_VERSION 13u
/* The first version with tables of MPIB_TABLE_SLOTS entries. */
#define MPIB_PEER_VERSION_SLOTS 12u
/* The first version whose proofs are about all that the greeting says, and the
 * oldest that is spoken where there is a key. */
#define MPIB_PEER_VERSION_PROOF 13u
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
	MPIB_PEER_ASK,
	MPIB_PEER_REPORT,
	MPIB_PEER_SECOND,
};

/* Identifies a proxy: the address of its peer links, and which run of the
 * proxy. */
struct mpib_node_id {
	struct in6_addr addr; /* see base/address.h */
	uint16_t port; /* host order */
	uint64_t boot; /* random, made when the proxy starts */
	uint32_t sout; /* IPv4 of its SOUT rail, network order; 0: none */
};

/* Identifies a lane between two proxies; serial tells private lanes apart. */
struct mpib_lane_key {
	uint32_t uid;
	uint16_t from_shard, to_shard; /* the opener's, the acceptor's */
	uint8_t traffic_class; /* both ends send with it; 0: the configured
				  one */
	uint64_t serial; /* 0: shared */
};

struct mpib_peer_msg {
	enum mpib_peer_type type;
	uint64_t magic;
	uint16_t version_min, version;
	struct mpib_node_id node;
	uint8_t challenge[MPIB_AUTH_BYTES], proof[MPIB_AUTH_BYTES];
	uint64_t session, seen;
	uint32_t to, from;
	struct mpib_lane_key key;
	struct mpib_lane_info lane_info;
	uint32_t lane; /* the addressee's id of the lane */
	uint32_t listen_id;
	uint64_t nonce;
	uint32_t uid;
	struct engine_conn_info conn;
	struct mpib_rail_msg rail;
	struct mpib_node_report report;
	struct in6_addr second;
	int32_t error; /* -errno */
	char why[200];
};

/* Encode m as a frame, length included, in buf (MPIB_PEER_FRAME_MAX bytes).
 * Returns the frame's bytes. Any thread, as the two below. */
size_t mpib_peer_encode(const struct mpib_peer_msg *m, uint8_t *buf);
/* Decode one frame without its length, from an untrusted peer: afterwards every
 * count, enum and number is in range, and why is printable. -EPROTO: not a
 * message of this protocol. */
int mpib_peer_decode(const uint8_t *buf, size_t len, struct mpib_peer_msg *m);
const char *mpib_peer_type_name(enum mpib_peer_type type);
/* Copy a text to where there is so much room; one that is cut ends in "...". */
void mpib_peer_text(char *to, size_t room, const char *text);

#endif
