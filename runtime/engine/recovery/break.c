/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes that break, and their connections with them. Shard thread, but for
 * mpib_lane_kill().
 */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "engine/async_error.h"
#include "engine/conn/conn.h"
#include "engine/lane/spread.h"
#include "engine/recovery/stop.h"

void mpib_lane_break(struct mpib_lane *lane, int error, const char *fmt, ...)
{
	struct mpib_engine *e = lane->shard->engine;
	struct mpib_async_error *notice;
	struct engine_conn *f, *next;
	va_list ap;

	if (lane->broken)
		return;
	lane->broken = true;
	lane->open = 0;
	va_start(ap, fmt);
	notice = mpib_async_error_new(lane, error, fmt, ap);
	va_end(ap);
	for (unsigned r = 0; r < lane->rails; r++)
		mpib_spread_reset(lane, r);
	for (f = TAILQ_FIRST(&lane->conns); f; f = next) {
		next = TAILQ_NEXT(f, lane_link);
		engine_conn_break(f, mpib_conn_lost_error(e), "%s",
				  notice->why);
		if (f->stopping)
			engine_conn_check_stopped(f);
	}
	mpib_mailbox_send(&e->mailbox, &notice->msg, mpib_async_error_lane);
}

/* With fail-over the WRs that the QP refused count as lost in a fault, and the
 * fence finds them. */
static void break_refused(struct mpib_lane_qp *q)
{
	int error = q->refused;

	q->refused = 0;
	if (mpib_lane_fault(q->lane, q->rail, MPIB_CAUSE_ERROR))
		return;
	mpib_lane_break(q->lane, -EIO,
			"rail %u: ibv_post_send on QP 0x%x to %s: %s", q->rail,
			q->qpn, q->lane->peer, strerror(-error));
}

void mpib_lanes_refused(struct mpib_shard *s)
{
	struct mpib_lane *lane;

	s->refused = false;
	TAILQ_FOREACH(lane, &s->lanes, link)
	{
		for (unsigned r = 0; r < lane->rails; r++) {
			for (unsigned i = 0; i < lane->qps[r]; i++) {
				if (lane->qp[r][i].refused)
					break_refused(&lane->qp[r][i]);
			}
		}
	}
}

static void on_kill(struct mpib_msg *msg)
{
	struct mpib_call *call = container_of(msg, struct mpib_call, msg);
	struct mpib_lane *lane = call->what;

	mpib_lane_break(lane, -ECONNRESET, "lane to %s was closed", lane->peer);
	mpib_looks_end(lane);
	lane->kill = call;
	mpib_lane_stop(lane);
}

void mpib_lane_kill(struct mpib_lane *lane, mpib_done_fn *done, void *arg)
{
	struct mpib_call *call = mpib_call_new(lane, done, arg);

	mpib_failover_end(lane);
	/* If a device hangs, later, but before memory is deregistered. */
	for (unsigned r = 0; r < lane->rails; r++)
		mpib_lane_rail_to_err(lane, r);
	mpib_mailbox_send(&lane->shard->mailbox, &call->msg, on_kill);
}
