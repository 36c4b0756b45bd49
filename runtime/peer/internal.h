/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker's own types, and the functions that its files share. Control
 * thread.
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
#define MPIB_BACKLOG_MAX MPIB_CONNS_MAX /* all peers may call at once */
/* Lanes that one peer may make this proxy keep. */
#define MPIB_LANES_MAX 4096u
/* Lanes among these that one user may have. */
#define MPIB_LANES_OF_ONE_MAX (MPIB_LANES_MAX / 4)
/* How long an unused lane is kept. */
#define MPIB_LANE_IDLE_NS (60 * MPIB_SEC)
/* The time to reach a peer and to make a lane. */
#define MPIB_REACH_NS (10 * MPIB_SEC)
/* The time for a handshake: HELLO and READY together at the called end, the
 * answer to HELLO at the calling end. */
#define MPIB_GREETING_NS (5 * MPIB_SEC)
/* The time for a peer that is not silent to answer a close before the lane is
 * killed. A shared lane carries other connections, so it gets more time. */
#define MPIB_CLOSE_SHARED_NS (10 * MPIB_SEC)
#define MPIB_CLOSE_PRIVATE_NS (2 * MPIB_SEC)

TAILQ_HEAD(peer_conn_list, peer_conn);
TAILQ_HEAD(peer_lane_list, peer_lane);
TAILQ_HEAD(mpib_peer_list, mpib_peer);
TAILQ_HEAD(mpib_pending_connect_list, mpib_pending_connect);
LIST_HEAD(mpib_offer_list, mpib_pending_connect);

/* Listening sockets: on the address that names this node, and on its second
 * address, see call.c. */
#define MPIB_DOORS 2

/* Each socket has its own limits, so a flood on one of them leaves the other
 * usable for peers. */
struct mpib_door {
	struct mpib_broker *broker;
	int fd; /* -1: none */
	struct mpib_acceptor acceptor;
};

/* A caller that has not proved its identity. */
struct mpib_pending_peer {
	struct mpib_broker *broker;
	struct mpib_door *door;
	struct mpib_link *link;
	bool welcomed; /* its HELLO came and was answered with WELCOME */
	bool self; /* this proxy calls itself */
	uint16_t version;
	struct mpib_node_id node; /* from the caller's HELLO */
	struct mpib_auth auth;
	struct mpib_timer timer;
	TAILQ_ENTRY(mpib_pending_peer) entry;
};
TAILQ_HEAD(mpib_pending_peer_list, mpib_pending_peer);

enum mpib_peer_state {
	MPIB_PEER_IDLE, /* no link, until one is needed */
	MPIB_PEER_CALLING, /* this node's call connects or awaits the WELCOME */
	MPIB_PEER_UP,
};

/* Another proxy, or this one. For itself a proxy has two entries, one as the
 * calling end and one as the called end, so that the two ends of a lane from a
 * node to itself are two lanes. */
struct mpib_peer {
	struct mpib_broker *broker;
	/* boot is 0 until the peer has sent it; second is the one that is
	 * called */
	struct mpib_node_id node;
	bool by_second; /* the next call goes to node.second */
	bool called; /* the entry of this proxy as the called end */
	uint16_t version; /* protocol version used on the link */
	enum mpib_peer_state state;
	struct mpib_link *link;
	/* Uid of the first client that needed the peer; MPIB_NOBODY: the peer
	 * called. */
	uid_t maker;
	uint64_t called_ns; /* start of this node's call */
	/* A caller that claims to be the peer is pending: this node's call
	 * waits before its READY. */
	bool held;
	struct mpib_node_id answer; /* from the WELCOME, while held */
	struct mpib_auth auth; /* of this node's call */
	struct mpib_timer retry;
	struct peer_asking asking;
	struct mpib_timer relink; /* lists the lanes not listed yet */
	/* Armed: the link broke, and its lanes wait for a new one. */
	struct mpib_timer away;
	char label[MPIB_LABEL_MAX];
	char last_error[128]; /* why the last link failed */
	char told[2][128]; /* last warning about calls to each address */
	struct peer_lane_list lanes;
	unsigned lane_count, conns; /* lanes and connections to this peer */
	struct peer_conn_list waiting; /* connections that wait for the link */
	TAILQ_ENTRY(mpib_peer) entry;
	struct mpib_peer_key {
		struct in6_addr addr;
		uint16_t port, called;
	} key; /* key of by_key, compared as bytes */
	UT_hash_handle hh;
};

enum peer_lane_state {
	PEER_LANE_ASKED, /* LANE_OPEN sent */
	PEER_LANE_UP,
	PEER_LANE_DYING, /* the engine kills it */
	PEER_LANE_DEAD, /* killed: no write through it is possible */
};

struct peer_lane {
	struct mpib_peer *peer;
	enum peer_lane_state state;
	bool ours; /* opened by this node */
	struct mpib_lane_key key; /* from the opener's point of view */
	uint32_t id, their_id; /* the peer's id; 0: not known yet */
	uint64_t nonce; /* of the LANE_OPEN, if ours */
	struct mpib_conn_name asker; /* likewise */
	/* Send nothing about it: the peer was told, or no longer has it. */
	bool muted;
	/* On the current link: listed by mpib_relink_lane(), and LANE_ACCEPT
	 * sent. */
	bool listed, accept_sent;
	struct mpib_lane *lane;
	uint32_t sup_src, sup_dst; /* IPv4 of SUP at both ends, or 0 */
	unsigned uses; /* connections and waiting CONN_OPENs */
	struct mpib_timer idle; /* since uses is 0 */
	struct peer_conn_list conns;
	/* Connections that wait until it is up. */
	struct peer_conn_list waiting;
	struct mpib_offer_list offers; /* CONN_OPENs on it */
	TAILQ_ENTRY(peer_lane) entry;
	UT_hash_handle hh, hh_lane;
};

enum peer_conn_state {
	PEER_CONN_NEW, /* on no list */
	PEER_CONN_LINK, /* waits for the peer's link */
	PEER_CONN_LANE, /* waits for the lane */
	PEER_CONN_OPEN, /* CONN_OPEN sent */
	PEER_CONN_ACCEPT, /* waits for a CONN_OPEN */
	/* The same, for a connect with its key that was accepted before. */
	PEER_CONN_WAIT,
	PEER_CONN_READY,
	PEER_CONN_OVER, /* failed, or closing */
	PEER_CONN_AGAIN, /* likewise; afterwards it starts again */
	/* likewise; afterwards its client may request it again */
	PEER_CONN_LOST,
};

/* State of the engine's connection from PEER_CONN_OVER on. */
enum peer_conn_end {
	PEER_END_RUNS,
	PEER_END_STOPPING,
	PEER_END_STOPPED, /* writes nothing any more */
	PEER_END_DESTROYED, /* destroyed, or being destroyed */
};

struct peer_conn {
	struct mpib_broker *broker;
	struct peer_client *client;
	uint32_t index, id;
	uint32_t their_id; /* not 0: the peer may write to this end */
	struct mpib_conn_name name; /* key 0: a receiver without a peer yet */
	/* Numbers of both ends' requests; the peer's number is 0 while
	 * unknown. */
	uint64_t number, peer_number;
	/* Sender: the peer's number when both ends were last READY; 0:
	 * never. */
	uint64_t met;
	uint64_t base; /* receives that completed before this end was created */
	bool sender;
	enum peer_conn_state state;
	uint64_t since; /* when the client asked for the connection */
	uint64_t until; /* deadline to become READY, for one with a name */
	uint64_t pause_ns; /* pause before the last retry */
	struct mpib_handle handle; /* sender: given by the client */
	uint8_t traffic_class; /* requested by the sender, 0: none */
	struct mpib_listener_entry *listener; /* receiver: set while it waits */
	struct mpib_peer *peer;
	struct peer_lane *lane;
	struct engine_conn *conn;
	struct mpib_agent_conn *hint; /* NULL: there is no agent */
	/* The state of its end, see peer_conn_step(). */
	bool offered; /* CONN_OPEN sent and not answered */
	bool dropped; /* the client closed it */
	enum peer_conn_end end;
	bool close_sent, asked; /* CONN_CLOSE sent; CONN_CLOSE received */
	bool quiet; /* the peer cannot write to this end any more */
	bool unheard; /* the peer was silent when its time to answer ended */
	/* number of times that the peer's time to answer ended */
	unsigned waited;
	struct mpib_timer timer;
	int error;
	char why[240];
	TAILQ_ENTRY(peer_conn) entry; /* in the list that it waits on */
	TAILQ_ENTRY(peer_conn) lane_entry;
	UT_hash_handle hh, hh_engine, hh_name;
};

/* broker.c: return why the connection is not ready yet. */
const char *peer_conn_last_error(const struct peer_conn *c);

/* A CONN_OPEN from a peer that waits for an accept. */
struct mpib_pending_connect {
	struct mpib_peer *peer;
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

/* The name of a listener for connects. The uid is part of it: a client that
 * knows the nonce of another user's listener gains nothing by listening with
 * that nonce first. */
struct mpib_listener_name {
	uint64_t nonce;
	/* 64 bits, so that there is no padding: it is hashed as bytes */
	uint64_t uid;
};

struct mpib_listener_entry {
	uint32_t id;
	struct mpib_listener_name name;
	struct peer_client *client;
	struct peer_conn_list accepts;
	struct mpib_pending_connect_list backlog;
	unsigned waiting;
	struct mpib_timer match; /* timer to match accepts and backlog */
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
	uint64_t request_ns, connect_ns; /* request_ns 0: no limit */
	uint64_t grace_ns; /* 0: nothing is resumed */
	/* Until then, clients of the last proxy may request their
	 * connections. */
	uint64_t young_until;
	/* Timer that looks for requests older than request_ns. */
	struct mpib_timer sweep;
	unsigned silence_s;
	uint64_t serial;
	struct mpib_door door[MPIB_DOORS];
	struct mpib_io engine_watch;
	struct mpib_peer_list peers; /* oldest first */
	struct mpib_peer *by_key; /* the same peers, by address */
	uint64_t lanes_of_one; /* limit per user; 0: no limit */
	struct mpib_pending_peer_list pending_peers; /* oldest first */
	struct mpib_fifo_sum waits; /* bytes queued for peers on all links */
	struct peer_asker asker;
	char refused[200]; /* last logged reason of a refusal */
	/* Time of that line, and refusals since. */
	uint64_t refused_ns, refused_count;
	/* The last refusal, by either end, of each node that had no link
	 * since. */
	struct mpib_refusal {
		struct in6_addr addr;
		char peer[MPIB_LABEL_MAX], why[200];
		uint64_t count, last_ns; /* count 0: the entry is free */
	} refusal[PEER_REFUSALS];
	struct mpib_listener_entry *listeners; /* by id */
	struct mpib_listener_entry *listeners_by_name;
	struct mpib_pending_connect *offers; /* CONN_OPENs that wait, by name */
	struct peer_lane *lanes; /* by id */
	struct peer_lane *by_lane; /* lanes that are UP, by engine lane */
	struct peer_conn *conns; /* by id */
	struct peer_conn *by_engine;
	struct peer_conn *by_name;
	uint32_t next_id;
};

/* Return a new id, not 0 and not in use for a listener, lane or connection. */
uint32_t mpib_broker_new_id(struct mpib_broker *b);

/* peer.c */
void mpib_peers_free(struct mpib_broker *b);
/* Find the entry of a peer. NULL: there is none. */
struct mpib_peer *mpib_peer_lookup(const struct mpib_broker *b,
				   const struct in6_addr *addr, uint16_t port,
				   bool called);
/* Return whether a peer may have this address. */
bool mpib_peer_at(const struct mpib_broker *b, const struct in6_addr *addr);
/* Return whether another entry can be made for the user; it may replace an
 * unneeded one. A peer that proves its identity may use the places reserved for
 * root. */
bool mpib_peer_room(const struct mpib_broker *b, uid_t uid);
/* Find or make the entry of a peer that has proved its identity; if there are
 * many entries, a new one replaces an unneeded one. NULL: no memory, or too
 * many are in use. */
struct mpib_peer *mpib_peer_find(struct mpib_broker *b, uid_t uid,
				 const struct in6_addr *addr, uint16_t port,
				 bool called);
/* The same for a peer that is called for the user's client. -EACCES: it is in
 * none of the peers' networks; -EDQUOT: too many peers of this user have not
 * answered; -ENOSPC or -ENOMEM. */
int mpib_peer_for(struct mpib_broker *b, uid_t uid,
		  const struct mpib_handle *handle, struct mpib_peer **peer);
bool mpib_peer_we_are_lower(const struct mpib_peer *p);
/* The link is up: list lanes and connections. */
void mpib_peer_is_up(struct mpib_peer *p, struct mpib_link *link,
		     const struct mpib_node_id *node);
/* Return the path from this node to the peer, by the islands configured
 * here. */
enum mpib_path mpib_peer_path(const struct mpib_peer *p);
/* The link of a struct mpib_peer is gone, or the caller closes it next. */
void mpib_peer_lost(void *peer, struct mpib_link *link, const char *why);
/* Close the peer's link, if it has one. */
void mpib_peer_cut(struct mpib_peer *p, const char *why);
/* Kill the peer's lanes, whose connections may be resumed; the link may
 * remain. */
void mpib_peer_forget(struct mpib_peer *p, const char *why);
/* Send a message to the peer. Without a link it is dropped. */
void mpib_peer_tell(struct mpib_peer *p, const struct mpib_peer_msg *m);
/* Note that this proxy or the one at addr refused a link; or forget it, because
 * they have one now. port 0: unknown. */
void mpib_refusal_note(struct mpib_broker *b, const struct in6_addr *addr,
		       uint16_t port, const char *why);
void mpib_refusal_forget(struct mpib_broker *b, const struct in6_addr *addr);
/* Send a CONN_REJECT or LANE_REJECT for the object whose id at the peer is
 * `to`. */
void mpib_peer_refuse(struct mpib_peer *p, enum mpib_peer_type type,
		      uint32_t to, int error, const char *why);

/* List a lane on the peer's link, which is up. */
void mpib_relink_lane(struct peer_lane *l);

/* hello.c */
/* Add a message of the handshake that was sent or received to the hash that
 * proofs cover, without the proof in the message. */
void mpib_hello_said(struct mpib_auth *a, const struct mpib_peer_msg *m);
/* Return whether a caller that claims to be the peer was welcomed and has not
 * proved it yet. */
bool mpib_hello_expected(const struct mpib_peer *p);
/* This node's own call was first: drop the callers that say that they are
 * the peer. */
void mpib_hello_overtaken(struct mpib_peer *p);

/* Listen on this node's addresses. -errno and why: the first address failed. If
 * only the second fails, the broker continues without it. */
int mpib_hello_listen(struct mpib_broker *b, char *why, size_t why_len);
void mpib_hello_close(struct mpib_broker *b);

/* call.c */
/* Call the peer, if connections or lanes wait for a link to it. */
void mpib_peer_want(struct mpib_peer *p);
/* Record the second address that the peer itself sent. */
void mpib_second_take(struct mpib_peer *p, const struct in6_addr *addr);
/* Record the second address from a peer's handle, which anyone may have
 * forged. */
void mpib_second_hear(struct mpib_peer *p, const struct mpib_handle *handle);
/* Return whether a caller from this address may speak for the node. If there is
 * a key, the caller must still prove it. */
bool mpib_second_speaks(struct mpib_broker *b, const struct mpib_node_id *node,
			const struct in6_addr *from);
/* A call to the first or second address failed, or its link broke: the next
 * call goes to the other address. */
void mpib_second_turn(struct mpib_peer *p, bool second);
/* Return whether this node's call to the peer has precedence over a
 * simultaneous call of the peer. */
bool mpib_call_wins(const struct mpib_peer *p);
/* A caller that claimed to be the peer is gone: send the READY of this node's
 * call if it waited for that. */
void mpib_call_release(struct mpib_peer *p);
/* The same after ns. */
void mpib_call_again(struct mpib_peer *p, uint64_t ns);
/* This node's call failed: -errno, or 0 if the peer answered it with a
 * refusal. */
void mpib_call_failed(struct mpib_peer *p, int error);

/* lane.c */
/* Join the connection to a lane, and open one if there is none yet. 0, or
 * -errno and why. */
int peer_lane_get(struct peer_conn *c, char *why, size_t why_len);
/* Handle a message about a lane. False: a correct peer would not send
 * this now. */
bool peer_lane_message(struct mpib_peer *p, const struct mpib_peer_msg *m);
struct peer_lane *peer_lane_find(struct mpib_peer *p, uint32_t id);
/* Return the shard of this node's end of the lane. */
unsigned peer_lane_shard(const struct peer_lane *l);
/* Send a message about the lane, unless the lane is muted, or is not listed
 * yet: then the list has the same information. */
void peer_lane_tell(const struct peer_lane *l, const struct mpib_peer_msg *m);
/* The same for an answer, which is not part of the list. */
void peer_lane_answer(const struct peer_lane *l, const struct mpib_peer_msg *m);
/* Send the LANE_OPEN of a lane that this node opened. */
void peer_lane_ask(struct peer_lane *l);
/* Kill the lane: tell the peer, and fail the lane's connections, or let them be
 * resumed if error is MPIB_BROKEN_LOST. They become quiet when the engine has
 * killed the lane. */
void peer_lane_kill(struct peer_lane *l, int error, const char *why);
/* The same for a lane that has failed. */
void peer_lane_lose(struct peer_lane *l, const char *why);
void peer_lane_join(struct peer_lane *l, struct peer_conn *c);
void peer_lane_leave(struct peer_conn *c);
/* Decrement uses. An unused lane is freed if dead, and killed if private. */
void peer_lane_put(struct peer_lane *l);
/* Kill all lanes to the peer like peer_lane_kill(). */
void peer_lanes_end(struct mpib_peer *p, int error, const char *why);
void peer_lanes_free(struct mpib_broker *b);

/* broker.c */
void mpib_broker_del_listener(struct mpib_broker *b,
			      struct mpib_listener_entry *l);

/* conn.c */
/* Find the end with that name; NULL: none. */
struct peer_conn *peer_conn_named(const struct mpib_broker *b,
				  const struct mpib_conn_name *name);
int peer_conn_new(struct mpib_broker *b, struct peer_client *client,
		  uint32_t index, bool sender, struct peer_conn **conn);
bool peer_conn_message(struct mpib_peer *p, const struct mpib_peer_msg *m);
/* Take the next step after the link, or the lane, is up. */
void peer_conn_linked(struct peer_conn *c);
void peer_conn_laned(struct peer_conn *c);
/* Fail the connection. A connect that fails with -EAGAIN starts again until its
 * time ends. */
void peer_conn_fail(struct peer_conn *c, int error, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The connection's lane is gone: its client may request the connection again. A
 * connection that is not READY is started again here. */
void peer_conn_lose(struct peer_conn *c, const char *cause);
/* The peer reports that its end was closed. */
void peer_conn_closed_there(struct peer_conn *c, const char *why);
/* Return the error that ends a connection: one that allows a resume, if
 * resuming is enabled. */
int peer_lost_error(const struct mpib_broker *b);
/* Send the CONN_OPEN or CONN_ACCEPT of the connection. */
void peer_conn_tell_tables(const struct peer_conn *c, enum mpib_peer_type type);
/* Send its CONN_CANCEL, CONN_CLOSE or CONN_CLOSED. */
void peer_conn_tell_end(const struct peer_conn *c, enum mpib_peer_type type);
/* Start a connect that is on no list, after ns nanoseconds. */
void peer_conn_begin_later(struct peer_conn *c, uint64_t ns);
/* Take the next step of ending the connection, from PEER_CONN_OVER on. */
void peer_conn_step(struct peer_conn *c);
/* The lane ends, and the peer has dropped everything on it: start the connects
 * again that were offered on it. */
void peer_lane_renew(struct peer_lane *l);
struct peer_conn *peer_conn_of_engine(struct mpib_broker *b,
				      struct engine_conn *conn);

/* accept.c */
/* Find the user's listener by the nonce in the message, which only holders of
 * its handle know. 0; -EAGAIN: an earlier proxy may have had it; or -errno and
 * why. */
int mpib_accept_proof(const struct mpib_broker *b,
		      const struct mpib_peer_msg *m, uint32_t uid,
		      struct mpib_listener_entry **listener, const char **why);
/* Return the name of the other end of a connection. */
struct mpib_conn_name mpib_other_end(const struct mpib_conn_name *name);
bool mpib_accept_open(struct mpib_peer *p, const struct mpib_peer_msg *m);
void mpib_accept_cancel(struct mpib_peer *p, const struct mpib_peer_msg *m);
/* Drop the CONN_OPENs on this lane that were not accepted. */
void mpib_accept_lane_gone(struct peer_lane *l);
void mpib_accept_unlisten(struct mpib_broker *b, struct mpib_listener_entry *l);
void mpib_accept_begin(struct peer_conn *c,
		       const struct mpib_pending_connect *w);

#endif
