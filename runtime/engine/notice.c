/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/notice.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/sure.h"

struct mpib_notice *mpib_notice_new(void *what, int error, const char *fmt,
				    va_list ap)
{
	struct mpib_notice *n = mpib_sure_alloc(sizeof(*n));

	n->what = what;
	n->error = error;
	vsnprintf(n->why, sizeof(n->why), fmt, ap);
	return n;
}

void mpib_notice_flow(struct mpib_msg *msg)
{
	struct mpib_notice *n = (struct mpib_notice *)msg;
	struct mpib_flow *f = n->what;
	struct mpib_engine *e = f->shard->engine;

	if (e->events && e->events->flow_broken)
		e->events->flow_broken(e->ctx, f, n->error, n->why);
	free(n);
}

void mpib_notice_lane(struct mpib_msg *msg)
{
	struct mpib_notice *n = (struct mpib_notice *)msg;
	struct mpib_lane *lane = n->what;
	struct mpib_engine *e = lane->shard->engine;

	if (e->events && e->events->lane_broken)
		e->events->lane_broken(e->ctx, lane, n->error, n->why);
	free(n);
}
