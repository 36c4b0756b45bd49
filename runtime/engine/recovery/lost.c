/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device context that is lost: the device failed or was removed, or its
 * completion queue overran. The context gives no completions any more, not even
 * of flushed WRs, so the shard does not wait for them: the rail counts as
 * stopped at once. That is as safe as a flush: the peer's QPs, which are in ERR
 * before the peer answers the fence, refuse what this end still sends; what the
 * peer still sends finds no device here, or a QP in ERR. A device that hangs has
 * QPs that take what comes until it answers again: the peer sends nothing more
 * once it answered the fence, and what a peer that never answers sends lands in
 * memory that is deregistered only behind the ERR (hca/qp.c). Our receive bitmap
 * stays true because the shard takes no completion of the rail from then on.
 * This engine never uses the rail again.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/xalloc.h"
#include "engine/conn/conn.h"
#include "engine/recovery/stop.h"

struct loss {
	struct mpib_shard *shard;
	unsigned rail;
	mpib_rail_lost_fn *told;
	const char *why;
};

static void lose_lane(struct mpib_lane *lane, unsigned r)
{
	struct mpib_shard *s = lane->shard;
	struct engine_conn *f;

	TAILQ_FOREACH(f, &lane->conns, lane_link)
	{
		f->stop_posted &= (uint8_t)~mpib_rail_bit(r);
		if (f->is_sender)
			continue;
		mpib_flush_lost(f, r);
	}
	if (!mpib_lane_fault(lane, r, MPIB_CAUSE_PORT))
		mpib_lane_break(lane, -EIO,
				"rail %u (%s): its device failed or was "
				"removed",
				r, mpib_rail_spec(s, r)->name);
	/* Only now that the rail is closed: a last write goes by the other. */
	TAILQ_FOREACH(f, &lane->conns, lane_link)
	{
		if (!f->is_sender && f->stopping && !f->stopped)
			engine_conn_check_stopped(f);
	}
	mpib_rail_check_stopped(lane, r);
	mpib_lane_check_stopped(lane);
}

static void on_lost(struct mpib_msg *msg)
{
	struct mpib_call *call = container_of(msg, struct mpib_call, msg);
	struct loss *loss = call->what;
	struct mpib_shard *s = loss->shard;
	struct mpib_rail *rail = &s->rail[loss->rail];
	struct mpib_tenant *t;
	struct mpib_lane *lane;

	rail->lost = true;
	/* The kernel reports this descriptor as readable from now on. */
	epoll_ctl(s->epfd, EPOLL_CTL_DEL, rail->channel->fd, NULL);
	TAILQ_FOREACH(t, &s->tenants, link)
	mpib_loopback_lost(t, loss->rail);
	TAILQ_FOREACH(lane, &s->lanes, link)
	{
		if (loss->rail < lane->rails)
			lose_lane(lane, loss->rail);
	}
	mpib_call_done(s, call, 0);
}

static void lost_told(void *arg, int status)
{
	struct loss *loss = arg;

	(void)status;
	loss->told(loss->shard, loss->rail, loss->why);
	free(loss);
}

void mpib_rail_lose(struct mpib_shard *s, unsigned rail,
		    mpib_rail_lost_fn *told, const char *why)
{
	struct loss *loss = mpib_xcalloc(sizeof(*loss));
	struct mpib_call *call;

	*loss = (struct loss){ s, rail, told, why };
	s->rail[rail].dead = true;
	s->rail[rail].up = false;
	s->rail[rail].port.state = IBV_PORT_NOP;
	epoll_ctl(s->engine->epfd, EPOLL_CTL_DEL, s->rail[rail].ctx->async_fd,
		  NULL);
	call = mpib_call_new(loss, lost_told, loss);
	mpib_mailbox_send(&s->mailbox, &call->msg, on_lost);
}

uint32_t mpib_engine_lost(const struct mpib_engine *engine)
{
	uint32_t lost = 0;

	for (unsigned i = 0; i < engine->shards; i++) {
		const struct mpib_shard *s = &engine->shard[i];

		for (unsigned r = 0; r < engine->cfg.rails; r++)
			lost |= (uint32_t)s->rail[r].dead
				<< mpib_rail_number(s, r);
	}
	return lost;
}
