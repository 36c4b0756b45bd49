/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker: turns the requests of local clients (listen, connect, accept,
 * close) into connections on lanes, together with the brokers of other nodes.
 * Control thread only; nothing blocks. Outcomes appear in the connection's
 * state word in the client's reply segment.
 *
 * Memory that a peer may still write is not released before the peer confirmed
 * that it stopped writing, or the lane was killed. So every close ends at the
 * latest
 *   60 s  (silence_s) after the peer fell silent: its link is dead, and so are
 *         its lanes;
 *   10 s  after the close, if the peer's link lives but the peer does not
 *         answer: the lane is killed together with its other connections,
 *         because a peer that cannot stop one connection cannot be trusted
 *         with the others;
 *   2 s   after the close, likewise, on a private lane, which carries nothing
 *         else. Device memory is released earlier if all lanes of the user have
 *         failover (mpib_mr_revoke()).
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
	/* a second address on the same port, for when the network of addr
	 * fails; ::, none */
	struct in6_addr second;
	uint16_t port; /* their TCP port; 0: any */
	/* NULL: none; copied by the broker */
	const struct mpib_cluster_key *key;
	uint32_t sout; /* IPv4 of the SOUT rail, network order; 0: none */
	/* networks of peers; NULL: any; the caller's */
	const struct mpib_networks *networks;
	const struct mpib_islands *islands; /* NULL: none; the caller's */
	bool private_lanes; /* lanes opened here serve one connection, IMM v1 */
	unsigned request_s, connect_s; /* see mpib_broker_patience() */
	unsigned silence_s; /* silence that makes a peer's link dead; 0: 60 */
	unsigned
		grace_s; /* how long a connection waits to be resumed; 0: nothing
			     is resumed */
};

/* An attached client, as the broker sees it. The caller owns it and must not
 * move it until mpib_broker_forget() calls back. */
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
 * -errno with a reason in why. */
int mpib_broker_open(const struct mpib_broker_opts *opts,
		     struct mpib_broker **broker, char *why, size_t why_len);
/* Accept peer links from now on, with that agent (NULL: none; the
 * caller's). 0, or -errno with a reason in why, most often that the
 * address cannot be bound. */
int mpib_broker_serve(struct mpib_broker *broker, struct mpib_agent_link *agent,
		      char *why, size_t why_len);
/* Return whether clients of the last proxy may still request their connections
 * and listeners: until the grace ends, or mpib_broker_grown(). Until then,
 * peers that ask for unknown connections wait. Afterwards the broker answers
 * that these are closed. */
bool mpib_broker_young(const struct mpib_broker *broker);
void mpib_broker_grown(struct mpib_broker *broker);
/* Call after mpib_engine_close(), whose last callbacks still need the broker.
 * Closes links and listeners immediately; peers notice and fail their
 * connections to this node. */
void mpib_broker_close(struct mpib_broker *broker);

/* For mpib_engine_open(), with a pointer to a struct mpib_broker * that is set
 * before the loop runs. */
extern const struct mpib_engine_events mpib_broker_events;

#define MPIB_CONNECT_S 120u

/*
 * Set time limits. A request older than request_s (0: no limit) fails its
 * connection, late by at most a quarter of request_s or a second, whichever is
 * less; a receive may wait longer while its sender has nothing to send. A
 * connect that is not accepted within connect_s (0: MPIB_CONNECT_S) fails.
 * request_s applies to current requests, too, connect_s only to later connects.
 */
void mpib_broker_patience(struct mpib_broker *broker, unsigned request_s,
			  unsigned connect_s);

/* Set how many lanes a user may have, to all peers; 0: no limit. */
void mpib_broker_limit_lanes(struct mpib_broker *broker, uint64_t most);
/* Return how many lanes the user has. */
uint64_t mpib_broker_lanes(const struct mpib_broker *broker, uid_t uid);

uint16_t mpib_broker_port(const struct mpib_broker *broker);
/* Return the second address that the broker listens on; ::, none. */
const struct in6_addr *mpib_broker_second(const struct mpib_broker *broker);

/* Listen for the client. nonce: the nonce of a listener of an earlier proxy, or
 * 0. 0; -ENOSPC: too many listeners; -EEXIST: a listener has this nonce; or
 * -errno. */
int mpib_broker_listen(struct mpib_broker *broker, struct peer_client *client,
		       uint64_t nonce, uint32_t *id,
		       struct mpib_handle *handle);
/* Close a listener; accepts that wait on it fail. -ENOENT: the client has no
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
/* Start again a connection that was accepted once, see struct mpib_ctl_resume.
 * Return like mpib_broker_connect(). */
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

/* The client is gone: close its connections and listeners, then call done(arg,
 * 0). */
void mpib_broker_forget(struct mpib_broker *broker, struct peer_client *client,
			mpib_done_fn *done, void *arg);

#endif
