/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cluster as this node's peers tell it: one question to all of them, whose
 * answers all readers share that ask within a second, and this node's own answer
 * to peers that ask. Control thread only; nothing blocks.
 */
#ifndef MPIB_CLUSTER_CLUSTER_H
#define MPIB_CLUSTER_CLUSTER_H

#include <jansson.h>
#include <sys/queue.h>

#include "peer/ask.h"
#include "view/view.h"

/* A node that has not answered by then is silent. */
#define MPIB_CLUSTER_BOUND_NS MPIB_SEC
/* A request that is older is stuck. */
#define MPIB_CLUSTER_STUCK_NS (5 * MPIB_SEC)

/* text is good until the function returns; NULL: no memory. */
typedef void mpib_cluster_fn(void *arg, const char *text);

/* A reader. Zeroed memory is a valid wait that is not waiting. */
struct mpib_cluster_wait {
	TAILQ_ENTRY(mpib_cluster_wait) link;
	bool waiting;
	mpib_cluster_fn *fn;
	void *arg;
};

/* view.c: the answer to readers, and what of it is made. */
struct mpib_cluster_text {
	uint64_t of_ns; /* over_ns of its round; 0: of none */
	char *whole; /* of the round before, while part is begun */
	struct mpib_view_part part; /* at: nodes that are made */
	json_int_t well, faulty;
	/* The slowest pair, and who says so. */
	uint64_t mbps, rtt_ns;
	char from[MPIB_LABEL_MAX], to[MPIB_LABEL_MAX];
};

struct mpib_cluster {
	struct mpib_loop *loop;
	struct mpib_engine *engine;
	struct mpib_broker *broker;
	const struct mpib_view *view; /* of all but its snap */
	TAILQ_HEAD(, mpib_cluster_wait) waits;
	struct mpib_timer check; /* whether the round is over */
	struct mpib_timer bound; /* it is, whoever is missing */
	struct mpib_timer again; /* memory was short: the next snapshot */
	bool asking; /* a round is under way */
	uint64_t begun_ns, over_ns; /* of the last; 0: there was none */
	bool taking;
	struct mpib_node_report own;
	uint64_t own_ns; /* 0: none yet */
	struct mpib_cluster_text text;
};

/* view is read from the loop's first turn on. */
void mpib_cluster_init(struct mpib_cluster *c, struct mpib_loop *loop,
		       struct mpib_engine *engine, struct mpib_broker *broker,
		       const struct mpib_view *view);

/* Call fn(arg, text) once with answers of within a second as JSON, which
 * mpib-protocol(7) has: at a later turn of the loop, at the latest when the bound is
 * over and the text is made. wait must not be waiting. */
void mpib_cluster_ask(struct mpib_cluster *c, struct mpib_cluster_wait *wait,
		      mpib_cluster_fn *fn, void *arg);
/* Ask, if nobody has within a second, and wait for nothing. */
void mpib_cluster_begin(struct mpib_cluster *c);
/* fn will not be called. Does nothing if wait is not waiting. */
void mpib_cluster_forget(struct mpib_cluster *c,
			 struct mpib_cluster_wait *wait);

/* cluster.c: the settings that it tells, in the report's order, into a list of
 * MPIB_REPORT_SETTINGS; how many. */
unsigned mpib_cluster_alike(const struct mpib_setting **list);

/* view.c: make the text of the last round, once for all its readers. A call makes a
 * part, so that a thousand nodes hold up nobody. True: call it again. */
bool mpib_cluster_text_make(struct mpib_cluster *c);
/* What was made last, until the next is; NULL: memory was short. */
const char *mpib_cluster_text(const struct mpib_cluster *c);
void mpib_cluster_text_drop(struct mpib_cluster *c);

/* nodes.c: what agents of peers said last, but of those whose SOUT a node at
 * another address says is its own: a new reference, or NULL. */
json_t *mpib_cluster_agents(const struct mpib_cluster *c);

#endif
