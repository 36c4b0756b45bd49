/* SPDX-License-Identifier: Apache-2.0 */
/* What a test sees of a node: its control thread looks. */
#include <unistd.h>

#include "engine/lane/lane.h"
#include "nodes.h"
#include "peer/internal.h"

static void look(struct node *node, void *arg)
{
	struct mpib_lane *lane;
	uint8_t live = 3;

	TAILQ_FOREACH(lane, &node->engine->lanes, made_link)
	{
		for (unsigned r = 0; r < lane->rails; r++) {
			if (lane->ctl.rail[r].fence.state != MPIB_FENCE_LIVE)
				live &= (uint8_t) ~(1u << r);
		}
	}
	*(uint8_t *)arg = live;
}

uint8_t node_live(struct node *node)
{
	uint8_t live = 0;

	node_call(node, look, &live);
	return live;
}

struct taking {
	struct mpib_snapshot *snap;
	_Atomic bool done;
};

static void on_snapshot(void *arg, struct mpib_snapshot *snap)
{
	struct taking *t = arg;

	t->snap = snap;
	atomic_store(&t->done, true);
}

static void take(struct node *node, void *arg)
{
	if (mpib_engine_snapshot(node->engine, on_snapshot, arg) < 0)
		die("no snapshot");
}

struct mpib_snapshot *node_snapshot(struct node *node)
{
	struct taking t = { 0 };

	node_call(node, take, &t);
	while (!atomic_load(&t.done))
		usleep(20);
	return t.snap;
}
