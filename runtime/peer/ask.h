/* SPDX-License-Identifier: Apache-2.0 */
/* Ask all peers for the state of their nodes, and answer a peer that asks for
 * the state of this node. The broker asks all peers at the same time, and
 * stores the latest report of each peer. A peer that does not answer is asked
 * again after 10 s at the earliest. A peer that asks without pause gets at most
 * five answers per second. Control thread; nothing blocks. */
#ifndef MPIB_PEER_ASK_H
#define MPIB_PEER_ASK_H

#include "base/loop.h"
#include "peer/protocol.h"

struct mpib_broker;
struct mpib_peer;
struct mpib_peer_msg;

/* Callbacks of the code that asks the peers and makes this node's report. The
 * loop of the control thread calls these callbacks. */
struct mpib_inquirer {
	/* A peer has asked: make this node's report and pass it to
	 * mpib_broker_report(). */
	void (*asked)(void *arg);
	/* A peer has answered. mpib_broker_awaits() tells whether other answers
	 * are still missing. */
	void (*answered)(void *arg);
	void *arg;
};

/* The questions to and from one peer. Initially all zero. */
struct peer_asking {
	bool owed; /* the peer's question is not answered yet */
	uint64_t asked_ns, told_ns, answered_ns;
	/* time of this node's first unanswered question; 0: none */
	uint64_t since_ns;
	/* the peer's last report; NULL: none */
	struct mpib_node_report *report;
};

/* The broker's state for asking and answering. */
struct peer_asker {
	/* all NULL until mpib_broker_inquirer() is called */
	struct mpib_inquirer with;
	struct mpib_timer work;
	/* This node's report. NULL: no report, or the report is too old to
	 * send. */
	const struct mpib_node_report *own;
	uint64_t own_ns;
	bool wanted; /* asked() was called, and no report has followed yet */
};

void mpib_broker_inquirer(struct mpib_broker *b, const struct mpib_inquirer *i);
/* Ask every peer, except a peer that was asked in the last 10 s and has not
 * answered yet. */
void mpib_broker_ask(struct mpib_broker *b);
/* Return whether a peer has not yet answered a question that was asked at
 * `since_ns` or later. */
bool mpib_broker_awaits(const struct mpib_broker *b, uint64_t since_ns);
/* Set this node's report. The report goes to all peers that have asked, and to
 * peers that ask within the next second. The report must stay valid until the
 * next call of this function. */
void mpib_broker_report(struct mpib_broker *b,
			const struct mpib_node_report *own);

enum mpib_told {
	MPIB_TOLD_WELL, /* has answered */
	MPIB_TOLD_NEW, /* not asked yet */
	MPIB_TOLD_SILENT, /* asked, but has not answered */
	MPIB_TOLD_UNREACHED, /* no link, although this node needs one */
	/* one end refused the link, and no link has come up since then */
	MPIB_TOLD_REFUSED
};

struct mpib_broker_told {
	enum mpib_told state;
	/* `why`: reason why the peer has no link; "": unknown */
	const char *peer, *why;
	/* number of refusals, and time since the last one */
	uint64_t refusals, refused_ns;
	unsigned version;
	uint64_t age_ns; /* age of the report */
	/* time since the first unanswered question; 0: there is none */
	uint64_t silent_ns;
	const struct mpib_node_report *report; /* the last report; NULL: none */
};
typedef void mpib_broker_told_fn(void *arg, const struct mpib_broker_told *t);
/* Return the number of links that this proxy or a peer has refused since this
 * proxy started. */
uint64_t mpib_broker_refused(const struct mpib_broker *b);
/* Call `fn` for each peer that has a link or is needed, and for each node whose
 * last link was refused. Skip this node. */
void mpib_broker_each_told(const struct mpib_broker *b, mpib_broker_told_fn *fn,
			   void *arg);

/* Functions for the files of this folder. peer_ask_relink() repeats an
 * unanswered question on a new link. peer_ask_forget() drops the questions of a
 * peer that will not answer any more. */
void peer_ask_relink(struct mpib_peer *p);
void peer_ask_forget(struct mpib_peer *p);

#endif
