/* SPDX-License-Identifier: Apache-2.0 */
/* The transitions of the fence, see fence.h. */
#include "failover/fence.h"

void mpib_fence_init(struct mpib_fence *f, bool healthy)
{
	*f = (struct mpib_fence){ .state = MPIB_FENCE_LIVE,
				  .healthy = healthy,
				  .probed = true,
				  .peer_reconnects = true,
				  .peer_up = true };
}

/* Return whether this end has not yet begun to stop the rail in this epoch. */
static bool fence_standing(const struct mpib_fence *f)
{
	return f->state != MPIB_FENCE_STOPPING &&
	       f->state != MPIB_FENCE_STOPPED;
}

static unsigned fence_stop(struct mpib_fence *f)
{
	f->state = MPIB_FENCE_STOPPING;
	return MPIB_FENCE_STOP;
}

static unsigned fence_complete(struct mpib_fence *f)
{
	f->state = MPIB_FENCE_REPLAYING;
	f->epoch++;
	f->probed = f->peer_fenced = f->peer_reconnects = f->peer_up = false;
	return MPIB_FENCE_REPLAY;
}

static unsigned try_connect(struct mpib_fence *f)
{
	if (f->state != MPIB_FENCE_RECONNECTING || !f->peer_reconnects)
		return 0;
	f->state = MPIB_FENCE_PROBING;
	return MPIB_FENCE_CONNECT;
}

static unsigned try_resume(struct mpib_fence *f)
{
	if (f->state != MPIB_FENCE_PROBING || !f->probed || !f->peer_up)
		return 0;
	f->state = MPIB_FENCE_LIVE;
	return MPIB_FENCE_RESUME;
}

unsigned mpib_fence_fault(struct mpib_fence *f)
{
	/* In REPLAYING and DOWN this end has no QPs that could fail. */
	if (!fence_standing(f) || f->state == MPIB_FENCE_REPLAYING ||
	    f->state == MPIB_FENCE_DOWN)
		return 0;
	return fence_stop(f) | MPIB_FENCE_TELL;
}

unsigned mpib_fence_health(struct mpib_fence *f, bool healthy)
{
	f->healthy = healthy;
	if (!healthy)
		return mpib_fence_fault(f);
	/* The port must be up for the whole hold-down, so restart the
	 * hold-down. */
	return f->state == MPIB_FENCE_DOWN ? MPIB_FENCE_HOLD : 0;
}

unsigned mpib_fence_stopped(struct mpib_fence *f)
{
	if (f->state != MPIB_FENCE_STOPPING)
		return 0;
	f->state = MPIB_FENCE_STOPPED;
	return MPIB_FENCE_ANSWER | (f->peer_fenced ? fence_complete(f) : 0);
}

unsigned mpib_fence_replayed(struct mpib_fence *f)
{
	/* Meanwhile a FENCE of the next epoch may have stopped the rail. */
	if (f->state != MPIB_FENCE_REPLAYING)
		return 0;
	f->state = MPIB_FENCE_DOWN;
	return MPIB_FENCE_HOLD;
}

unsigned mpib_fence_hold_over(struct mpib_fence *f)
{
	if (f->state != MPIB_FENCE_DOWN || !f->healthy)
		return 0;
	f->state = MPIB_FENCE_RECONNECTING;
	return MPIB_FENCE_RECONNECT | try_connect(f);
}

unsigned mpib_fence_probed(struct mpib_fence *f, bool ok)
{
	if (f->state != MPIB_FENCE_PROBING || f->probed)
		return 0;
	if (!ok)
		return mpib_fence_fault(f);
	f->probed = true;
	return MPIB_FENCE_TELL_UP | try_resume(f);
}

bool mpib_fence_message(struct mpib_fence *f, enum mpib_fence_msg msg,
			uint32_t epoch, unsigned *actions)
{
	*actions = 0;
	if (mpib_fence_past(f, epoch))
		return true;
	if (epoch != f->epoch)
		return false;
	switch (msg) {
	case MPIB_FENCE_MSG_FENCE:
		/* This may also happen in REPLAYING and DOWN: the peer had
		 * begun to reconnect in the new epoch, found a fault, and waits
		 * for this end's FENCED. */
		*actions = fence_standing(f) ? fence_stop(f) : 0;
		return true;
	case MPIB_FENCE_MSG_FENCED:
		if (f->peer_fenced)
			return true;
		f->peer_fenced = true;
		if (fence_standing(f))
			*actions = fence_stop(f);
		else if (f->state == MPIB_FENCE_STOPPED)
			*actions = fence_complete(f);
		return true;
	case MPIB_FENCE_MSG_RECONNECT:
		if (f->peer_reconnects)
			return true;
		f->peer_reconnects = true;
		*actions = try_connect(f);
		return true;
	case MPIB_FENCE_MSG_UP:
		if (!f->peer_reconnects)
			return false;
		if (f->peer_up)
			return true;
		f->peer_up = true;
		*actions = try_resume(f);
		return true;
	}
	return false;
}
