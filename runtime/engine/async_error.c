/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notices of broken connections and lanes: made on a shard thread, delivered to
 * the engine's owner on the control thread.
 */
#include "engine/async_error.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/xalloc.h"

struct mpib_async_error *mpib_async_error_new(void *what, int error,
					      const char *fmt, va_list ap)
{
	struct mpib_async_error *n = mpib_xcalloc(sizeof(*n));

	n->what = what;
	n->error = error;
	vsnprintf(n->why, sizeof(n->why), fmt, ap);
	return n;
}

void mpib_async_error_conn(struct mpib_msg *msg)
{
	struct mpib_async_error *n =
		container_of(msg, struct mpib_async_error, msg);
	struct engine_conn *f = n->what;
	struct mpib_engine *e = f->shard->engine;

	if (e->events && e->events->conn_broken)
		e->events->conn_broken(e->ctx, f, n->error, n->why);
	free(n);
}

void mpib_async_error_lane(struct mpib_msg *msg)
{
	struct mpib_async_error *n =
		container_of(msg, struct mpib_async_error, msg);
	struct mpib_lane *lane = n->what;
	struct mpib_engine *e = lane->shard->engine;

	if (e->events && e->events->lane_broken)
		e->events->lane_broken(e->ctx, lane, n->error, n->why);
	free(n);
}
