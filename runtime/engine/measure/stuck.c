/* SPDX-License-Identifier: Apache-2.0 */
/* The reasons why outstanding requests wait. They are computed only for a
 * snapshot: the hot path stores only the time of each request's first
 * descriptor. Shard thread, between two turns. */
#include "engine/conn/conn.h"

static enum mpib_last stuck_stalled(const struct engine_conn *f)
{
	static const enum mpib_last last[MPIB_STALLS] = {
		[MPIB_STALL_NONE] = MPIB_LAST_QUEUED,
		[MPIB_STALL_CTS] = MPIB_LAST_NO_CTS,
		[MPIB_STALL_SLOT] = MPIB_LAST_NO_SLOT,
		[MPIB_STALL_SQ] = MPIB_LAST_NO_SQ,
		[MPIB_STALL_WINDOW] = MPIB_LAST_NO_WINDOW,
		[MPIB_STALL_SHARE] = MPIB_LAST_NO_SHARE,
	};

	if (mpib_drr_is_held(&f->drr))
		return MPIB_LAST_LIMITED;

	return last[f->stall];
}

/* Return one bit per rail that carries a pending stripe of the send op. After a
 * fence, a stripe may be on another rail than at first. */
static uint8_t waited_for(const struct send_op *p)
{
	uint8_t rails = 0;

	for (unsigned k = 0; k < MPIB_RAILS; k++)
		rails |= (uint8_t)((p->c.pending >> k & 1) << p->c.carrier[k]);
	return rails;
}

/* Return whether a send op has bytes of the request. In *rails, set a bit for
 * each rail on which such a send op is unacknowledged. */
static bool is_posted(const struct engine_conn *f, unsigned req, uint8_t *rails)
{
	bool posted = false;

	for (uint32_t i = f->tx.op_tail; i != f->tx.op_head; i++) {
		const struct send_op *p = &f->tx.op[i % SEND_OPS];

		for (unsigned k = 0; k < p->n; k++) {
			if (f->tx.op_range[(p->first + k) % SEND_OP_RANGES]
				    .req != req)
				continue;
			*rails |= waited_for(p);
			posted = true;
		}
	}
	return posted;
}

/* Return the first queued send range of the request, or NULL. */
static const struct send_range *range_of(const struct engine_conn *f,
					 unsigned req)
{
	for (uint32_t i = f->tx.range_tail; i != f->tx.range_head; i++) {
		const struct send_range *e = &f->tx.range[i % SEND_RANGES];

		if (e->req == req)
			return e;
	}
	return NULL;
}

/* Return whether another request's send with the same tag is queued
 * before e. */
static bool is_behind(const struct engine_conn *f, const struct send_range *e)
{
	uint32_t i = f->tx.range_tail;

	while (f->tx.range[i % SEND_RANGES].tag != e->tag)
		i++;
	return f->tx.range[i % SEND_RANGES].req != e->req;
}

/* Return whether the current receive has already matched e's send. */
static bool is_begun(const struct engine_conn *f, const struct send_range *e)
{
	const struct mpib_group *g = &f->tx.group;

	for (unsigned i = 0; i < g->n; i++) {
		if (g->matched & ~g->whole & 1u << i && g->req[i] == e->req)
			return true;
	}
	return !g->n && f->tx.pos && f->tx.req == e->req;
}

/* Find the oldest known receive with a free buffer for the tag. Return its
 * distance from the current receive, so 0 for the current receive itself.
 * UINT32_MAX: no such receive. */
static uint32_t wanted_by(const struct engine_conn *f, int32_t tag)
{
	const struct mpib_sender *tx = &f->tx;

	for (uint64_t s = tx->cts_next; s < tx->cts_next + MPIB_TABLE_SLOTS;
	     s++) {
		uint64_t i = s - tx->cts_next;
		bool taken = i < tx->group.n && tx->group.matched >> i & 1;
		struct mpib_cts cts;
		int32_t ahead;

		if (!mpib_cts_copy(f, s, &cts))
			break;
		ahead = (int32_t)(cts.msg - tx->msg);
		taken |= ahead < 0 || (ahead == 0 && tx->pos);
		if (cts.tag == tag && cts.pos == 0 && !taken)
			return (uint32_t)ahead;
	}
	return UINT32_MAX;
}

/* Return the reason why the send of the queued range e waits. */
static enum mpib_last stuck_queued(const struct engine_conn *f,
				   const struct send_range *e)
{
	uint32_t receive;

	if (is_begun(f, e))
		return stuck_stalled(f);
	if (is_behind(f, e))
		return MPIB_LAST_QUEUED;
	receive = wanted_by(f, e->tag);
	if (receive == UINT32_MAX)
		return MPIB_LAST_NO_CTS;
	return receive == 0 ? stuck_stalled(f) : MPIB_LAST_QUEUED;
}

static void look_at_send(const struct engine_conn *f, unsigned req,
			 struct mpib_snap_request *out)
{
	const struct send_range *e = range_of(f, req);
	bool posted = is_posted(f, req, &out->rails);

	if (out->rails)
		out->last = MPIB_LAST_UNACKED;
	else if (e)
		out->last = stuck_queued(f, e);
	else if (posted) /* acknowledged, but its slot is not delivered */
		out->last = MPIB_LAST_UNDELIVERED;
	else if (f->tx.group.n && f->req[req].fed == f->req[req].total)
		out->last = MPIB_LAST_NO_GROUP;
	else
		out->last = MPIB_LAST_NO_DATA;
}

/* Check the oldest slot of the request; a message in parts has several
 * slots. */
static void look_at_receive(const struct engine_conn *f, unsigned req,
			    struct mpib_snap_request *out)
{
	out->last = MPIB_LAST_NO_DATA;
	for (uint64_t i = f->rx.tail; i < f->rx.next; i++) {
		const struct mpib_slot *s = &f->rx.slot[i % MPIB_TABLE_SLOTS];

		if (s->req != req || (s->state != MPIB_SLOT_POSTED &&
				      s->state != MPIB_SLOT_ARRIVED))
			continue;
		out->rails = s->expected & (uint8_t)~s->seen;
		if (s->state == MPIB_SLOT_ARRIVED)
			out->last = MPIB_LAST_ARRIVED;
		else if (i >= f->rx.cts_posted)
			out->last = MPIB_LAST_CTS_UNSENT;
		else
			out->last = s->seen ? MPIB_LAST_NO_IMM
					    : MPIB_LAST_NO_SENDER;
		return;
	}
}

/* Return the next free request entry in `snap`, for the connection that was
 * just added. NULL: no entry is free. */
static struct mpib_snap_request *add_request(struct mpib_snapshot *snap)
{
	struct mpib_snap_request *out;

	if (snap->requests == MPIB_SNAP_REQUESTS) {
		snap->more_requests++;
		return NULL;
	}
	out = &snap->request[snap->requests++];
	/* add_conn() has just added the connection. */
	*out = (struct mpib_snap_request){ .conn = snap->conns - 1 };
	return out;
}

/* Add a send for which the client has no free request. Only the client knows of
 * this send. Trust the client, because only tools use the result. */
static void add_refused(const struct engine_conn *f, uint64_t older_ns,
			struct mpib_snapshot *snap)
{
	/* Relaxed: no other data depends on this value. */
	uint64_t since = atomic_load_explicit(
		&f->client->submit->refused[f->index], memory_order_relaxed);
	struct mpib_snap_request *out;

	if (!since || since > f->shard->now || f->shard->now - since < older_ns)
		return;
	out = add_request(snap);
	if (!out)
		return;
	out->last = MPIB_LAST_REFUSED;
	out->age_ns = f->shard->now - since;
}

void mpib_stuck_add(const struct engine_conn *f, uint64_t older_ns,
		    struct mpib_snapshot *snap)
{
	if (f->is_sender)
		add_refused(f, older_ns, snap);
	for (unsigned i = 0; f->outstanding && i < MPIB_REQUESTS; i++) {
		const struct engine_request *r = &f->req[i];
		uint64_t age = f->shard->now - r->since;
		struct mpib_snap_request *out;

		if (!r->active || age < older_ns)
			continue;
		out = add_request(snap);
		if (!out)
			continue;
		out->age_ns = age;
		out->bytes = r->total;
		out->done = r->done;
		if (f->is_sender)
			look_at_send(f, i, out);
		else
			look_at_receive(f, i, out);
	}
}
