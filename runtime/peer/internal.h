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

TAILQ_HEAD(peer_conn_list, peer_conn);
TAILQ_HEAD(peer_lane_list, peer_lane);
TAILQ_HEAD(mpib_peer_list, mpib_peer);
TAILQ_HEAD(mpib_pending_connect_list, mpib_pending_connect);
TAILQ_HEAD(mpib_pending_peer_list, mpib_pending_peer);

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
	struct mpib_pending_peer *candidate; /* called us, not READY yet */
	struct mpib_auth auth; /* of our call */
	struct mpib_timer retry;
	struct mpib_resume resume; /* what its lanes live by */
	struct mpib_timer away; /* armed: the link broke, the lanes wait */
	bool resuming; /* what it lacks of ours is not known yet */
	char label[MPIB_LABEL_MAX];
	char last_error[128]; /* why the last link failed */
	struct peer_lane_list lanes;
	unsigned lane_count;
	unsigned conns; /* that name it */
	struct peer_conn_list waiting; /* of these, for the link */
	TAILQ_ENTRY(mpib_peer) entry;
};

enum peer_lane_state {
	PEER_LANE_ASKED, /* LANE_OPEN sent */
	PEER_LANE_UP,
	PEER_LANE_DYING, /* being killed */
	PEER_LANE_DEAD, /* killed: nothing writes through it */
};

struct peer_lane {
	struct mpib_peer *peer;
	enum peer_lane_state state;
	bool ours; /* we opened it */
	struct mpib_lane_key key; /* as the opener sees it */
	uint32_t id, their_id; /* their_id is 0 until it is known */
	bool muted; /* the other end is told, or does not know it any more */
	struct mpib_lane *lane;
	uint32_t sup_src, sup_dst; /* IPv4 of SUP at both ends, or 0 */
	unsigned uses; /* connections, and connects that wait on it */
	struct peer_conn_list conns;
	struct peer_conn_list waiting; /* of these, for it to be up */
	TAILQ_ENTRY(peer_lane) entry;
	UT_hash_handle hh, hh_lane;
};

enum peer_conn_state {
	PEER_CONN_NEW, /* on no list */
	PEER_CONN_LINK, /* waits for the peer's link */
	PEER_CONN_LANE, /* waits for the lane */
	PEER_CONN_OPEN, /* CONN_OPEN sent */
	PEER_CONN_ACCEPT, /* waits for somebody to connect */
	PEER_CONN_HELD, /* on no list: waits for the end of a handover */
	PEER_CONN_READY,
	PEER_CONN_OVER, /* failed or closing */
};

struct peer_conn {
	struct mpib_broker *broker;
	struct peer_client *client;
	uint32_t index, id, their_id;
	bool sender;
	enum peer_conn_state state;
	uint64_t since; /* when the client asked for it */
	uint64_t until; /* a connect: when it has to be READY */
	struct mpib_handle handle; /* sender's */
	uint8_t traffic_class; /* sender's wish, 0: none */
	struct mpib_listener_entry *listener; /* receiver's, while waiting */
	struct mpib_peer *peer;
	struct peer_lane *lane;
	struct engine_conn *conn;
	struct mpib_agent_conn *hint; /* NULL: it has no agent */
	/* The end of it, see peer_conn_step(). */
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
	TAILQ_ENTRY(peer_conn) entry; /* on whichever list it waits */
	TAILQ_ENTRY(peer_conn) lane_entry;
	UT_hash_handle hh, hh_engine;
};

/* pending.c: what a connection that is not ready waits for. */
const char *peer_conn_last_error(const struct peer_conn *c);

/* A CONN_OPEN for which no accept is armed yet. */
struct mpib_pending_connect {
	struct mpib_peer *peer;
	struct peer_lane *lane;
	uint32_t from;
	struct engine_conn_info conn;
	TAILQ_ENTRY(mpib_pending_connect) entry;
};

struct mpib_listener_entry {
	uint32_t id;
	uint64_t nonce;
	struct peer_client *client;
	struct peer_conn_list accepts;
	struct mpib_pending_connect_list backlog;
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
	struct mpib_io accept;
	struct mpib_timer pause; /* of accept, without descriptors */
	struct mpib_io engine_watch;
	struct mpib_peer_list peers;
	unsigned peer_count;
	struct mpib_pending_peer_list pending_peers; /* oldest first */
	unsigned pending_peer_count;
	char refused[200]; /* what the last of them were told */
	uint64_t refused_ns; /* when the log was */
	struct mpib_listener_entry *listeners;
	struct peer_lane *lanes; /* by id */
	struct peer_lane *by_lane; /* those that are UP */
	struct peer_conn *conns; /* by id */
	struct peer_conn *by_engine;
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
int peer_lane_get(struct peer_conn *c);
bool peer_lane_message(struct mpib_peer *p, const struct mpib_peer_msg *m);
struct peer_lane *peer_lane_find(struct mpib_peer *p, uint32_t id);
struct peer_lane *peer_lane_new(struct mpib_peer *p,
				const struct mpib_lane_key *key, bool ours);
/* Of another process, where it was up. */
struct peer_lane *peer_lane_restore(struct mpib_peer *p,
				    const struct mpib_lane_key *key, bool ours,
				    uint32_t id);
struct peer_lane *peer_lane_find_shared(struct mpib_peer *p,
					const struct mpib_lane_key *key,
					bool ours);
/* Send something about it, unless it is muted. */
void peer_lane_tell(const struct peer_lane *l, const struct mpib_peer_msg *m);
/* It carries from now on. */
void peer_lane_up(struct peer_lane *l);
/* Kill it; its connections fail and become quiet, the peer is told. */
void peer_lane_kill(struct peer_lane *l, int error, const char *why);
void peer_lane_join(struct peer_lane *l, struct peer_conn *c);
void peer_lane_leave(struct peer_conn *c);
/* Something that counted in uses went. */
void peer_lane_put(struct peer_lane *l);
/* The link is gone: so is every lane. */
void peer_lanes_lost(struct mpib_peer *p, const char *why);
void peer_lanes_free(struct mpib_broker *b);

/* conn.c and conn_end.c */
void peer_conn_set_state(struct peer_conn *c, enum mpib_conn_state state);
int peer_conn_new(struct mpib_broker *b, struct peer_client *client,
		  uint32_t index, bool sender, struct peer_conn **conn);
bool peer_conn_message(struct mpib_peer *p, const struct mpib_peer_msg *m);
/* It is with p from now on; p NULL: with none any more. */
void peer_conn_set_peer(struct peer_conn *c, struct mpib_peer *p);
/* Register it with the agent. */
void peer_conn_want_hint(struct peer_conn *c);
/* The link, or the lane, is up. */
void peer_conn_linked(struct peer_conn *c);
void peer_conn_laned(struct peer_conn *c);
void peer_conn_fail(struct peer_conn *c, int error, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Off whichever list it waits on. */
void peer_conn_unlist(struct peer_conn *c);
/* A connect that has nothing on its way: find the peer's link. */
void peer_conn_begin(struct peer_conn *c);
/* Do whatever the end of it needs next. */
void peer_conn_step(struct peer_conn *c);
struct peer_conn *peer_conn_of_engine(struct mpib_broker *b,
				      struct engine_conn *conn);

/* hold.c */
/* The peer took back what was recalled; and what it had here is gone, too. */
void peer_conn_recall(struct peer_conn *c);
void peer_conn_held(struct peer_conn *c);

/* accept.c */
bool mpib_accept_open(struct mpib_peer *p, const struct mpib_peer_msg *m);
void mpib_accept_cancel(struct mpib_peer *p, uint32_t from);
/* Forget the connects on this lane that nobody has accepted. */
void mpib_accept_lane_gone(struct peer_lane *l);
void mpib_accept_unlisten(struct mpib_broker *b, struct mpib_listener_entry *l);
void mpib_accept_begin(struct peer_conn *c,
		       const struct mpib_pending_connect *w);

#endif
