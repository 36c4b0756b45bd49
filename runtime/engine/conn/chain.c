/* SPDX-License-Identifier: Apache-2.0 */
/* The chain of WRs that one rail carries for a send op: whether it fits now,
 * its record and IMM, and how it is spread over several QPs. Shard thread. */
#include "engine/conn/chain.h"

#include "engine/lane/spread.h"

/* Return whether rail r has room for the chain. On a dqplb lane
 * mpib_chain_is_bare() may find only at posting that the chain must be spread,
 * so check both the virtual QP and the single QP. */
static bool send_op_room(struct engine_conn *f, unsigned r, uint8_t spread,
			 unsigned wrs)
{
	if ((f->lane->numbered | spread) &&
	    ((f->lane->numbered && f->lane->via[r].vqp) ||
	     spread & mpib_rail_bit(r))) {
		/* A spread chain is first built in the shard's WRs. */
		if (mpib_spread_room(f->lane, r) < MPIB_CHAIN_MAX ||
		    f->shard->wrs.left < 2 * MPIB_WR_SPARE)
			return false;
		if (spread & mpib_rail_bit(r))
			return true;
	}
	return mpib_qp_room(engine_conn_qp(f, r, f->tx.cts_next)) >= wrs;
}

/* Return whether the rail's window, or the rest of it, is reserved for
 * others. */
static bool has_no_window(struct engine_conn *f, unsigned rail, uint32_t bytes)
{
	struct mpib_shard *s = f->shard;
	uint8_t bit = mpib_rail_bit(rail);

	if (!(s->full & bit) && mpib_window_full(s, rail))
		s->full |= bit;
	return s->full & bit && !mpib_window_passes(f->lane, rail, bytes);
}

bool mpib_chain_in_turn(struct engine_conn *f, unsigned rail, uint32_t bytes)
{
	if (has_no_window(f, rail, bytes))
		f->stopped_by = MPIB_DRR_WINDOW_FULL;
	else if (f->lane->full_turn == f->shard->n.turns)
		f->stopped_by = MPIB_DRR_BLOCKED;
	if (f->stopped_by == MPIB_DRR_NONE)
		return true;
	mpib_stall(f, MPIB_STALL_SHARE);
	return false;
}

/* The lane is full: keep this connection's turn, and reserve the lane's next
 * room against connections that come later in this turn. */
static void keep_turn(struct engine_conn *f)
{
	f->stopped_by = MPIB_DRR_BLOCKED;
	f->lane->full_turn = f->shard->n.turns;
}

bool mpib_chain_room(struct engine_conn *f, unsigned r, uint8_t spread,
		     unsigned wrs, uint32_t bytes)
{
	if (!send_op_room(f, r, spread, wrs)) {
		keep_turn(f);
		mpib_stall(f, MPIB_STALL_SQ);
		return false;
	}
	if (!mpib_chain_window(f, r, bytes)) {
		keep_turn(f);
		mpib_stall(f, MPIB_STALL_WINDOW);
		return false;
	}
	return true;
}

struct mpib_wr *mpib_chain_record(struct engine_conn *f, unsigned rail,
				  const struct mpib_record *record)
{
	struct mpib_wr *w = mpib_wr_take(&f->shard->wrs);

	w->wr.opcode = IBV_WR_RDMA_WRITE;
	w->wr.send_flags = 0;
	w->wr.wr.rdma.remote_addr = f->remote.addr;
	w->wr.wr.rdma.rkey = f->remote.rkey[rail];
	if (!record) {
		w->wr.num_sge = 0;
		return w;
	}
	w->sge[0] = (struct ibv_sge){ .addr = (uint64_t)(uintptr_t)record,
				      .length = sizeof(*record),
				      .lkey = f->tables.lkey[rail] };
	w->wr.wr.rdma.remote_addr +=
		mpib_entry_of(f, record->seq - 1) * sizeof(*record);
	if (f->shard->rail[rail].port.max_inline >= sizeof(*record))
		w->wr.send_flags = IBV_SEND_INLINE;
	return w;
}

void mpib_chain_drop(struct engine_conn *f, const struct mpib_chain *c)
{
	struct ibv_send_wr *wr = c->wrs.n ? &c->wrs.first->wr : NULL, *next;

	for (; wr; wr = next) {
		next = wr->next;
		mpib_wr_give(&f->shard->wrs, (struct mpib_wr *)wr);
	}
}

bool mpib_chain_is_bare(const struct mpib_lane *lane,
			const struct mpib_chain *c)
{
	const struct ibv_send_wr *last = &c->wrs.last->wr;

	return c->imm && lane->via[c->rail].vqp &&
	       mpib_spread_waits(last->num_sge ? last->sg_list->length : 0);
}

/* Return one WR of the chain as a virtual QP's send, which is cut into
 * fragments. */
static struct mpib_vsend chain_part(const struct ibv_send_wr *wr)
{
	struct mpib_vsend v = {
		.remote = wr->wr.rdma.remote_addr,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.devices = 1,
		.key[0].rkey = wr->wr.rdma.rkey,
		.more = true,
	};

	if (wr->num_sge) {
		v.local = wr->sg_list->addr;
		v.length = wr->sg_list->length;
		v.key[0].lkey = wr->sg_list->lkey;
	}
	return v;
}

/* End the send with the chain's IMM and its payload, the record if any. */
static void chain_tell(struct mpib_vsend *v, const struct ibv_send_wr *wr)
{
	v->more = false;
	v->imm = be32toh(wr->imm_data);
	v->control.remote = wr->wr.rdma.remote_addr;
	v->control.rkey = wr->wr.rdma.rkey;
	if (wr->num_sge) {
		v->control.local = wr->sg_list->addr;
		v->control.length = wr->sg_list->length;
		v->control.lkey = wr->sg_list->lkey;
		v->control.copied = wr->send_flags & IBV_SEND_INLINE;
	}
}

void mpib_chain_spread(struct engine_conn *f, const struct mpib_chain *c,
		       uint32_t op)
{
	struct mpib_lane_qp *q = c->q;
	const struct ibv_send_wr *wr = &c->wrs.first->wr;
	const struct ibv_send_wr *last = &c->wrs.last->wr;
	bool imm = c->imm;
	struct mpib_vqp *vqp = f->lane->via[q->rail].vqp;
	unsigned n = c->wrs.n - imm; /* WRs with payload */
	uint32_t wrs = imm;

	for (unsigned i = 0; i < n || (i == 0 && imm); i++, wr = wr->next) {
		struct mpib_vsend v = chain_part(wr);

		if (n == 0)
			/* The IMM has the payload, see chain_tell(). */
			v.length = 0;
		v.on = (uint16_t)(q - f->lane->qp[q->rail]);
		v.wr_id = mpib_wr_tag(MPIB_WR_UNSIGNALED, f->id, op);
		if (i + 1 >= n) {
			v.wr_id = mpib_wr_tag(MPIB_WR_OP, f->id, op);
			v.flags = IBV_SEND_SIGNALED;
			if (imm)
				chain_tell(&v, last);
		}
		wrs += mpib_vqp_wrs(vqp, v.length);
		/* mpib_sender_may_post() has checked mpib_spread_room(). */
		mpib_vqp_post_send(vqp, &v);
	}
	mpib_count_post(f, q, q->rail, wrs, c->bytes, imm);
	mpib_chain_drop(f, c);
}
