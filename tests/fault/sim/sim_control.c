/* SPDX-License-Identifier: Apache-2.0 */
/* The control threads: actions of the fences, as failover.c does them. */
#include "sim.h"

void sim_note(struct box *b, const struct note *n)
{
	b->v[b->tail++ % 64] = *n;
}

static void tell(struct world *w, unsigned e, unsigned rail,
		 enum mpib_fence_msg msg, uint32_t epoch,
		 const struct bitmap *bitmap)
{
	struct note n = {
		.kind = NOTE_MESSAGE, .rail = rail, .msg = msg, .epoch = epoch
	};

	if (bitmap)
		n.bitmap = *bitmap;
	sim_note(&w->end[!e].from_peer, &n);
}

static void act(struct world *w, unsigned e, unsigned rail, unsigned actions)
{
	struct end *end = &w->end[e];
	struct mpib_fence *f = &end->fence[rail];
	struct note n = { .rail = rail, .epoch = f->epoch };

	if (actions & MPIB_FENCE_STOP) {
		sim_qp_error(w, e, rail);
		end->hold[rail] = false;
		n.kind = NOTE_STOP;
		sim_note(&end->to_shard, &n);
	}
	if (actions & MPIB_FENCE_TELL)
		tell(w, e, rail, MPIB_FENCE_MSG_FENCE, f->epoch, NULL);
	if (actions & MPIB_FENCE_REPLAY) {
		end->replaying[rail] = true;
		n.kind = NOTE_REPLAY;
		n.bitmap = end->theirs[rail];
		sim_note(&end->to_shard, &n);
	}
	if (actions & MPIB_FENCE_RECONNECT) {
		end->qp[rail].exists = false;
		tell(w, e, rail, MPIB_FENCE_MSG_RECONNECT, f->epoch, NULL);
	}
	if (actions & MPIB_FENCE_CONNECT) {
		sim_qp_make(w, e, rail, f->epoch);
		n.kind = NOTE_CONNECT;
		sim_note(&end->to_shard, &n);
	}
	if (actions & MPIB_FENCE_TELL_UP)
		tell(w, e, rail, MPIB_FENCE_MSG_UP, f->epoch, NULL);
	if (actions & MPIB_FENCE_RESUME) {
		n.kind = NOTE_RESUME;
		sim_note(&end->to_shard, &n);
	}
}

bool sim_control_note(struct world *w, unsigned e)
{
	struct end *end = &w->end[e];
	struct box *b = &end->to_control;
	struct mpib_fence *f;
	const struct note *n;
	unsigned actions;
	uint32_t epoch;

	if (b->head == b->tail)
		return false;
	n = &b->v[b->head++ % 64];
	f = &end->fence[n->rail];
	epoch = f->epoch;
	switch (n->kind) {
	case NOTE_FAULT:
		act(w, e, n->rail, mpib_fence_fault(f));
		break;
	case NOTE_STOPPED:
		actions = mpib_fence_drained(f);
		if (actions & MPIB_FENCE_ANSWER)
			tell(w, e, n->rail, MPIB_FENCE_MSG_FENCED, epoch,
			     &n->bitmap);
		act(w, e, n->rail, actions);
		break;
	case NOTE_REPLAYED:
		end->replaying[n->rail] = false;
		end->hold[n->rail] = true;
		break;
	case NOTE_PROBED:
		act(w, e, n->rail, mpib_fence_probed(f, n->ok));
		break;
	default:
		sim_wrong(w, "a note to the wrong thread");
	}
	return true;
}

bool sim_peer_note(struct world *w, unsigned e)
{
	struct end *end = &w->end[e];
	struct box *b = &end->from_peer;
	const struct note *n;
	unsigned actions;

	if (b->head == b->tail)
		return false;
	n = &b->v[b->head++ % 64];
	if (n->msg == MPIB_FENCE_MSG_FENCED)
		end->theirs[n->rail] = n->bitmap;
	if (!mpib_fence_message(&end->fence[n->rail], n->msg, n->epoch,
				&actions))
		sim_wrong(w, "a message out of turn");
	act(w, e, n->rail, actions);
	return true;
}

bool sim_hold_over(struct world *w, unsigned e, unsigned rail)
{
	struct end *end = &w->end[e];

	if (!end->hold[rail])
		return false;
	end->hold[rail] = false;
	act(w, e, rail, mpib_fence_hold_over(&end->fence[rail]));
	return true;
}

void sim_health(struct world *w, unsigned e, unsigned rail, bool up)
{
	struct end *end = &w->end[e];

	if (up && end->fence[rail].state == MPIB_FENCE_DOWN &&
	    !end->replaying[rail]) {
		end->fence[rail].held = true;
		end->hold[rail] = true;
	}
	act(w, e, rail, mpib_fence_health(&end->fence[rail], up));
}

bool sim_probe_late(struct world *w, unsigned e, unsigned rail)
{
	struct mpib_fence *f = &w->end[e].fence[rail];

	if (f->state != MPIB_FENCE_PROBING || f->probed)
		return false;
	act(w, e, rail, mpib_fence_probed(f, false));
	return true;
}
