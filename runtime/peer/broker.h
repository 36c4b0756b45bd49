/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker handles the requests of local clients to listen, connect, accept
 * and close. Together with the brokers of other nodes, the broker creates the
 * connections and their lanes. Control thread only; nothing blocks. The result
 * of a request appears in the connection's state word in the client's reply
 * segment.
 *
 * Memory to which a peer can write is released after the peer has confirmed
 * that it stopped writing, or after the lane was killed. A close must complete
 * even if the peer does not answer, so a close has time limits:
 *
 * - If the peer is silent for 60 s (`silence_s`), the broker closes the peer's
 *   link and kills the peer's lanes.
 * - If the peer's link works but the peer does not answer the close in time,
 *   the broker kills the lane with all its connections. A peer that cannot stop
 *   one connection cannot be trusted with the others. The time limit is 10 s
 *   for a shared lane, and 2 s for a private lane, which has one connection.
 *
 * Device memory is released earlier if all lanes of the user have failover
 * (mpib_mr_revoke()).
 */
#ifndef MPIB_PEER_BROKER_H
#define MPIB_PEER_BROKER_H

#include <mpib/control.h>

#include "base/address.h"
#include "base/loop.h"
#include "engine/engine.h"
#include "engine/sum.h"
#include "peer/auth.h"

struct mpib_broker;
struct mpib_agent_link;

struct mpib_broker_opts {
	struct mpib_loop *loop;
	struct mpib_engine *engine;
	/* the address on which this node accepts peer links */
	struct in6_addr addr;
	/* a second address for peer links, used if the network of `addr` fails;
	 * "::": none */
	struct in6_addr second;
	uint16_t port; /* TCP port of both addresses; 0: any */
	/* the cluster's key, which the broker copies; NULL: none */
	const struct mpib_cluster_key *key;
	uint32_t sout; /* IPv4 of the SOUT rail, network order; 0: none */
	/* Networks from which peers are allowed. NULL: all. The caller owns the
	 * object. */
	const struct mpib_networks *networks;
	/* Islands of the nodes. NULL: none. The caller owns the object. */
	const struct mpib_islands *islands;
	/* each lane that this node opens serves one connection (IMM v1) */
	bool private_lanes;
	unsigned request_s, connect_s; /* see mpib_broker_patience() */
	/* seconds of silence after which a link is dead; 0: 60 */
	unsigned silence_s;
	/* for how many seconds a lost connection can be resumed; 0: never */
	unsigned grace_s;
};

/* The broker's record of an attached client. The caller owns the record and
 * must not move it in memory until mpib_broker_forget() calls `done`. */
struct peer_client {
	uid_t uid;
	unsigned shard;
	struct mpib_tenant *tenant;
	struct engine_client *engine_client;
	struct mpib_reply *reply;
	/* Called after a connection of the client has become MPIB_CONN_LOST.
	 * NULL: not called. */
	void (*lost)(struct peer_client *client);
	/* Private to the broker. */
	struct peer_conn *conn[MPIB_INDEXES_MAX];
	unsigned conns;
	/* Number of connections that were never lost. Quotas do not count lost
	 * connections, because the client requests them again. */
	unsigned quota_conns;
	bool leaving;
	mpib_done_fn *done;
	void *arg;
};

/* Make a broker. The broker accepts no peer links before mpib_broker_serve().
 * Return 0, or -errno with a reason in `why`. */
int mpib_broker_open(const struct mpib_broker_opts *opts,
		     struct mpib_broker **broker, char *why, size_t why_len);
/* Start to accept peer links. The caller owns `agent`, which is NULL if there
 * is no agent. Return 0, or -errno with a reason in `why`. The usual reason is
 * that bind() to the address failed. */
int mpib_broker_serve(struct mpib_broker *broker, struct mpib_agent_link *agent,
		      char *why, size_t why_len);
/* Return true until the grace period ends or mpib_broker_grown() is called.
 * Until then, clients of the previous proxy can request their connections and
 * listeners again, so a peer that asks for an unknown connection must wait.
 * Afterwards the broker tells such a peer that the connection is closed. */
bool mpib_broker_young(const struct mpib_broker *broker);
void mpib_broker_grown(struct mpib_broker *broker);
/* Call this after mpib_engine_close(), whose last callbacks still need the
 * broker. The broker closes its links and listeners immediately. The peers
 * notice this, and fail their connections to this node. */
void mpib_broker_close(struct mpib_broker *broker);

/* The events for mpib_engine_open(). Their context points to a struct
 * mpib_broker *, which must be set before the loop runs. */
extern const struct mpib_engine_events mpib_broker_events;

#define MPIB_CONNECT_S 120u

/*
 * Set time limits, in seconds. If a request is older than `request_s` (0: no
 * limit), its connection fails. The broker searches for old requests every
 * `request_s` / 4, but at least once per second. A receive can become too old
 * because its sender has nothing to send, so `request_s` must be longer than
 * the longest pause of a connection. A connect that is not accepted within
 * `connect_s` (0: MPIB_CONNECT_S) fails. A new `request_s` applies to
 * outstanding requests, too. A new `connect_s` applies to later connects.
 */
void mpib_broker_patience(struct mpib_broker *broker, unsigned request_s,
			  unsigned connect_s);

/* Set the maximum number of a user's lanes to all peers together; 0: no
 * limit. */
void mpib_broker_limit_lanes(struct mpib_broker *broker, uint64_t most);
/* Return how many lanes this node has opened for the user. */
uint64_t mpib_broker_lanes(const struct mpib_broker *broker, uid_t uid);

uint16_t mpib_broker_port(const struct mpib_broker *broker);
/* Return the second address that the broker listens on; "::": none. */
const struct in6_addr *mpib_broker_second(const struct mpib_broker *broker);

/* Create a listener for the client. `nonce` is 0, or the nonce of a listener
 * that the client had at an earlier proxy. Return 0, -ENOSPC if there are too
 * many listeners, -EEXIST if the user already has a listener with this nonce,
 * or another -errno. */
int mpib_broker_listen(struct mpib_broker *broker, struct peer_client *client,
		       uint64_t nonce, uint32_t *id,
		       struct mpib_handle *handle);
/* Close a listener. The accepts that wait at this listener fail. Return -ENOENT
 * if the client has no such listener. */
int mpib_broker_close_listen(struct mpib_broker *broker,
			     struct peer_client *client, uint32_t id);

/*
 * Start a connection at a free index of the client. mpib_broker_connect() makes
 * or resumes a sending end if `sender`, else it resumes a receiving end that
 * was accepted before. Return 0 on success.
 * -EINVAL: the index does not exist or is not free, or the key, number or
 * handle is invalid. -EEXIST: another connection of the user has the key.
 * -ENOENT: the client has no such listener. Other values of -errno are
 * possible. A `traffic_class` outside 1 to 255 means the configured class. Only
 * connections of the same traffic class share a lane.
 */
int mpib_broker_connect(struct mpib_broker *broker, struct peer_client *client,
			const struct mpib_ctl_connect *ask, bool sender);
int mpib_broker_accept(struct mpib_broker *broker, struct peer_client *client,
		       uint32_t listen_id, uint32_t index);
/* Close a connection. Return -ENOENT if the client has no connection at the
 * index. */
int mpib_broker_drop(struct mpib_broker *broker, struct peer_client *client,
		     uint32_t index);

/* A connection that a client requested and that is not ready yet. */
struct mpib_pending {
	uint32_t index;
	bool sender;
	const char *peer; /* "" if unknown */
	const char *why; /* what the connection waits for */
	uint64_t age_ns;
};
typedef void mpib_pending_fn(void *arg, const struct mpib_pending *p);
/* Call `fn` for each pending connection of the client that is at least
 * `older_ns` nanoseconds old. */
void mpib_broker_pending(const struct peer_client *client, uint64_t older_ns,
			 mpib_pending_fn *fn, void *arg);

/* Close the connections and listeners of a client that is gone, then call
 * done(arg, 0). */
void mpib_broker_forget(struct mpib_broker *broker, struct peer_client *client,
			mpib_done_fn *done, void *arg);

#endif
