/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots of the engine for the readers of metrics, stats and HTTP. Readers
 * that ask at the same time share a snapshot, and no reader gets a snapshot
 * that was begun before it asked. There is one at a time: the next is taken when
 * nobody keeps the last any more. Control thread only.
 */
#ifndef MPIB_METRICS_GATHER_H
#define MPIB_METRICS_GATHER_H

#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/loop.h"
#include "view/view.h"

/* v->snap is valid during the call, and until mpib_gather_release() for who
 * keeps it; v is NULL when memory was short. */
typedef void mpib_gather_fn(void *arg, const struct mpib_view *v);

/* One reader's question. Zeroed memory is a valid wait that is not waiting. */
struct mpib_gather_wait {
	TAILQ_ENTRY(mpib_gather_wait) link;
	bool waiting;
	bool put_off; /* by mpib_gather_put_off() */
	uint64_t ticket; /* number of the first snapshot that will do */
	/* Show requests at least this old in ns; UINT64_MAX: none. */
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
	struct mpib_snapshot *snap; /* the last one taken, while it is kept */
	unsigned kept; /* readers that keep it */
};

void mpib_gather_init(struct mpib_gather *g, struct mpib_loop *loop,
		      struct mpib_engine *engine, const struct mpib_view *view);
/* Call fn(arg, view) once, at a later turn of the loop. wait must not be
 * waiting already. */
void mpib_gather_ask(struct mpib_gather *g, struct mpib_gather_wait *wait,
		     mpib_gather_fn *fn, void *arg);
/* The same with outstanding requests, at least older_ns old; or younger ones, too,
 * where others asked for them. */
void mpib_gather_ask_requests(struct mpib_gather *g,
			      struct mpib_gather_wait *wait, uint64_t older_ns,
			      mpib_gather_fn *fn, void *arg);
/* In fn: have it called with the next snapshot instead, before those who asked since
 * this one was begun. */
void mpib_gather_put_off(struct mpib_gather *g, struct mpib_gather_wait *wait);
/* In fn: keep the view's snapshot. Each reader that does releases it, soon: others
 * get none before. */
void mpib_gather_keep(struct mpib_gather *g);
void mpib_gather_release(struct mpib_gather *g);
/* Cancel: fn will not be called. Does nothing if wait is not waiting. */
void mpib_gather_forget(struct mpib_gather *g, struct mpib_gather_wait *wait);
/* Cancel all waits; nobody keeps a snapshot. *g must stay valid until
 * mpib_engine_close() returns, since a snapshot under way may still call back. */
void mpib_gather_stop(struct mpib_gather *g);

/* Which users have room for one more reader, of any socket that shows
 * statistics. */

/*
 * Whether user uid, who has of_user readers, may have one more: of max a user has
 * a quarter, and others counts all users' readers; root has for_root places
 * beside these, if that is not 0.
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
