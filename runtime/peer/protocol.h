/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages on peer links. On the wire: u32 length of what follows, u8 type,
 * then the fields below in this order, little-endian. An id named "to" was
 * assigned by the addressee, which finds its object by it; "from" was assigned
 * by the sender.
 *
 *
 *   HELLO        magic, lowest and highest version, node, challenge; the first
 *                message, of the connecting end -> WELCOME | REFUSED
 *   WELCOME      version, node, challenge, proof
 *   REFUSED      error, why; -EALREADY: both ends called at once, and this call
 *                lost
 *   READY        proof; the caller accepted the WELCOME, and the link is up at
 *                both ends. Each end lists its state, see below
 *   PING         -> PONG. Sent only while the link is up
 *   PONG
 *   LANE_OPEN    from, nonce, name, key, lane_info
 *                                              -> LANE_ACCEPT | LANE_REJECT.
 *                The name is of a connection that the lane is for, the nonce of
 *                the listener that it was made with
 *   LANE_ACCEPT  to, from, lane_info. A rail that is away has no QPs, and the
 *                QP numbers sent for it count for nothing; the end that lost
 *                the rail then sends FENCE
 *   LANE_REJECT  to, error, why
 *   LANE_CLOSE   to (0: never learnt), from, error, why; the sender kills its
 *                end of the lane, the other end kills its own
 *   LANE_KEPT    to, from: the sender still has the lane  -> LANE_CLOSE if the
 *                addressee has not
 *   LANE_RAIL    to, rail_msg: one rail of the lane stops or comes back
 *   CONN_OPEN    name, number, met, from, lane, nonce, connection
 *                                              -> CONN_ACCEPT | CONN_REJECT.
 *                met: the number of the CONN_ACCEPT that the sender's rank had
 *                last, 0: none, so that it may take a new accept.
 *                It is accepted once. Again with the same number, from and lane
 *                it gets the same CONN_ACCEPT again
 *   CONN_ACCEPT  to, from, number, base, connection; the number is of the
 *   accept,
 *                base of the receive that has slot 0
 *   CONN_REJECT  to, error, why; -EAGAIN: later it may be accepted. So may a
 *   lane
 *   CONN_CANCEL  name, from: of the CONN_OPEN   -> CONN_ACCEPT | CONN_REJECT
 *   CONN_CLOSE   name, to, ended, error, why; this end has stopped writing; a
 *                receiver: slots below ended have ended, whatever its acks said
 *                                              -> CONN_CLOSED
 *                to 0, the answer to CONN_WAIT: there is no end and no lane any
 *                more, and none will come
 *   CONN_CLOSED  name; this end has stopped writing, too
 *   CONN_WAIT    name; this end waits for a CONN_OPEN of the connection that it
 *   is.
 *                Said again until that comes. -> CONN_CLOSE with to 0 if no
 *                client of the other proxy can ask for it any more
 *   ASK          asks for the state of the node -> REPORT
 *   REPORT       report: state of the sender's node; one may answer several ASK
 *
 * Messages on a broken link may be lost. So on a new link each end lists its
 * state in the messages above (peer.c): LANE_OPEN, or LANE_KEPT and the
 * LANE_RAIL of each rail; CONN_OPEN, CONN_CANCEL and CONN_CLOSE without an
 * answer. Every message may come twice: a question gets the same answer again,
 * an answer or a LANE_RAIL that the addressee has already is ignored. The lanes
 * and connections of an earlier run of the peer's proxy end.
 *
 * A name describes the end that sends it: the connection's key, the user, and
 * whether this end is the sender. It is valid only on the link to the node with
 * which the connection was made. "connection" stands for its number, and the
 * key and the address of its tables.
 *
 * In a cluster with a key (auth.h) the WELCOME's proof covers HELLO and
 * WELCOME, the READY's proof covers READY, too; proofs count as zeros in the
 * covered bytes. Every message that an end sends after its WELCOME or READY is
 * encrypted and sealed: 16 bytes after the message, counted in its length,
 * which is not encrypted. In a cluster without a key challenges and proofs are
 * zeros.
 */
#ifndef MPIB_PEER_PROTOCOL_H
#define MPIB_PEER_PROTOCOL_H

#include "agent/agent.h"
#include "base/address.h"
#include "engine/engine.h"
#include "engine/measure/snapshot.h"
#include "engine/recovery/failover.h"
#include "peer/auth.h"
#include "peer/codec.h"

#define MPIB_PEER_MAGIC 0x7265657062697031ull
#define MPIB_PEER_VERSION_MIN 18u
#define MPIB_PEER_VERSION 18u
#define MPIB_PEER_FRAME_MAX 4096u

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
	MPIB_PEER_CONN_WAIT,
	MPIB_PEER_LANE_RAIL,
	MPIB_PEER_ASK,
	MPIB_PEER_REPORT,
	MPIB_PEER_LANE_KEPT,
};

/* Identifies a proxy: the address of its peer links, and which run of the
 * proxy. */
struct mpib_node_id {
	struct in6_addr addr; /* see base/address.h */
	uint16_t port; /* host order */
	uint64_t boot; /* random, made when the proxy starts */
	uint32_t sout; /* IPv4 of its SOUT rail, network order; 0: none */
	/* A second address that accepts peer links, on the same port; ::,
	 * none. */
	struct in6_addr second;
};

/* Identifies a lane between two proxies; serial tells private lanes apart. */
struct mpib_lane_key {
	uint32_t uid;
	uint16_t from_shard, to_shard; /* the opener's, the acceptor's */
	uint8_t traffic_class; /* used by both ends; 0: the configured one */
	uint64_t serial; /* 0: shared */
};

/* Names one end of a connection; key is of struct mpib_ctl_connect. Without
 * padding, since it is hashed as bytes. */
struct mpib_conn_name {
	uint64_t key;
	uint32_t uid;
	uint32_t sender; /* 1: the sending end, 0: the receiving end */
};

#define MPIB_REPORT_SETTINGS 40u
#define MPIB_REPORT_JOBS 8u
#define MPIB_REPORT_WAITING 8u
#define MPIB_REPORT_JOB 48u /* bytes of a job's name, with its terminating 0 */
/* bytes of the reason of a drain, with its terminating 0 */
#define MPIB_REPORT_WHY 48u

enum {
	MPIB_REPORT_UP = 1,
	MPIB_REPORT_DRAINED = 2,
	MPIB_REPORT_SOFT = 4, /* a rail of the software HCA */
	MPIB_REPORT_FLAGS = 7
};

struct mpib_node_report {
	char version[24], host[64];
	uint32_t uptime_s, clients, connections;
	uint32_t stuck; /* requests older than 5 s */
	/* numbers; at most MPIB_RAILS_MAX rails in total */
	uint8_t devices, rails;
	char device[MPIB_DEVICES_MAX][32]; /* their names */
	struct mpib_report_rail { /* by number */
		uint8_t flags;
		uint32_t speed_mbps, expected_mbps; /* 0: not known */
		uint64_t errors, failovers;
	} rail[MPIB_RAILS_MAX];
	/* The peer with the lowest rate while rails were busy with it, among
	 * those with enough bytes for a rate. "": none. */
	char slowest[MPIB_LABEL_MAX];
	uint64_t slowest_mbps, slowest_rtt_ns;
	struct mpib_agent_word agent; /* this node's agent */
	/* Reason of the first drained rail that has one. */
	char drain_why[MPIB_REPORT_WHY];
	/* Some of the running jobs, and the requests that have been stuck for
	 * longest. */
	uint8_t jobs, waiting;
	struct mpib_report_job {
		char name[MPIB_REPORT_JOB];
		uint32_t uid, clients;
		uint64_t tx_bytes, rx_bytes;
	} job[MPIB_REPORT_JOBS];
	struct mpib_report_wait {
		char job[MPIB_REPORT_JOB], peer[MPIB_LABEL_MAX];
		char last[16]; /* mpib_last_word() */
		uint8_t sends;
		uint32_t pid, age_ms;
		uint32_t local_rank, remote_rank; /* UINT32_MAX: none */
	} wait[MPIB_REPORT_WAITING];
	/* Settings that must be equal in a cluster: hashes of "section.key" and
	 * of the value. */
	uint8_t settings;
	struct mpib_report_setting {
		uint32_t name, value;
	} setting[MPIB_REPORT_SETTINGS];
};

struct mpib_peer_msg {
	enum mpib_peer_type type;
	uint64_t magic;
	uint16_t version_min, version;
	struct mpib_node_id node;
	uint8_t challenge[MPIB_AUTH_BYTES], proof[MPIB_AUTH_BYTES];
	uint32_t to, from;
	struct mpib_lane_key key;
	struct mpib_lane_info lane_info;
	uint32_t lane; /* the addressee's id of the lane */
	uint64_t nonce; /* of the listener */
	struct mpib_conn_name name;
	uint64_t number, met, base, ended;
	struct engine_conn_info conn;
	struct mpib_rail_msg rail;
	struct mpib_node_report report;
	int32_t error; /* -errno */
	char why[200];
};

/* Encode m as a frame, length included, in buf (MPIB_PEER_FRAME_MAX bytes).
 * Return the size of the frame. Any thread, like the next two. */
size_t mpib_peer_encode(const struct mpib_peer_msg *m, uint8_t *buf);
/* Decode one frame without its length, from an untrusted peer. Afterwards every
 * count, enum and number is in range, and why is printable. -EPROTO: not a
 * message of this protocol. */
int mpib_peer_decode(const uint8_t *buf, size_t len, struct mpib_peer_msg *m);
const char *mpib_peer_type_name(enum mpib_peer_type type);
/* Copy a text into room bytes; a text that is cut ends in "...". */
void mpib_peer_text(char *to, size_t room, const char *text);

/* The state of a node, as its proxy reports it to peers: small enough for one
 * frame of a peer link, however much the node has. */

#endif
