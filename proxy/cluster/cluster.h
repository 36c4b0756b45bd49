/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cluster's state, as reported by this node's peers. One question goes to
 * all peers; all readers that ask within a second share the answers. This node
 * also answers the questions of its peers. Control thread only; nothing blocks.
 */
#ifndef MPIB_CLUSTER_CLUSTER_H
#define MPIB_CLUSTER_CLUSTER_H

#include <jansson.h>
#include <sys/queue.h>

#include "peer/ask.h"
#include "view/view.h"

/* A node without an answer after this time is silent. */
#define MPIB_CLUSTER_BOUND_NS MPIB_SEC
/* An older request is stuck. */
#define MPIB_CLUSTER_STUCK_NS (5 * MPIB_SEC)

/* text is valid until the function returns; NULL: no memory. */
typedef void mpib_cluster_fn(void *arg, const char *text);

/* A reader. Zeroed memory is a valid wait that is not waiting. */
struct mpib_cluster_wait {
	TAILQ_ENTRY(mpib_cluster_wait) link;
	bool waiting;
	mpib_cluster_fn *fn;
	void *arg;
};

/* view.c: the text for readers, and the state of making it. */
struct mpib_cluster_text {
	uint64_t of_ns; /* over_ns of its round; 0: none */
	char *whole; /* text of the previous round, while part is begun */
	struct mpib_view_part part; /* at: number of nodes written */
	json_int_t well, faulty;
	/* The slowest pair, and the node that reports it. */
	uint64_t mbps, rtt_ns;
	char from[MPIB_LABEL_MAX], to[MPIB_LABEL_MAX];
};

struct mpib_cluster {
	struct mpib_loop *loop;
	struct mpib_engine *engine;
	struct mpib_broker *broker;
	const struct mpib_view *view; /* its snap is not used */
	TAILQ_HEAD(, mpib_cluster_wait) waits;
	struct mpib_timer check; /* for the end of the round */
	struct mpib_timer bound; /* ends a round with missing answers */
	struct mpib_timer again; /* memory was short: the next snapshot */
	bool asking; /* a round is in progress */
	uint64_t begun_ns, over_ns; /* of the last round; 0: none yet */
	bool taking;
	struct mpib_node_report own;
	uint64_t own_ns; /* 0: none yet */
	struct mpib_cluster_text text;
};

/* view is read from the first turn of the loop on. */
void mpib_cluster_init(struct mpib_cluster *c, struct mpib_loop *loop,
		       struct mpib_engine *engine, struct mpib_broker *broker,
		       const struct mpib_view *view);

/* Call fn(arg, text) once with the JSON of mpib-protocol(7), from answers of
 * the last second. The call comes in a later turn of the loop: at the latest
 * after the time limit of the round, when the text is made. wait must not be
 * waiting. */
void mpib_cluster_ask(struct mpib_cluster *c, struct mpib_cluster_wait *wait,
		      mpib_cluster_fn *fn, void *arg);
/* Ask the peers unless they were asked within a second. Does not wait. */
void mpib_cluster_begin(struct mpib_cluster *c);
/* Cancel: fn will not be called. Does nothing if wait is not waiting. */
void mpib_cluster_forget(struct mpib_cluster *c,
			 struct mpib_cluster_wait *wait);

/* cluster.c: list the settings that a report covers, in its order. list has
 * room for MPIB_REPORT_SETTINGS. Returns their number. */
unsigned mpib_cluster_alike(const struct mpib_setting **list);

/* view.c: make the text of the last round, once for all its readers. Each call
 * makes a part, so that a thousand nodes do not delay other work. True: call it
 * again. */
bool mpib_cluster_text_make(struct mpib_cluster *c);
/* Return the last text that was made; NULL: memory was short. */
const char *mpib_cluster_text(const struct mpib_cluster *c);

/* nodes.c: return the last words of the peers' agents as a new reference, or
 * NULL. Excludes nodes whose SOUT a node at another address claims, too. */
json_t *mpib_cluster_agents(const struct mpib_cluster *c);

#endif
