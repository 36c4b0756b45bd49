/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/rehearse.h"

#include <errno.h>
#include <string.h>

#include "engine/lane/lane.h"
#include "verbs/soft/soft.h"

_Static_assert(sizeof(((struct mpib_fault *)0)->peer) == MPIB_LABEL_MAX,
	       "a peer's name does not fit");

/* Return the rail's index in its device. */
static unsigned rail_in(const struct mpib_engine *e, const struct mpib_fault *f)
{
	return f->rail % e->cfg.rails;
}

static bool of_device(const struct mpib_shard *s, const struct mpib_fault *f)
{
	return s->device == f->rail / s->engine->cfg.rails;
}

/* Compare with the peer's label, with or without the port. */
static bool is_named(const char *peer, const char *name)
{
	size_t len = strlen(name);

	return !strncmp(peer, name, len) &&
	       (!peer[len] ||
		(peer[len] == ':' && !strchr(peer + len + 1, ':')));
}

static bool lane_meets(const struct mpib_lane *lane, const struct mpib_fault *f)
{
	return of_device(lane->shard, f) &&
	       rail_in(lane->shard->engine, f) < lane->rails &&
	       (!*f->peer || is_named(lane->peer, f->peer));
}

/* Return a QP of a lane that the fault affects, and write the full name of the
 * lane's peer to f->peer. NULL: no such lane. */
static const struct ibv_qp *some_qp(const struct mpib_engine *e,
				    struct mpib_fault *f)
{
	const struct mpib_lane *lane;

	TAILQ_FOREACH(lane, &e->lanes, made_link)
	{
		if (!lane_meets(lane, f) || !lane->qp[rail_in(e, f)][0].qp)
			continue;
		memcpy(f->peer, lane->peer, sizeof(f->peer));
		return lane->qp[rail_in(e, f)][0].qp;
	}
	return NULL;
}

static void kill_qps(struct mpib_engine *e, const struct mpib_fault *f)
{
	struct mpib_lane *lane;

	TAILQ_FOREACH(lane, &e->lanes, made_link)
	{
		if (lane_meets(lane, f))
			mpib_lane_rail_to_err(lane, rail_in(e, f));
	}
}

static void set_soft(struct mpib_engine *e, const struct mpib_fault *f,
		     const struct mpib_soft_fault *soft)
{
	for (unsigned i = 0; i < e->shards; i++) {
		struct mpib_rail *rail = &e->shard[i].rail[rail_in(e, f)];

		if (of_device(&e->shard[i], f) && rail->ctx)
			mpib_soft_set_fault(rail->ctx, soft);
	}
}

static int play_soft(struct mpib_engine *e, struct mpib_fault *f)
{
	struct mpib_soft_fault soft = { 0 };
	const struct ibv_qp *qp;

	if (*f->peer) {
		qp = some_qp(e, f);
		if (!qp)
			return -ENOENT;
		soft.only = mpib_soft_peer(qp);
	}
	switch (f->kind) {
	case MPIB_FAULT_RATE:
		soft.rate_bytes_per_s = f->value;
		break;
	case MPIB_FAULT_DELAY:
		soft.delay_ns = f->value;
		break;
	case MPIB_FAULT_BLACK_HOLE:
		soft.black_hole = 1;
		break;
	case MPIB_FAULT_LINK_DOWN:
		soft.link_down = 1;
		break;
	case MPIB_FAULT_GONE:
		if (!mpib_soft_hide(&e->cfg.rail[f->rail], true))
			return -ENOSPC;
		soft.gone = 1;
		break;
	case MPIB_FAULT_NONE:
	case MPIB_FAULT_QP_KILL:
		return -EINVAL;
	}
	set_soft(e, f, &soft);
	return 0;
}

int mpib_engine_play(struct mpib_engine *engine, struct mpib_fault *fault)
{
	if (fault->kind == MPIB_FAULT_QP_KILL) {
		if (*fault->peer && !some_qp(engine, fault))
			return -ENOENT;
		kill_qps(engine, fault);
		return 0;
	}
	if (engine->cfg.rail[fault->rail].provider != MPIB_PROVIDER_SOFT)
		return -EOPNOTSUPP;
	return play_soft(engine, fault);
}

void mpib_engine_end_play(struct mpib_engine *engine,
			  const struct mpib_fault *fault)
{
	static const struct mpib_soft_fault none;

	if (fault->kind == MPIB_FAULT_QP_KILL)
		return;
	if (fault->kind == MPIB_FAULT_GONE)
		mpib_soft_hide(&engine->cfg.rail[fault->rail], false);
	set_soft(engine, fault, &none);
}
