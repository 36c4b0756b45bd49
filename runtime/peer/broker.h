/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker: together with the brokers of other nodes, makes connections on
 * lanes for the requests of local clients (listen, connect, accept, close).
 * Control thread only; nothing blocks. Outcomes appear in the connection's
 * state word in the client's reply segment.
 *
 * Memory that a peer may still write is released only after the peer has
 * confirmed that it stopped writing, or after the lane was killed. So the end
 * of a close is limited in time:
 *
 * - If the peer is silent, its link and its lanes are dead after 60 s
 *   (silence_s) of silence.
 * - If the peer's link works but the peer does not answer, the lane is killed
 *   10 s after the close, with all its connections: a peer that cannot stop one
 *   connection cannot be trusted with the others.
 * - On a private lane, which has no other connection, this limit is 2 s.
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
	struct in6_addr addr; /* address to accept peer links on */
	/* a second address on the same port, used if the network of `addr`
	 * fails; "::": none */
	struct in6_addr second;
	uint16_t port; /* TCP port of both addresses; 0: any */
	/* NULL: none; copied by the broker */
	const struct mpib_cluster_key *key;
	uint32_t sout; /* IPv4 of the SOUT rail, network order; 0: none */
	/* networks of peers, owned by the caller; NULL: any */
	const struct mpib_networks *networks;
	/* owned by the caller; NULL: none */
	const struct mpib_islands *islands;
	/* each lane of this node serves one connection (IMM v1) */
	bool private_lanes;
	unsigned request_s, connect_s; /* see mpib_broker_patience() */
	/* seconds of silence after which a link is dead; 0: 60 */
	unsigned silence_s;
	unsigned
		/* seconds that a connection waits for its resume; 0:
		 * connections do not resume */
		grace_s;
};

/* The broker's record of an attached client. The caller owns the record and
 * must not move it in memory until mpib_broker_forget() calls `done`. */
struct peer_client {
	uid_t uid;
	unsigned shard;
	struct mpib_tenant *tenant;
	struct engine_client *engine_client;
	struct mpib_reply *reply;
	/* Called when connections of the client became MPIB_CONN_LOST; may be
	 * NULL. */
	void (*lost)(struct peer_client *client);
	/* Private to the broker. */
	struct peer_conn *conn[MPIB_INDEXES_MAX];
	unsigned conns;
	bool leaving;
	mpib_done_fn *done;
	void *arg;
};

/* Make a broker. It accepts no peer links before mpib_broker_serve(). 0, or
 * -errno with a reason in `why`. */
int mpib_broker_open(const struct mpib_broker_opts *opts,
		     struct mpib_broker **broker, char *why, size_t why_len);
/* Accept peer links from now on. The caller owns `agent`; NULL: none. 0, or
 * -errno with a reason in `why`, usually that the address cannot be bound. */
int mpib_broker_serve(struct mpib_broker *broker, struct mpib_agent_link *agent,
		      char *why, size_t why_len);
/* Return true until the grace period ends or mpib_broker_grown() is called.
 * During this time, clients of the previous proxy may request their connections
 * and listeners, and peers that ask for unknown connections wait. Afterwards
 * the broker answers such peers that the connections are closed. */
bool mpib_broker_young(const struct mpib_broker *broker);
void mpib_broker_grown(struct mpib_broker *broker);
/* Call this after mpib_engine_close(), whose last callbacks still need the
 * broker. Closes links and listeners immediately. Peers notice, and fail their
 * connections to this node. */
void mpib_broker_close(struct mpib_broker *broker);

/* The events for mpib_engine_open(). Their context points to a struct
 * mpib_broker *, which must be set before the loop runs. */
extern const struct mpib_engine_events mpib_broker_events;

#define MPIB_CONNECT_S 120u

/*
 * Set time limits, in seconds. A request that is older than `request_s` (0: no
 * limit) fails its connection. The failure is late by at most a quarter of
 * request_s, and by at most a second. A receive may wait longer while its
 * sender has nothing to send. A connect that is not accepted within `connect_s`
 * (0: MPIB_CONNECT_S) fails. request_s also applies to requests that are
 * outstanding. connect_s applies only to later connects.
 */
void mpib_broker_patience(struct mpib_broker *broker, unsigned request_s,
			  unsigned connect_s);

/* Set the maximum of a user's lanes to all peers together; 0: no limit. */
void mpib_broker_limit_lanes(struct mpib_broker *broker, uint64_t most);
/* Return how many lanes the user has. */
uint64_t mpib_broker_lanes(const struct mpib_broker *broker, uid_t uid);

uint16_t mpib_broker_port(const struct mpib_broker *broker);
/* Return the second address that the broker listens on; "::": none. */
const struct in6_addr *mpib_broker_second(const struct mpib_broker *broker);

/* Listen for the client. `nonce` is 0, or the nonce of a listener that an
 * earlier proxy had. 0; -ENOSPC: too many listeners; -EEXIST: a listener has
 * this nonce; or -errno. */
int mpib_broker_listen(struct mpib_broker *broker, struct peer_client *client,
		       uint64_t nonce, uint32_t *id,
		       struct mpib_handle *handle);
/* Close a listener. Accepts that wait on it fail. -ENOENT: the client has no
 * such listener. */
int mpib_broker_close_listen(struct mpib_broker *broker,
			     struct peer_client *client, uint32_t id);

/*
 * Start a connection at a free index of the client. -EINVAL: the index does not
 * exist or is not free, or the key, number or handle is invalid; -EEXIST: a
 * connection of the user has the key; -ENOENT: the client has no such listener.
 * Connections share a lane only with connections of the same traffic class; a
 * traffic_class outside 1 to 255 means the configured one.
 */
int mpib_broker_connect(struct mpib_broker *broker, struct peer_client *client,
			const struct mpib_ctl_connect *ask);
int mpib_broker_accept(struct mpib_broker *broker, struct peer_client *client,
		       uint32_t listen_id, uint32_t index);
/* Resume a connection that was accepted before, see struct mpib_ctl_resume.
 * Returns the same values as mpib_broker_connect(). */
int mpib_broker_resume(struct mpib_broker *broker, struct peer_client *client,
		       const struct mpib_ctl_resume *ask);
/* Close a connection. -ENOENT: no connection at the index. */
int mpib_broker_drop(struct mpib_broker *broker, struct peer_client *client,
		     uint32_t index);
/* Call engine_conn_qos() for a connection. -ENOENT: the engine has no
 * connection at the index. */
int mpib_broker_qos(struct mpib_broker *broker, struct peer_client *client,
		    uint32_t index, uint32_t weight, uint64_t rate);
/* Return why the connection failed; "" if it did not fail. */
const char *mpib_broker_why(const struct peer_client *client, uint32_t index);

/* A connection that a client requested and that is not ready yet. */
struct mpib_pending {
	uint32_t index;
	bool sender;
	const char *peer; /* "" if unknown */
	const char *why; /* what the connection waits for */
	uint64_t age_ns;
};
typedef void mpib_pending_fn(void *arg, const struct mpib_pending *p);
/* Call fn for each of the client's pending connections that is at least
 * older_ns old. */
void mpib_broker_pending(const struct peer_client *client, uint64_t older_ns,
			 mpib_pending_fn *fn, void *arg);

/* Close the connections and listeners of a client that is gone, then call
 * done(arg, 0). */
void mpib_broker_forget(struct mpib_broker *broker, struct peer_client *client,
			mpib_done_fn *done, void *arg);

#endif
