/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Types and functions that only the files of this folder use. Control thread.
 */
#ifndef MPIB_PEER_INTERNAL_H
#define MPIB_PEER_INTERNAL_H

#include <sys/queue.h>

#include "agent/agent.h"
#include "base/hash.h"
#include "base/users.h"
#include "peer/ask.h"
#include "peer/broker.h"
#include "peer/link.h"

#define MPIB_NOBODY ((uid_t)-1)
#define MPIB_LISTENERS_MAX 65536u
/* Maximum number of CONN_OPENs that wait at one listener. A higher maximum
 * would be useless, because a client can have at most MPIB_CONNS_MAX
 * connections. */
#define MPIB_BACKLOG_MAX MPIB_CONNS_MAX
/* Maximum number of lanes to one peer. If this number of lanes exists, this
 * proxy refuses the peer's LANE_OPENs. */
#define MPIB_LANES_MAX 4096u
/* Maximum number of lanes of one user to one peer. */
#define MPIB_LANES_OF_ONE_MAX (MPIB_LANES_MAX / 4)
/* The opening end closes a lane that was unused for this time. The accepting
 * end waits twice as long. */
#define MPIB_LANE_IDLE_NS (60 * MPIB_SEC)
/* Time limit for a new connect to get a lane. The set-up of the link to the
 * peer counts towards this limit. */
#define MPIB_REACH_NS (10 * MPIB_SEC)
/* Time limit of a handshake. The called end must receive both HELLO and READY
 * within this time. The calling end must receive the answer to its HELLO within
 * this time. */
#define MPIB_GREETING_NS (5 * MPIB_SEC)
/* Time limit for the peer's answer to a close. If a peer that is not silent
 * exceeds the limit, this proxy kills the lane. The limit is longer for a
 * shared lane, because other connections can use this lane, too. */
#define MPIB_CLOSE_SHARED_NS (10 * MPIB_SEC)
#define MPIB_CLOSE_PRIVATE_NS (2 * MPIB_SEC)

TAILQ_HEAD(peer_conn_list, peer_conn);
TAILQ_HEAD(peer_lane_list, peer_lane);
TAILQ_HEAD(mpib_peer_list, mpib_peer);
TAILQ_HEAD(mpib_pending_connect_list, mpib_pending_connect);
LIST_HEAD(mpib_offer_list, mpib_pending_connect);

/* Number of listening sockets: one for each of this node's two addresses, see
 * call.c. */
#define MPIB_DOORS 2

/* A listening socket. Each socket has its own limits, so a flood of callers on
 * one socket leaves the other usable for peers. */
struct mpib_door {
	struct mpib_broker *broker;
	int fd; /* -1: none */
	struct mpib_acceptor acceptor;
};

/* A caller: a proxy that has connected to this proxy and has not proved its
 * identity yet. */
struct mpib_pending_peer {
	struct mpib_broker *broker;
	struct mpib_door *door;
	struct mpib_link *link;
	bool welcomed; /* the caller's HELLO was answered with a WELCOME */
	bool self; /* the caller is this proxy */
	uint16_t version;
	struct mpib_node_id node; /* stated by the HELLO, not proved */
	struct mpib_auth auth;
	struct mpib_timer timer;
	TAILQ_ENTRY(mpib_pending_peer) entry;
};
TAILQ_HEAD(mpib_pending_peer_list, mpib_pending_peer);

enum mpib_peer_state {
	MPIB_PEER_IDLE, /* no link, and this node is not calling the peer */
	/* this node's call is connecting, or awaits the WELCOME */
	MPIB_PEER_CALLING,
	MPIB_PEER_UP,
};

/* A peer: another proxy, or this proxy itself. A proxy has two entries for
 * itself, one as the calling end and one as the called end. So a lane from a
 * node to itself has two `peer_lane` objects, one for each end. */
struct mpib_peer {
	struct mpib_broker *broker;
	/* The peer's node id. `node.boot` is 0 until the peer has sent its node
	 * id. `node.second` is the peer's second address. */
	struct mpib_node_id node;
	bool by_second; /* the next call goes to the address node.second */
	/* set in this proxy's entry for itself as the called end */
	bool called;
	uint16_t version; /* protocol version used on the link */
	enum mpib_peer_state state;
	struct mpib_link *link;
	/* Uid of the client for which mpib_peer_for() created the entry.
	 * MPIB_NOBODY: another function created the entry. */
	uid_t maker;
	uint64_t called_ns; /* when this node's call started */
	/* This node delays the READY of its own call, because a pending caller
	 * claims to be this peer. */
	bool held;
	/* the node id in the peer's WELCOME, while `held` is set */
	struct mpib_node_id answer;
	struct mpib_auth auth; /* hash of the handshake of this node's call */
	struct mpib_timer retry;
	struct peer_asking asking;
	/* Timer for relink_on_turn() in peer.c. Armed until all lanes are
	 * listed on the current link. */
	struct mpib_timer relink;
	/* Armed while lanes wait for a new link. When this timer fires, the
	 * lanes are killed. */
	struct mpib_timer away;
	char label[MPIB_LABEL_MAX];
	char last_error[150]; /* why the last link failed */
	struct peer_lane_list lanes;
	unsigned conns; /* number of connections to this peer */
	struct peer_conn_list waiting; /* connections that wait for the link */
	TAILQ_ENTRY(mpib_peer) entry;
	struct mpib_peer_key {
		struct in6_addr addr;
		uint16_t port, called;
	} key; /* key of the hash table by_key, compared as bytes */
	UT_hash_handle hh;
};

enum peer_lane_state {
	PEER_LANE_ASKED, /* LANE_OPEN sent */
	PEER_LANE_UP,
	PEER_LANE_DYING, /* being killed by the engine */
	PEER_LANE_DEAD, /* killed: nothing can be written through the lane */
};

struct peer_lane {
	struct mpib_peer *peer;
	enum peer_lane_state state;
	bool ours; /* opened by this node */
	struct mpib_lane_key key; /* `from_shard` is the opener's shard */
	/* this end's and the peer's id of the lane; 0: not known yet */
	uint32_t id, their_id;
	uint64_t nonce; /* nonce of the LANE_OPEN, if `ours` is set */
	/* connection name in the LANE_OPEN, if `ours` is set */
	struct mpib_conn_name asker;
	/* Send no more messages about the lane: a LANE_CLOSE was sent or
	 * received, or the peer does not have the lane. */
	bool muted;
	bool peer_lost; /* the lane ends with all lanes to the peer */
	/* State on the current link. `listed`: mpib_relink_lane() has listed
	 * the lane. `accept_sent`: the lane's LANE_ACCEPT was sent. */
	bool listed, accept_sent;
	struct mpib_lane *lane;
	/* IPv4 of the SUP rail at this end and at the peer; 0: none */
	uint32_t sup_src, sup_dst;
	/* number of connections plus waiting CONN_OPENs on this lane */
	unsigned uses;
	struct mpib_timer idle; /* runs while `uses` is 0 */
	struct peer_conn_list conns;
	/* Connections that wait until the lane is up. */
	struct peer_conn_list waiting;
	struct mpib_offer_list offers; /* waiting CONN_OPENs on this lane */
	TAILQ_ENTRY(peer_lane) entry;
	UT_hash_handle hh, hh_lane;
};

enum peer_conn_state {
	PEER_CONN_NEW, /* on no list */
	PEER_CONN_LINK, /* waits for the peer's link */
	PEER_CONN_LANE, /* waits for the lane */
	PEER_CONN_OPEN, /* CONN_OPEN sent */
	PEER_CONN_ACCEPT, /* waits for a CONN_OPEN */
	/* Receiver that resumes its connection: waits for the CONN_OPEN with
	 * the connection's key. */
	PEER_CONN_WAIT,
	PEER_CONN_READY,
	PEER_CONN_OVER, /* failed, or closing */
	/* failed; after the clean-up, the broker starts the connect again */
	PEER_CONN_AGAIN,
	/* Failed. After the clean-up, the client can request the connection
	 * again. */
	PEER_CONN_LOST,
};

/* State of the engine connection (`conn` in struct peer_conn). This state stays
 * PEER_END_RUNS until the connection's own state is PEER_CONN_OVER or later. */
enum peer_conn_end {
	PEER_END_RUNS,
	PEER_END_STOPPING,
	PEER_END_STOPPED, /* this end has stopped writing */
	PEER_END_DESTROYED, /* destroyed, or being destroyed */
};

struct peer_conn {
	struct mpib_broker *broker;
	struct peer_client *client;
	uint32_t index, id;
	/* The peer's id of the connection. If this id is not 0, the peer can
	 * write to this end's memory. */
	uint32_t their_id;
	/* `key` is 0 for a receiver that has no peer yet */
	struct mpib_conn_name name;
	/* `number`: number of requests for this end so far, including the
	 * request that created this entry. `peer_number`: number of requests
	 * for the peer's end so far; 0: unknown. */
	uint64_t number, peer_number;
	/* Sender: the value of `peer_number` when both ends were last READY. 0:
	 * the two ends have never been READY. */
	uint64_t met;
	/* number of receives that completed before this end was created */
	uint64_t base;
	bool sender;
	enum peer_conn_state state;
	/* when the client asked for the connection, or for the first of several
	 * ends that moved nothing */
	uint64_t since;
	/* time by which a connection with a name must be READY */
	uint64_t until;
	uint64_t pause_ns; /* pause before the last retry */
	bool hurried; /* sender: a CONN_WAIT has ended a pause */
	/* sender: the handle that the client passed */
	struct mpib_handle handle;
	/* traffic class that the sender requested, 0: none */
	uint8_t traffic_class;
	/* receiver: the listener at which the accept waits */
	struct mpib_listener_entry *listener;
	struct mpib_peer *peer;
	struct peer_lane *lane;
	struct engine_conn *conn;
	/* the agent's entry for this connection; NULL: none */
	struct mpib_agent_conn *hint;
	/* Progress of ending the connection, see peer_conn_step(). */
	bool offered; /* CONN_OPEN sent and not answered */
	bool dropped; /* the client closed the connection */
	bool was_lost; /* it has been in the state MPIB_CONN_LOST */
	/* engine_conn_unmoved(), and the loss was not that of the peer */
	bool unmoved;
	enum peer_conn_end end;
	bool close_sent, asked; /* CONN_CLOSE sent; CONN_CLOSE received */
	bool quiet; /* the peer cannot write to this end any more */
	/* the peer was silent when the time limit for its answer passed */
	bool unheard;
	/* how often the time limit for the peer's answer has passed */
	unsigned waited;
	struct mpib_timer timer;
	int error;
	char why[240];
	/* entry in the list on which the connection waits */
	TAILQ_ENTRY(peer_conn) entry;
	TAILQ_ENTRY(peer_conn) lane_entry;
	UT_hash_handle hh, hh_engine, hh_name;
};

/* broker.c */
/* Return why the connection is not ready yet. */
const char *peer_conn_last_error(const struct peer_conn *c);
/* Find this node's end of a connection. `name` is the name of this end. Return
 * NULL if there is none. */
struct peer_conn *peer_conn_named(const struct mpib_broker *b,
				  const struct mpib_conn_name *name);

/* A peer's CONN_OPEN that waits for an accept. */
struct mpib_pending_connect {
	struct peer_lane *lane;
	struct mpib_listener_entry *listener;
	struct mpib_conn_name name; /* name of the accepting end */
	uint64_t number;
	uint32_t from;
	struct engine_conn_info conn;
	TAILQ_ENTRY(mpib_pending_connect) entry;
	LIST_ENTRY(mpib_pending_connect) lane_entry;
	UT_hash_handle hh;
};

/* The key for finding the listener of a connect. The key contains the uid. So
 * another user's listener with the same nonce does not get these connects. */
struct mpib_listener_name {
	uint64_t nonce;
	/* 64 bits wide: the structure is hashed as bytes, so it must have no
	 * padding */
	uint64_t uid;
};

struct mpib_listener_entry {
	uint32_t id;
	struct mpib_listener_name name;
	struct peer_client *client;
	struct peer_conn_list accepts;
	struct mpib_pending_connect_list backlog;
	unsigned waiting;
	/* timer of accept_on_match(), which matches accepts with the backlog */
	struct mpib_timer match;
	UT_hash_handle hh, hh_name;
};

#define PEER_REFUSALS 32

struct mpib_broker {
	struct mpib_loop *loop;
	struct mpib_engine *engine;
	struct mpib_node_id self;
	struct mpib_cluster_key key;
	const struct mpib_networks *networks;
	const struct mpib_islands *islands;
	struct mpib_agent_link *agent;
	bool private_lanes, sweeping;
	uint64_t request_ns, connect_ns; /* time limits; `request_ns` 0: none */
	/* for how long a lost connection can be resumed; 0: never */
	uint64_t grace_ns;
	/* Until this time, clients of the previous proxy can request their
	 * connections again. */
	uint64_t young_until;
	/* Timer of on_sweep(), which searches for requests older than
	 * `request_ns`. */
	struct mpib_timer sweep;
	unsigned silence_s;
	uint64_t serial;
	struct mpib_door door[MPIB_DOORS];
	struct mpib_io engine_watch;
	struct mpib_peer_list peers; /* oldest first */
	struct mpib_peer *by_key; /* the same peers, by address */
	uint64_t lanes_of_one; /* maximum lanes of a user; 0: no limit */
	struct mpib_pending_peer_list pending_peers; /* oldest first */
	struct mpib_fifo_sum waits; /* bytes queued for peers on all links */
	struct peer_asker asker;
	uint64_t refused_count; /* refusals since this proxy started */
	uint64_t refused_paid; /* for events, see mpib_rate_take() */
	/* For each node, the last refusal of a link between this proxy and that
	 * node's proxy. Either proxy may have refused the link. When a link to
	 * the node comes up, the node's entry is freed. */
	struct mpib_refusal {
		struct in6_addr addr;
		char peer[MPIB_LABEL_MAX], why[200];
		uint64_t count, last_ns; /* `count` 0: the entry is free */
		bool told; /* an event tells this reason */
	} refusal[PEER_REFUSALS];
	struct mpib_listener_entry *listeners; /* by id */
	struct mpib_listener_entry *listeners_by_name;
	struct mpib_pending_connect *offers; /* waiting CONN_OPENs, by name */
	struct peer_lane *lanes; /* by id */
	struct peer_lane *by_lane; /* lanes that are UP, by engine lane */
	struct peer_conn *conns; /* by id */
	struct peer_conn *by_engine;
	struct peer_conn *by_name;
	uint32_t next_id;
};

/* Return a new id. The id is not 0, and no listener, lane or connection has
 * this id. */
uint32_t mpib_broker_new_id(struct mpib_broker *b);

/* peer.c */
void mpib_peers_free(struct mpib_broker *b);
/* Return the entry of a peer, or NULL if there is none. */
struct mpib_peer *mpib_peer_lookup(const struct mpib_broker *b,
				   const struct in6_addr *addr, uint16_t port,
				   bool called);
/* Return whether peer.networks permits a peer at this address. */
bool mpib_peer_at(const struct mpib_broker *b, const struct in6_addr *addr);
/* Return whether mpib_peer_find() can create an entry for the user. An entry
 * that it can free counts as room. For a peer that has proved its identity,
 * pass 0 as `uid`, because such a peer can use the entries that are reserved
 * for root. */
bool mpib_peer_room(const struct mpib_broker *b, uid_t uid);
/* Return the entry of a peer, or create one. If the table is full, first free
 * an unneeded entry. Return NULL if memory is short or too many entries are in
 * use. `uid` has the same meaning as in mpib_peer_room(). */
struct mpib_peer *mpib_peer_find(struct mpib_broker *b, uid_t uid,
				 const struct in6_addr *addr, uint16_t port,
				 bool called);
/* Find or create the entry of a peer that a client of the user needs. Return 0,
 * -EACCES if the peer's address is not in peer.networks, -EDQUOT if the user
 * already waits for too many peers, -ENOSPC or -ENOMEM. */
int mpib_peer_for(struct mpib_broker *b, uid_t uid,
		  const struct mpib_handle *handle, struct mpib_peer **peer);
bool mpib_peer_we_are_lower(const struct mpib_peer *p);
/* Start to use a new link that is up. First list this node's lanes and
 * connections on the link. */
void mpib_peer_is_up(struct mpib_peer *p, struct mpib_link *link,
		     const struct mpib_node_id *node);
/* Return the path from this node to the peer, according to this node's
 * islands. */
enum mpib_path mpib_peer_path(const struct mpib_peer *p);
/* Handle the loss of a peer's link. Call this when the link has ended, or
 * immediately before closing the link. `peer` is a struct mpib_peer. */
void mpib_peer_lost(void *peer, struct mpib_link *link, const char *why);
/* Close the peer's link, if it has one. */
void mpib_peer_cut(struct mpib_peer *p, const char *why);
/* Kill the peer's lanes. Clients can resume the lanes' connections. This
 * function does not close the peer's link. */
void mpib_peer_forget(struct mpib_peer *p, const char *why);
/* Send a message to the peer. If there is no link, drop the message. */
void mpib_peer_tell(struct mpib_peer *p, const struct mpib_peer_msg *m);
/* Record the refusal of a link between this proxy and the proxy at `addr`.
 * Either proxy may have refused the link. `port` 0 means that the port is
 * unknown. mpib_refusal_forget() drops the record after a link has come up. */
void mpib_refusal_note(struct mpib_broker *b, const struct in6_addr *addr,
		       uint16_t port, const char *why);
void mpib_refusal_forget(struct mpib_broker *b, const struct in6_addr *addr);
/* Send a CONN_REJECT or LANE_REJECT. `to` is the peer's id of the refused
 * object. */
void mpib_peer_refuse(struct mpib_peer *p, enum mpib_peer_type type,
		      uint32_t to, int error, const char *why);

/* List the lane and its connections: send their state to the peer, in the
 * messages that protocol.h defines. The peer's link must be up. */
void mpib_relink_lane(struct peer_lane *l);

/* Handles a message of one type. Returns false if a correct peer would not send
 * this message in the current state. */
typedef bool peer_message_fn(struct mpib_peer *p,
			     const struct mpib_peer_msg *m);

peer_message_fn peer_lane_on_open, peer_lane_on_accept, peer_lane_on_reject,
	peer_lane_on_close, peer_lane_on_kept, peer_lane_on_rail;
peer_message_fn peer_conn_on_open, peer_conn_on_accept, peer_conn_on_reject,
	peer_conn_on_cancel, peer_conn_on_close, peer_conn_on_closed,
	peer_conn_on_wait;
peer_message_fn peer_ask_on_ask, peer_ask_on_report;

/* hello.c */
/* Add a sent or received message of the handshake to the hash, without the
 * message's own proof. Proofs are computed from this hash. */
void mpib_hello_said(struct mpib_auth *a, const struct mpib_peer_msg *m);
/* Return whether a pending caller claims to be this peer. Such a caller has
 * received a WELCOME from this node, but has not proved its identity yet. */
bool mpib_hello_expected(const struct mpib_peer *p);
/* Drop every pending caller that claims to be this peer, because this node's
 * own call has precedence. */
void mpib_hello_overtaken(struct mpib_peer *p);

/* Listen on this node's addresses. If the first address fails, return -errno
 * with a reason in `why`. If the second address fails, continue without this
 * address and return 0. */
int mpib_hello_listen(struct mpib_broker *b, char *why, size_t why_len);
void mpib_hello_close(struct mpib_broker *b);

/* call.c */
/* Call the peer, if connections or lanes wait for a link to the peer. */
void mpib_peer_want(struct mpib_peer *p);
/* Record the second address that the peer sent in the handshake. */
void mpib_second_take(struct mpib_peer *p, const struct in6_addr *addr);
/* Record the peer's second address from a handle. The handle can be forged. */
void mpib_second_hear(struct mpib_peer *p, const struct mpib_handle *handle);
/* Return whether to believe a caller at the address `from` that claims to be
 * `node`. In a cluster with a key, the caller must later prove that it knows
 * the key. */
bool mpib_second_speaks(struct mpib_broker *b, const struct mpib_node_id *node,
			const struct in6_addr *from);
/* Handle the failure of a call or link to one of the peer's addresses: choose
 * the other address for the next call. `second` is true if the peer's second
 * address failed. */
void mpib_second_turn(struct mpib_peer *p, bool second);
/* Return whether this node's call to the peer has precedence over a
 * simultaneous call of the peer. */
bool mpib_call_wins(const struct mpib_peer *p);
/* Call this after dropping a pending caller that claimed to be this peer. If
 * this node delayed the READY of its own call because of that caller, send the
 * READY. */
void mpib_call_release(struct mpib_peer *p);
/* Call mpib_peer_want() after `ns` nanoseconds. */
void mpib_call_again(struct mpib_peer *p, uint64_t ns);
/* Handle the failure of this node's call. `error` is -errno, or 0 if the peer
 * answered with a refusal. */
void mpib_call_failed(struct mpib_peer *p, int error);

/* lane.c */
/* Attach the connection to a lane. If no suitable lane exists, open one. Return
 * 0, or -errno with a reason in `why`. */
int peer_lane_get(struct peer_conn *c, char *why, size_t why_len);
struct peer_lane *peer_lane_find(struct mpib_peer *p, uint32_t id);
/* Return the shard of this node's end of the lane. */
unsigned peer_lane_shard(const struct peer_lane *l);
/* Send a message about the lane. If the lane is muted or not listed yet, drop
 * the message. When the lane is listed, the peer gets the same information. */
void peer_lane_tell(const struct peer_lane *l, const struct mpib_peer_msg *m);
/* Send an answer about the lane, unless the lane is muted. Send the answer even
 * if the lane is not listed yet, because listing a lane does not repeat
 * answers. */
void peer_lane_answer(const struct peer_lane *l, const struct mpib_peer_msg *m);
/* Send the LANE_OPEN of a lane that this node opened. */
void peer_lane_ask(struct peer_lane *l);
/* Kill the lane: tell the peer, and fail the lane's connections. If `error` is
 * MPIB_BROKEN_LOST, the connections can be resumed. The connections become
 * `quiet` when the engine has killed the lane. */
void peer_lane_kill(struct peer_lane *l, int error, const char *why);
/* Kill a lane that has failed: call peer_lane_kill() with the error that
 * peer_lost_error() returns. */
void peer_lane_lose(struct peer_lane *l, const char *why);
void peer_lane_join(struct peer_lane *l, struct peer_conn *c);
void peer_lane_leave(struct peer_conn *c);
/* Decrement `uses`. At 0, free a dead lane, and kill a private lane. Close a
 * shared lane later, if the lane stays unused. */
void peer_lane_put(struct peer_lane *l);
/* Call peer_lane_kill() for all lanes to the peer. */
void peer_lanes_end(struct mpib_peer *p, int error, const char *why);
void peer_lanes_free(struct mpib_broker *b);

/* broker.c */
void mpib_broker_del_listener(struct mpib_broker *b,
			      struct mpib_listener_entry *l);

/* conn.c */
int peer_conn_new(struct mpib_broker *b, struct peer_client *client,
		  uint32_t index, bool sender, struct peer_conn **conn);
/* Tell the client the connection's state. */
void peer_conn_set_state(struct peer_conn *c, enum mpib_conn_state state);
/* Set the connection's peer, NULL for none. */
void peer_conn_set_peer(struct peer_conn *c, struct mpib_peer *p);
/* Remove the connection from the list on which it waits. */
void peer_conn_unlist(struct peer_conn *c);
/* Return the time until c->until in ns. */
uint64_t peer_conn_left_ns(const struct peer_conn *c);
/* A sender starts a connect, and a receiver waits for the peer's connect. Both
 * first need a link to the peer. */
void peer_conn_begin(struct peer_conn *c);
/* Continue the set-up of a connection. Call peer_conn_linked() after the peer's
 * link has come up, and peer_conn_laned() after the connection's lane has come
 * up. */
void peer_conn_linked(struct peer_conn *c);
void peer_conn_laned(struct peer_conn *c);

/* conn_end.c */
/* Return whether the end of a connection, which its lane has lost, is part of
 * the failure for which the client asked for this end. */
bool peer_conn_is_same_loss(const struct peer_conn *c);
/* Fail the connection. A connect that fails with -EAGAIN is retried until its
 * time limit. */
void peer_conn_fail(struct peer_conn *c, int error, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Handle the loss of the connection's lane. If the connection was READY, the
 * client can request the connection again. Otherwise the broker retries the
 * connect. */
void peer_conn_lose(struct peer_conn *c, const char *cause);
/* Handle the peer's message that the peer's end was closed. */
void peer_conn_closed_there(struct peer_conn *c, const char *why);
/* Return the error for a connection that loses its lane. If resuming is
 * enabled, the error is MPIB_BROKEN_LOST, and the client can resume the
 * connection. Otherwise the error is -ECONNRESET. */
int peer_lost_error(const struct mpib_broker *b);
/* Send the CONN_OPEN or CONN_ACCEPT of the connection. */
void peer_conn_tell_tables(const struct peer_conn *c, enum mpib_peer_type type);
/* Send the connection's CONN_CANCEL, CONN_CLOSE or CONN_CLOSED. */
void peer_conn_tell_end(const struct peer_conn *c, enum mpib_peer_type type);
/* Start the connect `c` after `ns` nanoseconds. The connection must be on no
 * list. */
void peer_conn_begin_later(struct peer_conn *c, uint64_t ns);
/* Take the next step of ending the connection. Do nothing if the connection's
 * state is before PEER_CONN_OVER. */
void peer_conn_step(struct peer_conn *c);
/* Restart the connects that sent their CONN_OPEN on the lane. Call this when
 * the lane ends, after the peer has dropped everything on the lane. */
void peer_lane_renew(struct peer_lane *l);

/* accept.c */
/* Find the user's listener by the nonce in the message. Only processes that
 * have the listener's handle know the nonce. Return 0, or -errno with a reason
 * in `why`. -EAGAIN: this proxy started recently (mpib_broker_young()), so the
 * client can still create the listener again. */
int mpib_accept_proof(const struct mpib_broker *b,
		      const struct mpib_peer_msg *m, uint32_t uid,
		      struct mpib_listener_entry **listener, const char **why);
/* Return the name of the other end of a connection. */
struct mpib_conn_name mpib_other_end(const struct mpib_conn_name *name);
/* Drop the waiting CONN_OPENs of this lane. */
void mpib_accept_lane_gone(struct peer_lane *l);
void mpib_accept_unlisten(struct mpib_broker *b, struct mpib_listener_entry *l);
void mpib_accept_begin(struct peer_conn *c,
		       const struct mpib_pending_connect *w);

#endif
