/* SPDX-License-Identifier: Apache-2.0 */
/* Callers of the peer link: the sockets that accept them, and the state of a
 * caller until it has proved its identity. Control thread. */
#ifndef MPIB_PEER_DOOR_H
#define MPIB_PEER_DOOR_H

#include <sys/queue.h>

#include "base/users.h"
#include "peer/link.h"

struct mpib_broker;
struct mpib_peer;

/* Listening sockets: on the address that names this node, and on its second,
 * see second.c. */
#define MPIB_DOORS 2

/* Each socket has its own limits, so a flood on one of them leaves the other
 * usable for peers. */
struct mpib_door {
	struct mpib_broker *broker;
	int fd; /* -1: none */
	struct mpib_acceptor acceptor;
	unsigned callers; /* accepted ones that have proved nothing yet */
};

/* A caller that has not proved its identity. */
struct mpib_pending_peer {
	struct mpib_broker *broker;
	struct mpib_door *door;
	struct mpib_link *link;
	bool welcomed; /* its HELLO came and was answered */
	bool self; /* this proxy calls itself */
	uint16_t version;
	struct mpib_node_id node; /* from the caller's HELLO */
	struct mpib_auth auth;
	struct mpib_timer timer;
	TAILQ_ENTRY(mpib_pending_peer) entry;
};
TAILQ_HEAD(mpib_pending_peer_list, mpib_pending_peer);

/* hello.c */
/* Add a message of the greeting that was sent or received to the hash that
 * proofs cover, without the proof in it. */
void mpib_hello_said(struct mpib_auth *a, const struct mpib_peer_msg *m);
/* Hang up on a caller. */
void mpib_hello_drop(struct mpib_pending_peer *s);
/* Events of callers' links; their ctx is the struct mpib_pending_peer. */
extern const struct mpib_link_events mpib_hello_events;
/* Return whether a caller that says it is the peer was welcomed and has not
 * proved it yet. */
bool mpib_hello_expected(const struct mpib_peer *p);
/* This node's own call was first: drop the callers that say they are the
 * peer. */
void mpib_hello_overtaken(struct mpib_peer *p);

/* door.c */
/* Listen on this node's addresses. -errno and why: the first failed. If only
 * the second fails, the broker forgets it and goes on. */
int mpib_hello_listen(struct mpib_broker *b, char *why, size_t why_len);
void mpib_hello_close(struct mpib_broker *b);

#endif
