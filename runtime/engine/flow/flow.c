/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A flow's life, of either direction, and its end.
 */
#include "engine/flow/flow.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/sure.h"
#include "engine/measure/count.h"
#include "engine/notice.h"

/* Requests fail; what is not posted is forgotten. */
static void abandon(struct mpib_flow *f, int error)
{
	/* Release: pairs with the acquire in the client's mpib_test() and
	 * mpib_isend(), which then submit nothing more. */
	atomic_store_explicit(&f->conn->broken, error, memory_order_release);
	for (unsigned i = 0; i < MPIB_REQUESTS; i++)
		mpib_flow_finish(f, i, error, NULL, 0);
	if (f->is_sender)
		mpib_sender_drop(f);
	if (f->on_intake) {
		f->on_intake = false;
		TAILQ_REMOVE(&f->shard->intake, f, intake_link);
	}
}

void mpib_flow_break(struct mpib_flow *f, int error, const char *fmt, ...)
{
	struct mpib_engine *e = f->shard->engine;
	struct mpib_notice *notice;
	va_list ap;

	if (f->broken || f->stopping)
		return;
	f->broken = error;
	abandon(f, error);

	va_start(ap, fmt);
	notice = mpib_notice_new(f, error, fmt, ap);
	va_end(ap);
	mpib_mailbox_send(&e->mailbox, &notice->msg, mpib_notice_flow);
}

static bool quiet(const struct mpib_flow *f)
{
	return !f->fencing && (!f->is_sender || mpib_sender_quiet(f));
}

/*
 * CTS are mostly unsignalled, so a last, signalled and empty write on their QP
 * tells that all of them are done. False: not now.
 */
static bool post_fence(struct mpib_flow *f, unsigned rail)
{
	struct mpib_lane_qp *q = &f->lane->qp[rail][0];
	struct ibv_send_wr wr = {
		.wr_id = mpib_wr_tag(MPIB_WR_FENCE, f->id, 0),
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};
	uint8_t bit = (uint8_t)(1u << rail);

	if (!(f->lane->open & bit)) {
		f->wrote &= (uint8_t)~bit; /* the rail itself was fenced */
		return true;
	}
	if (mpib_qp_room(q) == 0)
		return false;
	wr.wr.rdma.remote_addr = f->remote.addr;
	wr.wr.rdma.rkey = f->remote.rkey[rail];
	f->fencing |= bit;
	f->wrote &= (uint8_t)~bit;
	mpib_count_post(f, q, 1, 0, false);
	mpib_qp_post(q, &wr, 1);
	return true;
}

static bool post_fences(struct mpib_flow *f)
{
	bool all = f->is_sender || f->lane->broken || !f->lane->open ||
		   mpib_delivery_tell(f);

	for (unsigned r = 0; r < MPIB_RAILS && !f->lane->broken; r++) {
		if (f->wrote & 1u << r)
			all &= post_fence(f, r);
	}
	return all;
}

void mpib_flow_check_stopped(struct mpib_flow *f)
{
	struct mpib_call *call;

	/* Until it is through with that, a rail being fenced may still write;
	 * then we are asked again. */
	if (f->lane->fencing && !f->lane->broken)
		return;
	if (!post_fences(f)) {
		if (!f->on_cts) {
			f->on_cts = true;
			TAILQ_INSERT_TAIL(&f->shard->cts, f, cts_link);
		}
		return;
	}
	/* A broken lane's writes end with mpib_lane_kill(). */
	if (!f->lane->broken && !quiet(f))
		return;
	f->stopped = true;
	while ((call = TAILQ_FIRST(&f->stops))) {
		TAILQ_REMOVE(&f->stops, call, link);
		mpib_call_done(f->shard, call, 0);
	}
}

static void on_start(struct mpib_msg *msg)
{
	struct mpib_flow *f =
		(struct mpib_flow *)((char *)msg -
				     offsetof(struct mpib_flow, msg));
	struct mpib_shard *s = f->shard;

	s->flow[f->id] = f;
	f->attachment->flow[f->index] = f;
	f->started = true;
	f->since = s->now;
	TAILQ_INSERT_TAIL(&f->lane->flows, f, lane_link);
	f->lane->nflows++;
	if (f->is_sender)
		mpib_claim_enter(&f->claim);
	if (f->lane->broken)
		mpib_flow_break(f, -ECONNRESET, "its lane is down");
	/* The client may have pushed and set its bit before we knew the ring. */
	f->on_intake = !f->broken;
	if (f->on_intake)
		TAILQ_INSERT_TAIL(&s->intake, f, intake_link);
}

static void on_stop(struct mpib_msg *msg)
{
	struct mpib_call *call = (struct mpib_call *)msg;
	struct mpib_flow *f = call->what;

	if (!f->started) {
		mpib_call_done(f->shard, call, 0);
		return;
	}
	TAILQ_INSERT_TAIL(&f->stops, call, link);
	if (!f->stopping) {
		mpib_cq_drain(f->shard); /* what has arrived counts */
		if (f->is_sender && f->lane->delivered)
			mpib_delivery_look(f);
		f->stopping = true;
		abandon(f, f->broken ? f->broken : call->status);
	}
	mpib_flow_check_stopped(f);
}

static void on_destroy(struct mpib_msg *msg)
{
	struct mpib_call *call = (struct mpib_call *)msg;
	struct mpib_flow *f = call->what;
	struct mpib_shard *s = f->shard;

	if (f->started) {
		s->flow[f->id] = NULL;
		f->attachment->flow[f->index] = NULL;
		TAILQ_REMOVE(&f->lane->flows, f, lane_link);
		f->lane->nflows--;
		for (unsigned r = 0; r < MPIB_RAILS; r++)
			mpib_rail_counts_add(&f->attachment->closed[r],
					     &f->n[r]);
		f->attachment->closed_messages += f->messages;
		if (f->is_sender) {
			mpib_claim_leave(&f->claim);
			mpib_sender_forget(f);
		} else {
			mpib_receiver_drop(f);
		}
		if (f->on_cts)
			TAILQ_REMOVE(&s->cts, f, cts_link);
		mpib_delivery_leave(f);
	}
	mpib_call_done(s, call, 0);
}

static bool take_this_id(struct mpib_shard *s, uint32_t id)
{
	uint64_t bit = 1ull << id % 64;

	if (s->flow_ids[id / 64] & bit)
		return false;
	s->flow_ids[id / 64] |= bit;
	return true;
}

static uint32_t take_flow_id(struct mpib_shard *s)
{
	for (uint32_t i = 0; i < MPIB_FLOWS_MAX / 64; i++) {
		if (s->flow_ids[i] != UINT64_MAX) {
			uint32_t bit =
				(uint32_t)__builtin_ctzll(~s->flow_ids[i]);

			s->flow_ids[i] |= 1ull << bit;
			return i * 64 + bit;
		}
	}
	return MPIB_FLOWS_MAX;
}

static void give_flow_id(struct mpib_shard *s, uint32_t id)
{
	s->flow_ids[id / 64] &= ~(1ull << id % 64);
}

static void init_ring(struct mpib_flow *f)
{
	struct mpib_attachment *a = f->attachment;

	f->conn = &a->reply->conn[f->index];
	f->completion = a->reply->completion[f->index];
	/* Indices go on where the last user of this ring left them, as the
	 * client's do; the head is ours, in memory the client cannot write. */
	f->ring = (struct mpib_consumer){
		.slot = a->submit->ring[f->index],
		.head = &f->conn->head,
		.next = atomic_load_explicit(&f->conn->head,
					     memory_order_relaxed),
		.size = MPIB_RING_SLOTS,
	};
	atomic_store_explicit(&f->conn->broken, 0, memory_order_relaxed);
}

/* A receiver is a fifth of a sender, and does without the rest. */
static size_t flow_bytes(bool sender)
{
	return sender ? sizeof(struct mpib_flow)
		      : offsetof(struct mpib_flow, rx) +
				sizeof(struct mpib_receiver);
}

static int make(struct mpib_attachment *attachment, uint32_t index, bool sender,
		struct mpib_lane *lane, uint32_t id, struct mpib_flow **flow)
{
	struct mpib_shard *s = attachment->shard;
	struct mpib_flow *f = calloc(1, flow_bytes(sender));
	int rc;

	if (!f)
		return -ENOMEM;
	rc = mpib_tables_get(attachment->tenant, &f->tables);
	if (rc < 0)
		goto err_free;
	f->id = id;
	f->shard = s;
	f->attachment = attachment;
	f->lane = lane;
	f->index = index;
	f->is_sender = sender;
	f->local_rank = f->remote_rank = -1;
	f->home = mpib_policy_home(lane);
	f->hint_slot = UINT32_MAX;
	mpib_claim_init(&f->claim, &attachment->claim);
	TAILQ_INIT(&f->stops);
	s->flows_made++;
	mpib_times_watch(f);
	*flow = f;
	return 0;

err_free:
	free(f);
	return rc;
}

int mpib_flow_create(struct mpib_attachment *attachment, uint32_t index,
		     bool sender, struct mpib_lane *lane,
		     struct mpib_flow **flow)
{
	uint32_t id = take_flow_id(attachment->shard);
	int rc = id == MPIB_FLOWS_MAX
			 ? -ENOSPC
			 : make(attachment, index, sender, lane, id, flow);

	if (rc < 0 && id != MPIB_FLOWS_MAX)
		give_flow_id(attachment->shard, id);
	return rc;
}

int mpib_flow_restore(struct mpib_attachment *attachment, uint32_t index,
		      bool sender, struct mpib_lane *lane, uint32_t id,
		      const struct mpib_flow_info *remote,
		      struct mpib_flow **flow)
{
	int rc = take_this_id(attachment->shard, id)
			 ? make(attachment, index, sender, lane, id, flow)
			 : -EEXIST;

	if (rc < 0)
		return rc;
	(*flow)->remote = *remote;
	init_ring(*flow);
	on_start(&(*flow)->msg);
	return 0;
}

void mpib_flow_local(const struct mpib_flow *flow, struct mpib_flow_info *info)
{
	*info = (struct mpib_flow_info){
		.id = flow->id,
		.rkey = { flow->tables.rkey[0], flow->tables.rkey[1] },
		.addr = (uint64_t)(uintptr_t)flow->tables.in,
	};
}

void mpib_flow_set_hint(struct mpib_flow *flow, uint32_t slot)
{
	/* Relaxed: read alone, see policy.c. */
	atomic_store_explicit(&flow->hint_slot, slot, memory_order_relaxed);
}

void mpib_flow_share(struct mpib_flow *flow, uint32_t weight, uint64_t rate)
{
	mpib_claim_set(&flow->claim, weight, rate);
}

void mpib_flow_start(struct mpib_flow *flow,
		     const struct mpib_flow_info *remote)
{
	flow->remote = *remote;
	init_ring(flow);
	mpib_mailbox_send(&flow->shard->mailbox, &flow->msg, on_start);
}

void mpib_flow_stop(struct mpib_flow *flow, int error, mpib_done_fn *done,
		    void *arg)
{
	struct mpib_call *call = mpib_call_new(flow, done, arg);

	call->status = error;
	mpib_mailbox_send(&flow->shard->mailbox, &call->msg, on_stop);
}

struct destroy {
	struct mpib_flow *flow;
	mpib_done_fn *done;
	void *arg;
};

static void destroyed(void *arg, int status)
{
	struct destroy *d = arg;
	struct mpib_shard *s = d->flow->shard;

	mpib_times_close(d->flow);
	mpib_tables_put(d->flow->attachment->tenant, &d->flow->tables);
	give_flow_id(s, d->flow->id);
	s->flows_made--;
	free(d->flow);
	d->done(d->arg, status);
	free(d);
}

void mpib_flow_destroy(struct mpib_flow *flow, mpib_done_fn *done, void *arg)
{
	struct destroy *d = mpib_sure_alloc(sizeof(*d));
	struct mpib_call *call;

	*d = (struct destroy){ flow, done, arg };
	call = mpib_call_new(flow, destroyed, d);
	mpib_mailbox_send(&flow->shard->mailbox, &call->msg, on_destroy);
}
