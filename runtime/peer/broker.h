/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker: turns what local clients ask (listen, connect, accept, close)
 * into connections on lanes, together with the brokers of other nodes. Control
 * thread only; nothing blocks; outcomes appear in the connection's state word
 * of the client's reply segment.
 *
 * Memory that a peer may still write is never given up before the peer said
 * that it stopped, or the lane was killed. So every close ends, at the latest
 *
 *    5 s  (silence_s) after the peer fell silent: its link is dead, and so are
 *         its lanes;
 *   10 s  after the close, when the peer's link lives but it does not answer:
 *         the lane is killed, and with it what else is on it, for a peer that
 *         cannot stop one connection cannot be trusted with the others;
 *    2 s  on a private lane, which carries nothing else.
 */
#ifndef MPIB_PEER_BROKER_H
#define MPIB_PEER_BROKER_H

#include <mpib/control.h>

#include "base/loop.h"
#include "engine/engine.h"
#include "peer/auth.h"

struct mpib_broker;
struct mpib_agent_link;

struct mpib_broker_opts {
	struct mpib_loop *loop;
	struct mpib_engine *engine;
	uint32_t addr; /* peer link listens here, IPv4 in network order */
	uint16_t port; /* 0: any */
	const struct mpib_cluster_key *key; /* NULL: none; copied */
	uint32_t sout; /* IPv4 of the SOUT rail, network order; 0: none */
	const struct mpib_islands *islands; /* NULL: none; the caller's */
	struct mpib_agent_link *agent; /* NULL: none; the caller's */
	bool private_lanes; /* lanes we open serve one connection, imm v1 */
	unsigned request_s, connect_s; /* see mpib_broker_patience() */
	unsigned silence_s; /* of a peer, before its link is dead; 0: 5 */
	/* Of the peer protocol; 0: MPIB_PEER_VERSION. Below it, this broker
	 * is to its peers what one of before was: for tests. */
	uint16_t newest;
	bool idle; /* takes over from another: does not listen, nobody calls;
		      addr and port do not count, see handover.h */
};

/* One attached client, as the broker knows it. The caller's, and in place
 * until mpib_broker_forget() calls back. */
struct peer_client {
	uid_t uid;
	unsigned shard;
	struct mpib_tenant *tenant;
	struct engine_client *engine_client;
	struct mpib_reply *reply;
	/* The broker's. */
	struct peer_conn *conn[MPIB_CONNS_MAX];
	unsigned conns;
	bool leaving;
	mpib_done_fn *done;
	void *arg;
};

/* -errno and why: the address cannot be bound, most of all. */
int mpib_broker_open(const struct mpib_broker_opts *opts,
		     struct mpib_broker **broker, char *why, size_t why_len);
/* After mpib_engine_close(), whose last callbacks still need the broker. Closes
 * links and listeners at once; peers see that and fail what they have here. */
void mpib_broker_close(struct mpib_broker *broker);

/* To be given to mpib_engine_open() with a pointer to a struct mpib_broker *
 * that is set before the loop runs. */
extern const struct mpib_engine_events mpib_broker_events;

#define MPIB_CONNECT_S 120u

/*
 * A request that is older than request_s (0: of any age) fails its connection,
 * within another quarter of it or a second, whichever is less; a receive may
 * wait for as long as its sender has nothing to send. A connect that is not
 * accepted within connect_s (0: MPIB_CONNECT_S) fails. Counts for requests under
 * way, and for connects from now on.
 */
void mpib_broker_patience(struct mpib_broker *broker, unsigned request_s,
			  unsigned connect_s);

uint16_t mpib_broker_port(const struct mpib_broker *broker);

/* -ENOSPC: too many listeners. */
int mpib_broker_listen(struct mpib_broker *broker, struct peer_client *client,
		       uint32_t *id, struct mpib_handle *handle);
/* -ENOENT. Accepts that wait fail. */
int mpib_broker_close_listen(struct mpib_broker *broker,
			     struct peer_client *client, uint32_t id);

/* -EINVAL: no such index, or not free; -ENOENT: no such listener. Connections
 * share a lane only with those of their traffic class; one that is not 1 to 255
 * is the configured class. */
int mpib_broker_connect(struct mpib_broker *broker, struct peer_client *client,
			uint32_t index, int traffic_class,
			const struct mpib_handle *handle);
int mpib_broker_accept(struct mpib_broker *broker, struct peer_client *client,
		       uint32_t listen_id, uint32_t index);
/* -ENOENT: nothing at the index. */
int mpib_broker_drop(struct mpib_broker *broker, struct peer_client *client,
		     uint32_t index);
/* engine_conn_qos() of the connection. -ENOENT: nothing there has a connection. */
int mpib_broker_qos(struct mpib_broker *broker, struct peer_client *client,
		    uint32_t index, uint32_t weight, uint64_t rate);
/* Why a connection failed, "" if it did not. */
const char *mpib_broker_why(const struct peer_client *client, uint32_t index);

/* A connection that was asked for and is not ready. */
struct mpib_pending {
	uint32_t index;
	bool sender;
	const char *peer; /* "" before one is known */
	const char *why; /* what it waits for */
	uint64_t age_ns;
};
typedef void mpib_pending_fn(void *arg, const struct mpib_pending *p);
/* Calls fn for each of the owner's that is at least so old. */
void mpib_broker_pending(const struct peer_client *client, uint64_t older_ns,
			 mpib_pending_fn *fn, void *arg);

/* The client is gone: close all of it. done when nothing is left. */
void mpib_broker_forget(struct mpib_broker *broker, struct peer_client *client,
			mpib_done_fn *done, void *arg);

#endif
