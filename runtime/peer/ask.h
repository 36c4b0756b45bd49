/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking all peers how their nodes are, and answering when they ask. A question
 * is asked of all at once; what came in is kept, a report of each peer. A peer that
 * does not answer is asked again after 10 s only, and one that asks without end is
 * answered five times a second. Control thread; nothing blocks.
 */
#ifndef MPIB_PEER_ASK_H
#define MPIB_PEER_ASK_H

#include <netinet/in.h>

#include "base/loop.h"
#include "peer/protocol.h"

struct mpib_broker;
struct mpib_peer;
struct mpib_peer_msg;

/* What of this proxy asks, and knows how this node is. The loop calls both. */
struct mpib_inquirer {
	/* A peer wants a report: give it to mpib_broker_report(). */
	void (*asked)(void *arg);
	/* One more has answered, see mpib_broker_awaits(). */
	void (*answered)(void *arg);
	void *arg;
};

/* A peer's part. All zero at first. */
struct peer_asking {
	bool due; /* to be asked */
	bool owed; /* it asked and has no answer yet */
	uint64_t asked_ns, told_ns, answered_ns;
	uint64_t since_ns; /* of the first question without answer, 0: none */
	struct mpib_node_report *report; /* the last, NULL: none */
};

/* The broker's part. */
struct peer_asker {
	struct mpib_inquirer with; /* NULLs: nobody */
	struct mpib_timer work;
	const struct mpib_node_report *own; /* NULL: none is fresh */
	uint64_t own_ns;
	bool wanted; /* asked() was called for it */
};

void mpib_broker_inquirer(struct mpib_broker *b, const struct mpib_inquirer *i);
/* Ask all peers that have no question to answer. */
void mpib_broker_ask(struct mpib_broker *b);
/* Whether a peer owes the answer to what was asked since then. */
bool mpib_broker_awaits(const struct mpib_broker *b, uint64_t since_ns);
/* How this node is: for whoever asked, and who asks within a second. The caller
 * keeps it in place until the next. */
void mpib_broker_report(struct mpib_broker *b,
			const struct mpib_node_report *own);
/* What this node's agent says to any peer. The broker itself adds what it says to
 * who asks. */
void mpib_broker_word(const struct mpib_broker *b,
		      struct mpib_agent_word *word);

enum mpib_told {
	MPIB_TOLD_WELL, /* there is an answer */
	MPIB_TOLD_NEW, /* not asked yet */
	MPIB_TOLD_SILENT,
	MPIB_TOLD_UNREACHED /* connections wait, and there is no link */
};

struct mpib_broker_told {
	enum mpib_told state;
	const char *peer, *why; /* why it is not reached, "": not known */
	unsigned version;
	struct in6_addr addr; /* of its peer link */
	uint32_t sout; /* IPv4 of its SOUT, network order; 0: none */
	uint64_t age_ns; /* of the report */
	uint64_t silent_ns;
	const struct mpib_node_report *report; /* the last one; NULL: none */
};
typedef void mpib_broker_told_fn(void *arg, const struct mpib_broker_told *t);
/* Call fn for each peer with a link, and each that is wanted; not for this node. */
void mpib_broker_each_told(const struct mpib_broker *b, mpib_broker_told_fn *fn,
			   void *arg);

/* Of the room's own. peer_ask_relink(): there is a new link, ask again what has no
 * answer; peer_ask_forget(): there will be none. */
void peer_ask_message(struct mpib_peer *p, const struct mpib_peer_msg *m);
void peer_ask_relink(struct mpib_peer *p);
void peer_ask_forget(struct mpib_peer *p);

#endif
