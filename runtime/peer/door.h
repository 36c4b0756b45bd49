/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callers: where they come in, and what is kept of one until it has proved who
 * it is. Control thread.
 */
#ifndef MPIB_PEER_DOOR_H
#define MPIB_PEER_DOOR_H

#include <sys/queue.h>

#include "base/users.h"
#include "peer/link.h"

struct mpib_broker;
struct mpib_peer;

/* Listening sockets: at the address that names this node, and at its second,
 * see second.c. */
#define MPIB_DOORS 2

/* Each takes its own number of callers, and keeps so many: who floods one of them
 * leaves the other to peers. */
struct mpib_door {
	struct mpib_broker *broker;
	int fd; /* -1: none */
	struct mpib_acceptor acceptor;
	unsigned callers; /* of them, those that have proved nothing yet */
};

/* A caller that has not proved who it is. */
struct mpib_pending_peer {
	struct mpib_broker *broker;
	struct mpib_door *door;
	struct mpib_link *link;
	bool welcomed; /* its HELLO came and was answered */
	bool self; /* it is this proxy, which calls itself */
	uint16_t version;
	struct mpib_node_id node; /* as the caller's HELLO says */
	struct mpib_auth auth;
	struct mpib_timer timer;
	TAILQ_ENTRY(mpib_pending_peer) entry;
};
TAILQ_HEAD(mpib_pending_peer_list, mpib_pending_peer);

/* hello.c */
/* A message of the greeting was sent, or came: proofs are about it, but for the
 * proof in it. */
void mpib_hello_said(struct mpib_auth *a, const struct mpib_peer_msg *m);
/* Hang up on a caller. */
void mpib_hello_drop(struct mpib_pending_peer *s);
/* Of the links of callers; their ctx is the struct mpib_pending_peer. */
extern const struct mpib_link_events mpib_hello_events;
/* Whether somebody who says that it is the peer has been welcomed and has not
 * proved it yet. */
bool mpib_hello_expected(const struct mpib_peer *p);
/* This node's own call came first: drop those that have been. */
void mpib_hello_overtaken(struct mpib_peer *p);

/* door.c */
/* Listen at this node's addresses. -errno and why: not at the first; without the
 * second the broker does, and forgets it. */
int mpib_hello_listen(struct mpib_broker *b, char *why, size_t why_len);
void mpib_hello_close(struct mpib_broker *b);

#endif
