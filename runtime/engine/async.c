/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handling of the devices' asynchronous events. A failed call may also show
 * that a device is lost, before the event arrives. The control thread reads the
 * events from each context's async_fd without blocking. The control thread
 * passes the events to the lanes of that context's shard, and tells the shard
 * by mailbox which SRQs to refill. So the shard thread makes no system call for
 * events.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/event.h"
#include "base/xalloc.h"
#include "engine/conn/conn.h"
#include "verbs/explain.h"

void mpib_async_port(struct mpib_shard *s, unsigned r, bool up, const char *why)
{
	unsigned number = mpib_rail_number(s, r);
	struct mpib_engine *e = s->engine;

	mpib_rail_port(s, r, up);
	/* Announce a change once, although every shard of the device reports
	 * it. */
	if (e->rail_up[number] == up)
		return;
	e->rail_up[number] = up;
	mpib_event(MPIB_LOG_WARN, up ? "rail_up" : "rail_down",
		   &(struct mpib_event_about){ .rails = 1u << number },
		   "rail %s (%s): %s", mpib_rail_label(s, r),
		   mpib_rail_spec(s, r)->name, why);
}

/* Return whether rc means that the device is gone. The kernel returns EIO after
 * it has removed the device. mlx5 returns the other codes after a failure,
 * until the event arrives. */
static bool says_gone(int rc)
{
	return rc == -EIO || rc == -ENODEV || rc == -ENXIO || rc == -ENOLINK;
}

bool mpib_rail_is_gone(struct mpib_shard *s, unsigned r, int rc)
{
	struct mpib_rail *rail = &s->rail[r];
	struct mpib_port_info port;

	if (!rail->dead && says_gone(rc) &&
	    says_gone(
		    rail->verbs->query_port(rail->ctx, rail->port_num, &port)))
		mpib_rail_lose(s, r, "the device failed or was removed");
	return rail->dead;
}

/* Query the port again: a port that comes up may have another speed. If the
 * port's address has changed, QPs that were connected through the old address
 * are lost, although the port never went down. So report the port to the lanes
 * as down and then as up. A port that is down counts as up only after the event
 * PORT_ACTIVE. */
static void ask_port_again(struct mpib_shard *s, unsigned r)
{
	struct mpib_rail *rail = &s->rail[r];
	struct mpib_port_info now;

	if (rail->verbs->query_port(rail->ctx, rail->port_num, &now) < 0)
		return; /* the device is gone, or its firmware does not answer */
	rail->port.speed_mbps = now.speed_mbps;
	rail->port.mtu = now.mtu;
	if (!memcmp(&now.gid, &rail->port.gid, sizeof(now.gid)) &&
	    now.lid == rail->port.lid)
		return;
	mpib_warn("shard %u: rail %s (%s): the port's address changed",
		  s->index, mpib_rail_label(s, r), mpib_rail_spec(s, r)->name);
	rail->port.gid = now.gid;
	rail->port.gid_index = now.gid_index;
	rail->port.lid = now.lid;
	if (!rail->up)
		return;
	mpib_rail_port(s, r, false);
	if (now.state == IBV_PORT_ACTIVE)
		mpib_rail_port(s, r, true);
}

static void on_srq_limit(struct mpib_msg *msg)
{
	struct mpib_call *call = container_of(msg, struct mpib_call, msg);
	struct mpib_tenant *t = call->what;
	struct mpib_rail *rail = &t->shard->rail[call->rail];

	rail->n.srq_limits++;
	/* mpib_srq_turn() may have filled the SRQ since the event. */
	if (t->srq_posted[call->rail] < mpib_srq_low(t, call->rail) &&
	    mpib_srq_fill(t, call->rail) == 0)
		rail->n.srq_refills++;
	mpib_call_done(t->shard, call, 0);
}

static void async_rearm(struct mpib_call *call)
{
	mpib_srq_arm(call->what, call->rail);
	mpib_tenant_put(call->what);
}

static void srq_limit(struct mpib_shard *s, unsigned r, const struct ibv_srq *q)
{
	struct mpib_tenant *t = q->srq_context;
	struct mpib_call *call;

	if (t->refs == 0)
		return; /* the tenant is being freed */
	mpib_tenant_hold(t);
	call = mpib_call_new(t, NULL, NULL);
	call->rail = r;
	call->after = async_rearm;
	mpib_mailbox_send(&s->mailbox, &call->msg, on_srq_limit);
}

static bool is_of_port(const struct ibv_async_event *ev)
{
	return ev->event_type == IBV_EVENT_PORT_ERR ||
	       ev->event_type == IBV_EVENT_PORT_ACTIVE ||
	       ev->event_type == IBV_EVENT_GID_CHANGE ||
	       ev->event_type == IBV_EVENT_LID_CHANGE;
}

static void async_take(struct mpib_shard *s, unsigned r,
		       const struct ibv_async_event *ev)
{
	const char *name = mpib_rail_spec(s, r)->name;

	if (s->rail[r].dead)
		return;
	if (is_of_port(ev) && ev->element.port_num != s->rail[r].port_num)
		return;
	switch (ev->event_type) {
	case IBV_EVENT_PORT_ERR:
		s->rail[r].port.state = IBV_PORT_DOWN;
		mpib_async_port(s, r, false,
				"the port is down (look at its cable)");
		break;
	case IBV_EVENT_PORT_ACTIVE:
		s->rail[r].port.state = IBV_PORT_ACTIVE;
		mpib_async_port(s, r, true, "the port is active");
		ask_port_again(s, r);
		break;
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_LID_CHANGE:
		ask_port_again(s, r);
		break;
	case IBV_EVENT_DEVICE_FATAL:
		mpib_rail_lose(s, r, "the device failed or was removed");
		break;
	case IBV_EVENT_CQ_ERR:
		mpib_rail_lose(s, r, "a completion queue overran");
		break;
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		srq_limit(s, r, ev->element.srq);
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		mpib_warn("rail %s (%s): QP 0x%x: %s", mpib_rail_label(s, r),
			  name, ev->element.qp->qp_num,
			  ibv_event_type_str(ev->event_type));
		break;
	default:
		mpib_debug("rail %s (%s): %s", mpib_rail_label(s, r), name,
			   ibv_event_type_str(ev->event_type));
	}
}

void mpib_async_turn(struct mpib_shard *s)
{
	for (unsigned r = 0; r < s->engine->cfg.rails; r++) {
		struct mpib_rail *rail = &s->rail[r];
		struct ibv_async_event ev;
		int rc;

		if (!rail->ctx)
			continue;
		while ((rc = rail->verbs->get_async_event(rail->ctx, &ev)) ==
		       0) {
			async_take(s, r, &ev);
			rail->verbs->ack_async_event(&ev);
		}
		/* -EIO: the kernel has removed the device. */
		if (rc == -EIO)
			mpib_rail_lose(s, r, "the device was removed");
		else if (rc == -ETIMEDOUT)
			mpib_rail_lose(s, r, "a call of its verbs hangs");
	}
}

/* Notices of broken connections and lanes. A shard thread creates them, and the
 * control thread delivers them to the engine's owner. */

struct broken {
	struct mpib_msg msg;
	struct mpib_lane *lane;
	struct engine_conn *conn; /* NULL: the lane broke */
	int error;
	char why[MPIB_BROKEN_WHY];
};

static void on_broken(struct mpib_msg *msg)
{
	struct broken *b = container_of(msg, struct broken, msg);
	struct mpib_engine *e = b->lane->shard->engine;

	if (b->conn && e->events && e->events->conn_broken)
		e->events->conn_broken(e->ctx, b->conn, b->error, b->why);
	if (!b->conn && e->events && e->events->lane_broken)
		e->events->lane_broken(e->ctx, b->lane, b->error, b->why);
	free(b);
}

void mpib_broken_tell(struct mpib_lane *lane, struct engine_conn *conn,
		      int error, const char *why)
{
	struct broken *b = mpib_xcalloc(sizeof(*b));

	b->lane = lane;
	b->conn = conn;
	b->error = error;
	snprintf(b->why, sizeof(b->why), "%s", why);
	mpib_mailbox_send(&lane->shard->engine->mailbox, &b->msg, on_broken);
}

/* Keep the text of the last failed engine call until the caller reads it by
 * mpib_engine_last_error(). Control thread. */

int mpib_last_error(const struct mpib_shard *s, unsigned rail, const char *call,
		    int rc)
{
	struct mpib_engine *e = s->engine;

	if (rc >= 0)
		return rc;
	e->last_error_rc = rc;
	mpib_verbs_explain(mpib_rail_spec(s, rail), &s->rail[rail].port.dev,
			   call, rc, e->last_error, sizeof(e->last_error));
	return rc;
}

int mpib_last_error_set(struct mpib_engine *e, int rc, const char *fmt, ...)
{
	va_list ap;

	e->last_error_rc = rc;
	va_start(ap, fmt);
	vsnprintf(e->last_error, sizeof(e->last_error), fmt, ap);
	va_end(ap);
	return rc;
}

int mpib_last_error_crowded(const struct mpib_shard *s, unsigned rail,
			    const char *what)
{
	return mpib_last_error_set(
		s->engine, -ENOSPC,
		"rail %s of shard %u has no room for %s: of %u completions "
		"%u are kept for users' receives and QPs (raise "
		"proxy.threads, or lower srq.high)",
		mpib_rail_label(s, rail), s->index, what,
		s->rail[rail].budget.size,
		atomic_load_explicit(&s->rail[rail].budget.promised,
				     memory_order_relaxed));
}

const char *mpib_engine_last_error(struct mpib_engine *engine, int rc)
{
	if (engine->last_error_rc != rc)
		return strerror(-rc);
	/* Return the text only once: a later failure with the same rc may have
	 * another cause. */
	engine->last_error_rc = 0;
	return engine->last_error;
}
