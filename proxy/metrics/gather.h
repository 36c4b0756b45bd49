/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One snapshot for all who ask for one at the same time. Nobody gets one that
 * was begun before he asked. Control thread only.
 */
#ifndef MPIB_METRICS_GATHER_H
#define MPIB_METRICS_GATHER_H

#include <sys/queue.h>

#include "base/loop.h"
#include "view/view.h"

/* v->snap is valid during the call; v is NULL when memory was short. */
typedef void mpib_gather_fn(void *arg, const struct mpib_view *v);

/* Zeroed memory is a wait that waits for nothing. */
struct mpib_gather_wait {
	TAILQ_ENTRY(mpib_gather_wait) link;
	bool waiting;
	uint64_t ticket; /* of the first snapshot young enough */
	mpib_gather_fn *fn;
	void *arg;
};

struct mpib_gather {
	struct mpib_loop *loop;
	struct mpib_engine *engine;
	struct mpib_view view;
	TAILQ_HEAD(, mpib_gather_wait) waits;
	struct mpib_timer again; /* for those who came too late for one */
	uint64_t begun, start;
	bool taking;
};

void mpib_gather_init(struct mpib_gather *g, struct mpib_loop *loop,
		      struct mpib_engine *engine, const struct mpib_view *view);
/* Call fn(arg) once, at a later turn of the loop. wait must not wait. */
void mpib_gather_ask(struct mpib_gather *g, struct mpib_gather_wait *wait,
		     mpib_gather_fn *fn, void *arg);
/* Its fn is not called any more. Nothing when it does not wait. */
void mpib_gather_forget(struct mpib_gather *g, struct mpib_gather_wait *wait);
/* Forget all. g stays until mpib_engine_close(), which may still bring a
 * snapshot. */
void mpib_gather_stop(struct mpib_gather *g);

#endif
