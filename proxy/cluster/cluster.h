/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cluster's state, as reported by this node's peers. In a round, the proxy
 * asks all peers. All readers that ask within a second share a round's answers.
 * This node also answers the questions of its peers. Control thread only;
 * nothing blocks.
 */
#ifndef MPIB_CLUSTER_CLUSTER_H
#define MPIB_CLUSTER_CLUSTER_H

#include <jansson.h>
#include <sys/queue.h>

#include "peer/ask.h"
#include "view/view.h"

/* A node that has not answered after this time counts as silent. */
#define MPIB_CLUSTER_BOUND_NS MPIB_SEC
/* A request that is older than this counts as stuck. */
#define MPIB_CLUSTER_STUCK_NS (5 * MPIB_SEC)

/* `text` is valid until the function returns; NULL: no memory. */
typedef void mpib_cluster_fn(void *arg, const char *text);

/* A reader that waits for the text. If all bytes are 0, it is inactive. */
struct mpib_cluster_wait {
	TAILQ_ENTRY(mpib_cluster_wait) link;
	bool waiting;
	mpib_cluster_fn *fn;
	void *arg;
};

/* view.c: the text for readers, and the state of making it. */
struct mpib_cluster_text {
	uint64_t of_ns; /* over_ns of the round in the text; 0: no text */
	char *whole; /* the text; while `part` is made, the previous text */
	struct mpib_view_part part; /* part.at: number of nodes written */
	json_int_t well, faulty;
};

struct mpib_cluster {
	struct mpib_loop *loop;
	struct mpib_engine *engine;
	struct mpib_broker *broker;
	const struct mpib_view *view; /* view->snap is not used */
	TAILQ_HEAD(, mpib_cluster_wait) waits;
	struct mpib_timer check; /* checks whether the round has ended */
	struct mpib_timer bound; /* ends a round with missing answers */
	struct mpib_timer again; /* retries after memory was short */
	bool asking; /* a round is in progress */
	uint64_t begun_ns, over_ns; /* start and end of the last round */
	bool taking;
	struct mpib_node_report own;
	uint64_t own_ns; /* time of `own`; 0: none yet */
	struct mpib_cluster_text text;
};

/* Set up *c. *view is not read before the first turn of the loop. */
void mpib_cluster_init(struct mpib_cluster *c, struct mpib_loop *loop,
		       struct mpib_engine *engine, struct mpib_broker *broker,
		       const struct mpib_view *view);

/* Call fn(arg, text) once, in a later turn of the loop. `text` is the JSON of
 * mpib-protocol(7), from answers of the last second. If answers are missing, fn
 * is called after the time limit of the round. `wait` must be inactive. */
void mpib_cluster_ask(struct mpib_cluster *c, struct mpib_cluster_wait *wait,
		      mpib_cluster_fn *fn, void *arg);
/* Cancel: fn will not be called. Does nothing if `wait` is inactive. */
void mpib_cluster_forget(struct mpib_cluster *c,
			 struct mpib_cluster_wait *wait);

/* cluster.c: list the settings that a report covers, in the order of the
 * report. `list` has room for MPIB_REPORT_SETTINGS. Returns their number. */
unsigned mpib_cluster_alike(const struct mpib_setting **list);

/* view.c: make the next part of the text of the last round, which all its
 * readers share. The text is made in parts, so that a thousand nodes do not
 * delay other work. Returns true if parts are left. */
bool mpib_cluster_text_make(struct mpib_cluster *c);
/* Return the last text that was made; NULL: memory was short. */
const char *mpib_cluster_text(const struct mpib_cluster *c);

#endif
