/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages on peer links. Each message is a frame: a u32 with the number of
 * bytes that follow, a u8 with the type, then the fields below in this order.
 * Numbers are little-endian. Each end has its own id for a lane or a
 * connection: in a message, `to` is the addressee's id, and `from` is the
 * sender's id.
 *
 * HELLO        Fields: magic, lowest and highest version, node, challenge.
 *                The first message of the connecting end.
 *                Answer: WELCOME or REFUSED.
 *   WELCOME      Fields: version, node, challenge, proof.
 *   REFUSED      Fields: error, why. -EALREADY: both ends called at the same
 *                time, and the call of the end that refuses has precedence.
 *   READY        Fields: proof. The caller accepted the WELCOME, and the link
 *                is up at both ends. Then each end lists its state, see below.
 *   PING         Sent only while the link is up. Answer: PONG.
 *   PONG         Answers a PING.
 *   LANE_OPEN    Fields: from, nonce, name, key, lane_info. `name` is the name
 *                of a connection that needs the lane. `nonce` is the nonce of
 *                that connection's listener.
 *                Answer: LANE_ACCEPT or LANE_REJECT.
 *   LANE_ACCEPT  Fields: to, from, lane_info. A rail that is down has no QPs,
 *                so both ends ignore the QP numbers sent for this rail. The end
 *                that lost the rail then sends a LANE_RAIL with FENCE.
 *   LANE_REJECT  Fields: to, error, why. -EAGAIN: a later LANE_OPEN can
 *                succeed.
 *   LANE_CLOSE   Fields: to (0: not known), from, error, why. The sender kills
 *                its end of the lane. Then the addressee kills its end, too.
 *   LANE_KEPT    Fields: to, from. The sender still has the lane. If the
 *                addressee no longer has the lane, it answers with LANE_CLOSE.
 *   LANE_RAIL    Fields: to, rail_msg. One rail of the lane stops or comes
 *                back.
 *   CONN_OPEN    Fields: name, number, met, from, lane, nonce, connection.
 *                `met` is the number of the last CONN_ACCEPT that the sender's
 *                rank received. If `met` is 0, the CONN_OPEN can use a new
 *                accept. A CONN_OPEN is accepted once. A repeated CONN_OPEN
 *                with the same `number`, `from` and `lane` gets the same
 *                CONN_ACCEPT.
 *                Answer: CONN_ACCEPT or CONN_REJECT.
 *   CONN_ACCEPT  Fields: to, from, number, base, connection. `number` is the
 *                number of the accept. `base` is the number of the receive that
 *                has slot 0.
 *   CONN_REJECT  Fields: to, error, why. -EAGAIN: a later CONN_OPEN can
 *                succeed.
 *   CONN_CANCEL  Fields: name, from (the value in the CONN_OPEN).
 *                Answer: CONN_ACCEPT or CONN_REJECT.
 *   CONN_CLOSE   Fields: name, to, ended, error, why. This end has stopped
 *                writing. From a receiver, `ended` is a slot number: all lower
 *                slots are complete, with or without an end-to-end ack.
 *                Answer: CONN_CLOSED.
 *                If `to` is 0, the CONN_CLOSE answers a CONN_WAIT. It says
 *                that this end has neither the connection nor a lane for it,
 *                and will not have them later.
 *   CONN_CLOSED  Fields: name. This end has stopped writing, too.
 *   CONN_WAIT    Fields: name. This end waits for the connection's CONN_OPEN,
 *                and repeats the CONN_WAIT until the CONN_OPEN comes.
 *                If no client of the addressee can request the connection any
 *                more, the addressee answers with a CONN_CLOSE. Its `to` is 0.
 *   ASK          Asks for the state of the addressee's node. Answer: REPORT.
 *   REPORT       Fields: report, the state of the sender's node. One REPORT may
 *                answer several ASKs.
 *
 * Messages on a broken link may be lost. So on a new link each end lists its
 * state in the messages above (peer.c). A lane that is up is listed by its
 * LANE_KEPT and the LANE_RAIL of each rail. A lane that waits for its
 * LANE_ACCEPT is listed by its LANE_OPEN. For a connection, the end sends each
 * CONN_OPEN, CONN_CANCEL and CONN_CLOSE that was not answered. Every message
 * can come twice. A repeated question gets the same answer again. A repeated
 * answer or LANE_RAIL is ignored. If the peer's proxy was restarted, this end
 * kills all lanes that it had with the earlier proxy.
 *
 * The field "name" identifies a connection. It contains the connection's key,
 * the uid, and the direction: whether the data goes from or to the end that
 * sends the message. Each name is valid on one link, the link between the
 * connection's two nodes. The field "connection" contains the connection's
 * number, and the address and the rkeys of a table at the message's sender.
 *
 * In a cluster with a key (auth.h), the WELCOME's proof covers HELLO and
 * WELCOME, and the READY's proof covers HELLO, WELCOME and READY. A proof is
 * computed as if the proof fields contained zeros. Every message that an end
 * sends after its WELCOME or READY is encrypted and followed by a seal of 16
 * bytes. The length field of the frame includes the seal, and is not encrypted.
 * In a cluster without a key, challenges and proofs are zeros.
 */
#ifndef MPIB_PEER_PROTOCOL_H
#define MPIB_PEER_PROTOCOL_H

#include "base/address.h"
#include "engine/engine.h"
#include "engine/measure/snapshot.h"
#include "engine/recovery/failover.h"
#include "peer/auth.h"
#include "peer/codec.h"

#define MPIB_PEER_MAGIC 0x7265657062697031ull
#define MPIB_PEER_VERSION_MIN 20u
#define MPIB_PEER_VERSION 20u
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

/* Identifies one run of a proxy: the address of its peer links, and a random
 * number for the run. */
struct mpib_node_id {
	struct in6_addr addr; /* see base/address.h */
	uint16_t port; /* host order */
	uint64_t boot; /* random, made when the proxy starts */
	/* IPv4 address of the node's SOUT rail, network order; 0: none */
	uint32_t sout;
	/* Second address at which the proxy accepts peer links, with the same
	 * `port` as the first address. "::" means none. */
	struct in6_addr second;
};

/* Identifies a lane between two proxies. `serial` distinguishes private
 * lanes. */
struct mpib_lane_key {
	uint32_t uid;
	/* shards of the opener and of the acceptor */
	uint16_t from_shard, to_shard;
	/* traffic class used by both ends; 0: the configured class */
	uint8_t traffic_class;
	uint64_t serial; /* 0: shared */
};

/* Names one end of a connection. `key` is from struct mpib_ctl_connect. The
 * structure has no padding, because it is hashed as bytes. */
struct mpib_conn_name {
	uint64_t key;
	uint32_t uid;
	uint32_t sender; /* 1: the sending end, 0: the receiving end */
};

#define MPIB_REPORT_SETTINGS 40u
#define MPIB_REPORT_JOBS 8u
#define MPIB_REPORT_WAITING 8u
/* size of a job's name in bytes, with the terminating 0 */
#define MPIB_REPORT_JOB 48u
/* size of the reason of a drain in bytes, with the terminating 0 */
#define MPIB_REPORT_WHY 48u

enum {
	MPIB_REPORT_UP = 1,
	MPIB_REPORT_DRAINED = 2,
	MPIB_REPORT_SOFT = 4, /* a rail of the software HCA */
	MPIB_REPORT_FLAGS = 7
};

/* The state of a node, as its proxy reports it to peers. The report fits into
 * one frame of a peer link, even if the node has many objects. */
struct mpib_node_report {
	char version[24], host[64];
	uint32_t uptime_s, clients, connections;
	uint32_t stuck; /* number of requests older than 5 s */
	/* Numbers of devices, and of rails per device. The node has at most
	 * MPIB_RAILS_MAX rails. */
	uint8_t devices, rails;
	char device[MPIB_DEVICES_MAX][32]; /* names of the devices */
	struct mpib_report_rail { /* index: device * `rails` + rail */
		uint8_t flags;
		uint32_t speed_mbps, expected_mbps; /* 0: not known */
		uint64_t errors, failovers;
	} rail[MPIB_RAILS_MAX];
	/* Why a rail is drained. If several rails are drained, this is the
	 * reason of the first drained rail that has one. */
	char drain_why[MPIB_REPORT_WHY];
	/* Numbers of entries in `job` (some of the running jobs) and in `wait`
	 * (the requests that have been stuck longest). */
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
	/* Number of settings that must be equal in a cluster. `name` is a hash
	 * of "section.key", `value` a hash of the value. */
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
	uint64_t nonce; /* nonce of the listener */
	struct mpib_conn_name name;
	uint64_t number, met, base, ended;
	struct engine_conn_info conn;
	struct mpib_rail_msg rail;
	struct mpib_node_report report;
	int32_t error; /* -errno */
	char why[200];
};

/* Encode `m` as a frame with its length into `buf`, which has
 * MPIB_PEER_FRAME_MAX bytes. Return the size of the frame. Any thread may call
 * this function and the next two. */
size_t mpib_peer_encode(const struct mpib_peer_msg *m, uint8_t *buf);
/* Decode one frame without its length, from an untrusted peer. Afterwards every
 * count, enum and number is in range, and `why` is printable. Return 0, or
 * -EPROTO if the frame is not a message of this protocol. */
int mpib_peer_decode(const uint8_t *buf, size_t len, struct mpib_peer_msg *m);
const char *mpib_peer_type_name(enum mpib_peer_type type);
/* Copy a text into a buffer of `room` bytes. If the text does not fit, cut it
 * and end it in "...". */
void mpib_peer_text(char *to, size_t room, const char *text);

#endif
