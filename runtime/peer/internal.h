/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the broker.
 */
#ifndef MPIB_PEER_INTERNAL_H
#define MPIB_PEER_INTERNAL_H

#include <sys/queue.h>

#include "agent/agent.h"
#include "base/hash.h"
#include "engine/measure/snapshot.h"
#include "peer/broker.h"
#include "peer/link.h"
#include "peer/resume.h"

#define MPIB_LISTENERS_MAX 65536u
#define MPIB_BACKLOG_MAX 256u
/* Lanes that one peer may have us hold. */
#define MPIB_LANES_MAX 4096u
/* To be reached and to make a lane with, a peer has so long. */
#define MPIB_REACH_NS (10 * MPIB_SEC)
/* A peer whose link lives must answer a close within this, or loses the lane.
 * A shared lane has others on it, so it gets longer; a link that dies takes
 * its lanes with it much sooner. */
#define MPIB_CLOSE_SHARED_NS (10 * MPIB_SEC)
#define MPIB_CLOSE_PRIVATE_NS (2 * MPIB_SEC)

TAILQ_HEAD(mpib_bconn_list, mpib_bconn);
TAILQ_HEAD(mpib_blane_list, mpib_blane);
TAILQ_HEAD(mpib_peer_list, mpib_peer);
TAILQ_HEAD(mpib_waiter_list, mpib_waiter);
TAILQ_HEAD(mpib_stranger_list, mpib_stranger);

enum mpib_peer_state {
	MPIB_PEER_IDLE, /* no link; made again when wanted */
	MPIB_PEER_CALLING, /* our link connects or awaits the WELCOME */
	MPIB_PEER_UP,
};

/* Another proxy, or this one: then once as who calls and once as who is
 * called, so that the two ends of a lane to ourselves are two lanes. */
struct mpib_peer {
	struct mpib_broker *broker;
	struct mpib_node_id node; /* boot is 0 until it was told */
	bool called; /* this node's own called side */
	uint16_t version; /* of the protocol on the link */
	enum mpib_peer_state state;
	struct mpib_link *link;
	struct mpib_stranger *candidate; /* called us, not READY yet */
	struct mpib_auth auth; /* of our call */
	struct mpib_timer retry;
	struct mpib_resume resume; /* what its lanes live by */
	struct mpib_timer away; /* armed: the link broke, the lanes wait */
	bool resuming; /* what it lacks of ours is not known yet */
	char label[MPIB_LABEL_MAX];
	char trouble[128]; /* why the last link failed */
	struct mpib_blane_list lanes;
	unsigned lane_count;
	unsigned conns; /* that name it */
	struct mpib_bconn_list waiting; /* of these, for the link */
	TAILQ_ENTRY(mpib_peer) entry;
};

enum mpib_blane_state {
	MPIB_BLANE_ASKED, /* LANE_OPEN sent */
	MPIB_BLANE_UP,
	MPIB_BLANE_DYING, /* being killed */
	MPIB_BLANE_DEAD, /* killed: nothing writes through it */
};

struct mpib_blane {
	struct mpib_peer *peer;
	enum mpib_blane_state state;
	bool ours; /* we opened it */
	struct mpib_lane_key key; /* as the opener sees it */
	uint32_t id, their_id; /* their_id is 0 until it is known */
	bool muted; /* the other end is told, or does not know it any more */
	struct mpib_lane *lane;
	uint32_t sup_src, sup_dst; /* IPv4 of SUP at both ends, or 0 */
	unsigned uses; /* connections, and connects that wait on it */
	struct mpib_bconn_list conns;
	struct mpib_bconn_list waiting; /* of these, for it to be up */
	TAILQ_ENTRY(mpib_blane) entry;
	UT_hash_handle hh, hh_lane;
};

enum mpib_bconn_state {
	MPIB_BCONN_NEW, /* on no list */
	MPIB_BCONN_LINK, /* waits for the peer's link */
	MPIB_BCONN_LANE, /* waits for the lane */
	MPIB_BCONN_OPEN, /* CONN_OPEN sent */
	MPIB_BCONN_ACCEPT, /* waits for somebody to connect */
	MPIB_BCONN_HELD, /* on no list: waits for the end of a handover */
	MPIB_BCONN_READY,
	MPIB_BCONN_OVER, /* failed or closing */
};

struct mpib_bconn {
	struct mpib_broker *broker;
	struct mpib_owner *owner;
	uint32_t index, id, their_id;
	bool sender;
	enum mpib_bconn_state state;
	uint64_t since; /* when the client asked for it */
	uint64_t until; /* a connect: when it has to be READY */
	struct mpib_handle handle; /* sender's */
	uint8_t traffic_class; /* sender's wish, 0: none */
	struct mpib_listener_entry *listener; /* receiver's, while waiting */
	struct mpib_peer *peer;
	struct mpib_blane *lane;
	struct mpib_flow *flow;
	struct mpib_agent_conn *hint; /* NULL: it has no agent */
	/* The end of it, see mpib_bconn_step(). */
	bool offered; /* CONN_OPEN sent, not answered */
	bool recalled; /* CONN_CANCEL sent: for a handover, see hold.c */
	bool again; /* over only to be HELD then */
	bool known; /* their_id is set: they may write to us */
	bool dropped; /* the client closed it */
	bool stopping, stopped;
	bool close_sent, asked; /* by us; by the peer */
	bool quiet; /* the peer cannot write to us any more */
	bool destroying;
	struct mpib_timer timer;
	int error;
	char why[240];
	TAILQ_ENTRY(mpib_bconn) entry; /* on whichever list it waits */
	TAILQ_ENTRY(mpib_bconn) lane_entry;
	UT_hash_handle hh, hh_flow;
};

/* pending.c: what a connection that is not ready waits for. */
const char *mpib_bconn_trouble(const struct mpib_bconn *c);

/* A CONN_OPEN for which no accept is armed yet. */
struct mpib_waiter {
	struct mpib_peer *peer;
	struct mpib_blane *lane;
	uint32_t from;
	struct mpib_flow_info flow;
	TAILQ_ENTRY(mpib_waiter) entry;
};

struct mpib_listener_entry {
	uint32_t id;
	uint64_t nonce;
	struct mpib_owner *owner;
	struct mpib_bconn_list accepts;
	struct mpib_waiter_list backlog;
	unsigned waiting;
	UT_hash_handle hh;
};

struct mpib_broker {
	struct mpib_loop *loop;
	struct mpib_engine *engine;
	struct mpib_node_id self;
	struct mpib_cluster_key key;
	const struct mpib_islands *islands;
	struct mpib_agent_link *agent;
	bool private_lanes;
	uint64_t request_ns, connect_ns; /* request_ns 0: no limit */
	struct mpib_timer sweep; /* for requests that are older */
	bool sweeping;
	bool holding; /* connects, for it is being handed over */
	unsigned silence_s;
	uint16_t newest; /* of the peer protocol, as it is offered */
	uint64_t serial, sessions;
	int fd;
	struct mpib_watch accept;
	struct mpib_timer pause; /* of accept, without descriptors */
	struct mpib_watch engine_watch;
	struct mpib_peer_list peers;
	unsigned peer_count;
	struct mpib_stranger_list strangers; /* oldest first */
	unsigned stranger_count;
	char refused[200]; /* what the last of them were told */
	uint64_t refused_ns; /* when the log was */
	struct mpib_listener_entry *listeners;
	struct mpib_blane *lanes; /* by id */
	struct mpib_blane *by_lane; /* those that are UP */
	struct mpib_bconn *conns; /* by id */
	struct mpib_bconn *by_flow;
	uint32_t next_id;
};

/* Not in use for a listener, a lane or a connection, and not 0. */
uint32_t mpib_broker_new_id(struct mpib_broker *b);

/* hello.c */
int mpib_hello_listen(struct mpib_broker *b, char *why, size_t why_len);
/* Take callers on b->fd. -errno. */
int mpib_hello_accept(struct mpib_broker *b);
void mpib_hello_close(struct mpib_broker *b);

/* peer.c */
void mpib_peers_free(struct mpib_broker *b);
/* Made if need be, in the place of an idle one where there are many. NULL: no
 * memory, or too many are in use. */
struct mpib_peer *mpib_peer_find(struct mpib_broker *b, uint32_t addr,
				 uint16_t port, bool called);
bool mpib_peer_we_are_lower(const struct mpib_peer *p);
/* Under its session, which was begun or goes on. */
void mpib_peer_is_up(struct mpib_peer *p, struct mpib_link *link,
		     const struct mpib_node_id *node);
/* It is up already, by a link that another process made. */
void mpib_peer_goes_on(struct mpib_peer *p, struct mpib_link *link);
/* Its island, as this end sees it. */
enum mpib_path mpib_peer_path(const struct mpib_peer *p);
/* How lanes to it are spread: it may be too old to know of any way. */
enum mpib_spread mpib_peer_spread(const struct mpib_peer *p);
/* Its link is gone, or goes with this call. */
void mpib_peer_lost(struct mpib_peer *p, const struct mpib_link *link,
		    const char *why);
/* Its link, if any, is to go. */
void mpib_peer_cut(struct mpib_peer *p, const char *why);
/* Its session is over, and with it its lanes; the link may stay. */
void mpib_peer_forget(struct mpib_peer *p, const char *why);
/* It did what no sound peer does: its session and its link end. */
void mpib_peer_broke(struct mpib_peer *p, const char *what);
/* Send again what it has not seen. False: it cannot have seen that. */
bool mpib_peer_again(struct mpib_peer *p, uint64_t seen);
/* In order and once, if need be over its next link. */
void mpib_peer_tell(struct mpib_peer *p, const struct mpib_peer_msg *m);
/* The answer no, a CONN_REJECT or LANE_REJECT, to what the peer calls to. */
void mpib_peer_refuse(struct mpib_peer *p, enum mpib_peer_type type,
		      uint32_t to, int error, const char *why);

/* call.c */
/* Have its link made, if connections wait for it. */
void mpib_peer_want(struct mpib_peer *p);
/* The same in a while. */
void mpib_call_again(struct mpib_peer *p, uint64_t ns);
/* Our call came to nothing: -errno, or 0 where it was answered. */
void mpib_call_failed(struct mpib_peer *p, int error);

/*
 * lane_table.c and lane_setup.c. Those that take a message return false when
 * no sound peer would send it now.
 */
/* The lane for a connection, which joins it; asked for if need be. -errno. */
int mpib_blane_get(struct mpib_bconn *c);
bool mpib_blane_message(struct mpib_peer *p, const struct mpib_peer_msg *m);
struct mpib_blane *mpib_blane_find(struct mpib_peer *p, uint32_t id);
struct mpib_blane *mpib_blane_new(struct mpib_peer *p,
				  const struct mpib_lane_key *key, bool ours);
/* Of another process, where it was up. */
struct mpib_blane *mpib_blane_restore(struct mpib_peer *p,
				      const struct mpib_lane_key *key,
				      bool ours, uint32_t id);
struct mpib_blane *mpib_blane_find_shared(struct mpib_peer *p,
					  const struct mpib_lane_key *key,
					  bool ours);
/* Send something about it, unless it is muted. */
void mpib_blane_tell(const struct mpib_blane *l, const struct mpib_peer_msg *m);
/* It carries from now on. */
void mpib_blane_up(struct mpib_blane *l);
/* Kill it; its connections fail and become quiet, the peer is told. */
void mpib_blane_kill(struct mpib_blane *l, int error, const char *why);
void mpib_blane_join(struct mpib_blane *l, struct mpib_bconn *c);
void mpib_blane_leave(struct mpib_bconn *c);
/* Something that counted in uses went. */
void mpib_blane_put(struct mpib_blane *l);
/* The link is gone: so is every lane. */
void mpib_blanes_lost(struct mpib_peer *p, const char *why);
void mpib_blanes_free(struct mpib_broker *b);

/* conn.c and conn_end.c */
void mpib_bconn_set_state(struct mpib_bconn *c, enum mpib_conn_state state);
int mpib_bconn_new(struct mpib_broker *b, struct mpib_owner *owner,
		   uint32_t index, bool sender, struct mpib_bconn **conn);
bool mpib_bconn_message(struct mpib_peer *p, const struct mpib_peer_msg *m);
/* It is with p from now on; p NULL: with none any more. */
void mpib_bconn_set_peer(struct mpib_bconn *c, struct mpib_peer *p);
/* Register it with the agent. */
void mpib_bconn_want_hint(struct mpib_bconn *c);
/* The link, or the lane, is up. */
void mpib_bconn_linked(struct mpib_bconn *c);
void mpib_bconn_laned(struct mpib_bconn *c);
void mpib_bconn_fail(struct mpib_bconn *c, int error, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Off whichever list it waits on. */
void mpib_bconn_unlist(struct mpib_bconn *c);
/* A connect that has nothing on its way: find the peer's link. */
void mpib_bconn_begin(struct mpib_bconn *c);
/* Do whatever the end of it needs next. */
void mpib_bconn_step(struct mpib_bconn *c);
struct mpib_bconn *mpib_bconn_of_flow(struct mpib_broker *b,
				      struct mpib_flow *flow);

/* hold.c */
/* The peer took back what was recalled; and what it had here is gone, too. */
void mpib_bconn_recall(struct mpib_bconn *c);
void mpib_bconn_held(struct mpib_bconn *c);

/* accept.c */
bool mpib_accept_open(struct mpib_peer *p, const struct mpib_peer_msg *m);
void mpib_accept_cancel(struct mpib_peer *p, uint32_t from);
/* Forget the connects on this lane that nobody has accepted. */
void mpib_accept_lane_gone(struct mpib_blane *l);
void mpib_accept_unlisten(struct mpib_broker *b, struct mpib_listener_entry *l);
void mpib_accept_begin(struct mpib_bconn *c, const struct mpib_waiter *w);

#endif
