/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots of the engine for the readers of metrics, stats and HTTP. Readers
 * that ask at the same time share a snapshot, and no reader gets a snapshot
 * that was begun before it asked. Control thread only.
 */
#ifndef MPIB_METRICS_GATHER_H
#define MPIB_METRICS_GATHER_H

#include <sys/queue.h>

#include "base/loop.h"
#include "view/view.h"

/* v->snap is valid during the call; v is NULL when memory was short. */
typedef void mpib_gather_fn(void *arg, const struct mpib_view *v);

/* One reader's question. Zeroed memory is a valid wait that is not waiting. */
struct mpib_gather_wait {
	TAILQ_ENTRY(mpib_gather_wait) link;
	bool waiting;
	uint64_t ticket; /* number of the first snapshot that will do */
	mpib_gather_fn *fn;
	void *arg;
};

struct mpib_gather {
	struct mpib_loop *loop;
	struct mpib_engine *engine;
	struct mpib_view view;
	TAILQ_HEAD(, mpib_gather_wait) waits;
	struct mpib_timer again; /* takes the next snapshot */
	uint64_t begun, start;
	bool taking;
};

void mpib_gather_init(struct mpib_gather *g, struct mpib_loop *loop,
		      struct mpib_engine *engine, const struct mpib_view *view);
/* Call fn(arg, view) once, at a later turn of the loop. wait must not be
 * waiting already. */
void mpib_gather_ask(struct mpib_gather *g, struct mpib_gather_wait *wait,
		     mpib_gather_fn *fn, void *arg);
/* Cancel: fn will not be called. Does nothing if wait is not waiting. */
void mpib_gather_forget(struct mpib_gather *g, struct mpib_gather_wait *wait);
/* Cancel all waits. *g must stay valid until mpib_engine_close() returns, since
 * a snapshot under way may still call back. */
void mpib_gather_stop(struct mpib_gather *g);

#endif
