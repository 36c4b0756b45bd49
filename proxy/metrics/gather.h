/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots of the engine for the readers of metrics, stats and HTTP. Readers
 * that ask at the same time share a snapshot. No reader gets a snapshot that
 * was begun before the reader's request. There is only one snapshot at a time:
 * the next one is taken after the last reader has released the current one.
 * Control thread only.
 */
#ifndef MPIB_METRICS_GATHER_H
#define MPIB_METRICS_GATHER_H

#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/loop.h"
#include "view/view.h"

/* A reader's callback. v->snap is valid during the call. If the callback calls
 * mpib_gather_keep(), v->snap stays valid until mpib_gather_release(). `v` is
 * NULL if memory was short. */
typedef void mpib_gather_fn(void *arg, const struct mpib_view *v);

/* One reader's request. A request whose bytes are all 0 is inactive. */
struct mpib_gather_wait {
	TAILQ_ENTRY(mpib_gather_wait) link;
	bool waiting;
	bool put_off; /* mpib_gather_put_off() was called */
	uint64_t ticket; /* number of the oldest snapshot that may be used */
	/* Minimum age of the outstanding requests to include, in ns;
	 * UINT64_MAX: include no requests. */
	uint64_t older_ns;
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
	struct mpib_snapshot *snap; /* the current one; NULL: none */
	unsigned kept; /* references to `snap` */
};

void mpib_gather_init(struct mpib_gather *g, struct mpib_loop *loop,
		      struct mpib_engine *engine, const struct mpib_view *view);
/* Call fn(arg, view) once, in a later turn of the loop. `wait` must be
 * inactive. */
void mpib_gather_ask(struct mpib_gather *g, struct mpib_gather_wait *wait,
		     mpib_gather_fn *fn, void *arg);
/* Like mpib_gather_ask(), but the snapshot includes outstanding requests that
 * are at least older_ns old. It may also include younger requests, if another
 * reader asked for them. */
void mpib_gather_ask_requests(struct mpib_gather *g,
			      struct mpib_gather_wait *wait, uint64_t older_ns,
			      mpib_gather_fn *fn, void *arg);
/* Call fn again with the next snapshot. This reader is served before readers
 * that asked after the current snapshot was begun. Use only within fn. */
void mpib_gather_put_off(struct mpib_gather *g, struct mpib_gather_wait *wait);
/* Keep the view's snapshot. The reader must release it soon, because no other
 * snapshot is taken before the release. Use only within fn. */
void mpib_gather_keep(struct mpib_gather *g);
void mpib_gather_release(struct mpib_gather *g);
/* Cancel: fn will not be called. Does nothing if `wait` is inactive. */
void mpib_gather_forget(struct mpib_gather *g, struct mpib_gather_wait *wait);

/* The limit on one user's readers, for all sockets that show statistics. */

/*
 * Return whether the user `uid`, who has `of_user` readers, may have one more.
 * A user may have a quarter of `max`. `others` counts the readers of all users,
 * also those of `uid`. If `for_root` is not 0, root may have `for_root`
 * readers, however many readers other users have.
 */
static inline bool mpib_reader_fits(uid_t uid, unsigned of_user,
				    unsigned others, unsigned max,
				    unsigned for_root)
{
	if (uid == 0 && for_root)
		return of_user < for_root;
	return others < max && of_user < (max + 3) / 4;
}

#endif
