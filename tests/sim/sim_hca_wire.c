/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulate the transport between two QPs. A request arrives at the peer and is
 * handled there in one step. The acknowledgement arrives later. Requests of one
 * QP stay in order. If the path is cut, or if the other end has no QP, the
 * request is repeated until the QP's retries are used up.
 */
#include <stdlib.h>
#include <string.h>

#include "sim_hca.h"

#define LATENCY (2 * SIM_US)
#define BYTES_PER_S 20000000000ull
#define RETRY_PARTS 8

static void on_arrive(void *arg);
static void on_ack(void *arg);

void sim_wqe_end(struct sim_qp *qp, enum ibv_wc_status status)
{
	struct sim_wqe *w = &qp->sq[qp->sq_una++ % qp->sq_room];
	struct ibv_wc wc = { .wr_id = w->id,
			     .status = status,
			     .opcode = sim_wc_op(w->op),
			     .byte_len = w->len,
			     .qp_num = qp->ibv.qp_num };

	free(w->copied);
	w->copied = NULL;
	if ((int32_t)(qp->sq_next - qp->sq_una) < 0)
		qp->sq_next = qp->sq_una;
	if (status != IBV_WC_SUCCESS) {
		/* The other fields of a failed completion are undefined, so set
		 * them to wrong values. */
		wc.opcode = (enum ibv_wc_opcode)0x5a;
		wc.byte_len = 0xdeadbeef;
		wc.imm_data = 0xa5a5a5a5;
	}
	if (status != IBV_WC_SUCCESS || w->flags & IBV_SEND_SIGNALED)
		sim_cq_push(qp->ibv.send_cq, qp, &wc, true, qp->sq_una, false);
}

static void fail(struct sim_qp *qp, enum ibv_wc_status status)
{
	sim_wqe_end(qp, status);
	sim_qp_error(qp);
}

static bool path_open(const struct sim_qp *qp)
{
	const uint8_t *gid = qp->attr.ah_attr.grh.dgid.raw;

	return sim_device_open(qp->ctx->device) &&
	       sim_device_open(sim_device(gid[15] - 1u, gid[13] - 100u));
}

/* Return the QP at the other end, or NULL if that QP cannot be reached or is
 * not connected to this QP. */
static struct sim_qp *reach(const struct sim_qp *qp)
{
	struct sim_qp *to = sim_qp_find(qp->attr.dest_qp_num);
	const uint8_t *gid = qp->attr.ah_attr.grh.dgid.raw;

	if (!to || to->ctx->dead ||
	    (to->ibv.state != IBV_QPS_RTR && to->ibv.state != IBV_QPS_RTS))
		return NULL;
	if (to->attr.dest_qp_num != qp->ibv.qp_num ||
	    to->attr.rq_psn != qp->attr.sq_psn ||
	    gid[15] != to->ctx->device->node + 1 ||
	    gid[13] != 100 + to->ctx->device->rail)
		return NULL;
	return path_open(qp) ? to : NULL;
}

static uint64_t patience(const struct sim_qp *qp)
{
	if (!qp->attr.timeout)
		return SIM_NEVER / 2;
	return (4096ull << qp->attr.timeout) * (qp->attr.retry_cnt + 1u);
}

/* Retry a request that got no answer. If the retries are used up, fail the QP
 * and return false. */
static bool try_again(struct sim_qp *qp, struct sim_event *e, sim_event_fn *fn)
{
	uint64_t most = patience(qp), since;

	if (!qp->stuck_since)
		qp->stuck_since = sim_now;
	since = sim_now - qp->stuck_since;
	if (since >= most) {
		fail(qp, IBV_WC_RETRY_EXC_ERR);
		return false;
	}
	most = most / RETRY_PARTS < most - since ? most / RETRY_PARTS
						 : most - since;
	sim_event_arm(e, sim_now + most, fn, qp);
	return true;
}

/* If `in` is true, copy from `bytes` to the memory of the SGE list. Otherwise
 * copy from this memory to `bytes`. Return false if an SGE is not in a region
 * that allows the access. */
static bool pieces(struct sim_ctx *ctx, struct ibv_pd *pd,
		   const struct ibv_sge *sge, int n, uint8_t *bytes, size_t len,
		   bool in)
{
	int access = in ? IBV_ACCESS_LOCAL_WRITE : 0;

	for (int i = 0; i < n; i++) {
		size_t part = sge[i].length < len ? sge[i].length : len;
		uint8_t *at;

		if (!sge[i].length)
			continue;
		at = sim_mr_at(ctx, pd, sge[i].lkey, sge[i].addr, sge[i].length,
			       access);
		if (!at)
			return false;
		if (part && in)
			memmove(at, bytes, part);
		else if (part)
			memmove(bytes, at, part);
		bytes += part;
		len -= part;
	}
	return true;
}

static bool gather(struct sim_qp *qp, const struct sim_wqe *w, uint8_t *bytes)
{
	if (w->copied) {
		memcpy(bytes, w->copied, w->len);
		return true;
	}
	return pieces(qp->ctx, qp->ibv.pd, w->sge, w->sges, bytes, w->len,
		      false);
}

static void refuse(struct sim_qp *to, enum ibv_event_type event)
{
	sim_qp_error(to);
	sim_hca_note(to->ctx, event, &to->ibv);
}

/* Set *`at` to the peer's memory that request `w` addresses, or return an
 * error. */
static enum ibv_wc_status remote(const struct sim_wqe *w, struct sim_qp *to,
				 uint8_t **at)
{
	int access = w->op == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_READ
					       : IBV_ACCESS_REMOTE_WRITE;

	*at = NULL;
	if (!w->len || w->op == IBV_WR_SEND || w->op == IBV_WR_SEND_WITH_IMM)
		return IBV_WC_SUCCESS;
	if (!(to->attr.qp_access_flags & (unsigned)access)) {
		refuse(to, IBV_EVENT_QP_REQ_ERR);
		return IBV_WC_REM_INV_REQ_ERR;
	}
	*at = sim_mr_at(to->ctx, to->ibv.pd, w->rkey, w->raddr, w->len, access);
	if (!*at) {
		refuse(to, IBV_EVENT_QP_ACCESS_ERR);
		return IBV_WC_REM_ACCESS_ERR;
	}
	return IBV_WC_SUCCESS;
}

static bool takes_receive(const struct sim_wqe *w)
{
	return w->op != IBV_WR_RDMA_WRITE && w->op != IBV_WR_RDMA_READ;
}

/* Complete the peer's next receive with the message of request `w`. */
static enum ibv_wc_status complete(const struct sim_wqe *w, struct sim_qp *to,
				   uint8_t *bytes)
{
	struct sim_rwqe *r = sim_recv_next(to);
	bool write = w->op == IBV_WR_RDMA_WRITE_WITH_IMM;
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	struct ibv_pd *pd = to->ibv.srq ? to->ibv.srq->pd : to->ibv.pd;
	uint64_t room = 0;
	struct ibv_wc wc = { .wr_id = r->id,
			     .opcode = write ? IBV_WC_RECV_RDMA_WITH_IMM
					     : IBV_WC_RECV,
			     .byte_len = w->len,
			     .imm_data = w->imm,
			     .qp_num = to->ibv.qp_num };

	if (w->op != IBV_WR_SEND)
		wc.wc_flags = IBV_WC_WITH_IMM;
	for (int i = 0; i < r->sges; i++)
		room += r->sge[i].length;
	if (!write && room < w->len) {
		wc.status = IBV_WC_LOC_LEN_ERR;
		status = IBV_WC_REM_INV_REQ_ERR;
	} else if (!write &&
		   !pieces(to->ctx, pd, r->sge, r->sges, bytes, w->len, true)) {
		wc.status = IBV_WC_LOC_PROT_ERR;
		status = IBV_WC_REM_OP_ERR;
	}
	sim_recv_taken(to);
	sim_cq_push(to->ibv.recv_cq, to, &wc, false, 0,
		    w->flags & IBV_SEND_SOLICITED);
	if (status != IBV_WC_SUCCESS)
		sim_qp_error(to);
	return status;
}

static bool forgotten(const struct sim_wqe *w, struct sim_qp *to)
{
	if (!to->ctx->device->forgets || w->op == IBV_WR_RDMA_READ)
		return false;
	to->ctx->device->forgotten++;
	return true;
}

/* Execute request `w` at the peer, or refuse it. */
static enum ibv_wc_status carry_out(struct sim_qp *qp, const struct sim_wqe *w,
				    struct sim_qp *to)
{
	enum ibv_wc_status status;
	uint8_t *at, *bytes;

	if (forgotten(w, to))
		return IBV_WC_SUCCESS;
	bytes = malloc(w->len + 1u);
	if (!bytes)
		abort();
	status = remote(w, to, &at);
	if (status == IBV_WC_SUCCESS && w->op == IBV_WR_RDMA_READ) {
		sim_posted_push(to->ctx->device);
		if (at)
			memcpy(bytes, at, w->len);
		if (!pieces(qp->ctx, qp->ibv.pd, w->sge, w->sges, bytes, w->len,
			    true))
			status = IBV_WC_LOC_PROT_ERR;
	} else if (status == IBV_WC_SUCCESS) {
		if (!gather(qp, w, bytes))
			status = IBV_WC_LOC_PROT_ERR;
		else if (at)
			sim_mr_write(to->ctx, w->rkey, at, bytes, w->len);
		if (status == IBV_WC_SUCCESS && takes_receive(w))
			status = complete(w, to, bytes);
	}
	free(bytes);
	return status;
}

/* Write a part of the message to the peer's memory, as if some of its packets
 * had arrived before the path was cut. */
static void tear(struct sim_qp *qp, struct sim_wqe *w)
{
	struct sim_qp *to = sim_qp_find(qp->attr.dest_qp_num);
	uint8_t *at, *bytes;

	if (w->torn || w->len < 2 || w->op == IBV_WR_RDMA_READ || !to ||
	    to->ctx->dead || to->ibv.state != IBV_QPS_RTS ||
	    to->attr.dest_qp_num != qp->ibv.qp_num || sim_hca_draw(2))
		return;
	w->torn = true;
	at = sim_mr_at(to->ctx, to->ibv.pd, w->rkey, w->raddr, w->len,
		       IBV_ACCESS_REMOTE_WRITE);
	bytes = malloc(w->len);
	if (!bytes)
		abort();
	if (at && gather(qp, w, bytes))
		sim_mr_write(to->ctx, w->rkey, at, bytes, sim_hca_draw(w->len));
	free(bytes);
}

static uint64_t latency(const struct sim_qp *qp)
{
	const struct sim_device *d = qp->ctx->device;
	uint64_t ns = LATENCY / 2 + sim_hca_draw(LATENCY);

	if (sim_now < d->lag_until)
		ns += sim_hca_draw(d->lag);
	return ns + d->delay;
}

static uint64_t lasts(const struct sim_qp *qp, uint32_t len)
{
	const struct sim_device *d = qp->ctx->device;

	return len * SIM_S / (d->rate ? d->rate : BYTES_PER_S);
}

static void arm_arrive(struct sim_qp *qp)
{
	struct sim_wqe *w = &qp->sq[qp->sq_next % qp->sq_room];
	uint64_t at = sim_now + latency(qp) + lasts(qp, w->len);

	if (qp->sq_next == qp->sq_tail || qp->halted || qp->arrive.place)
		return;
	if (at < qp->stands_until)
		at = qp->stands_until;
	if (at < qp->last_arrive)
		at = qp->last_arrive;
	qp->last_arrive = at;
	sim_event_arm(&qp->arrive, at, on_arrive, qp);
}

void sim_wire_start(struct sim_qp *qp)
{
	arm_arrive(qp);
}

/* Retry a message for which the peer has no receive. */
static void not_ready(struct sim_qp *qp, const struct sim_qp *to)
{
	unsigned timer = to->attr.min_rnr_timer;

	if (qp->attr.rnr_retry < 7 && qp->rnr_tries++ >= qp->attr.rnr_retry) {
		/* Acknowledge earlier messages first. */
		while (qp->sq_una != qp->sq_next)
			sim_wqe_end(qp, IBV_WC_SUCCESS);
		fail(qp, IBV_WC_RNR_RETRY_EXC_ERR);
		return;
	}
	sim_event_arm(&qp->arrive,
		      sim_now +
			      (timer ? 10 * SIM_US << timer / 2 : 655 * SIM_MS),
		      on_arrive, qp);
}

static void arm_ack(struct sim_qp *qp)
{
	const struct sim_wqe *w = &qp->sq[qp->sq_una % qp->sq_room];

	if (qp->sq_una != qp->sq_next && !qp->ack.place)
		sim_event_arm(&qp->ack, w->acked, on_ack, qp);
}

static void on_arrive(void *arg)
{
	struct sim_qp *qp = arg, *to = reach(qp);
	struct sim_wqe *w = &qp->sq[qp->sq_next % qp->sq_room];

	if (qp->sq_next == qp->sq_tail ||
	    (to && sim_stands_still(to->ctx, &qp->arrive, on_arrive, qp)))
		return;
	if (!to || to->taken != qp->sent) {
		tear(qp, w);
		try_again(qp, &qp->arrive, on_arrive);
		return;
	}
	if (w->status == IBV_WC_SUCCESS && takes_receive(w) &&
	    !to->ctx->device->forgets && !sim_recv_next(to)) {
		not_ready(qp, to);
		return;
	}
	qp->rnr_tries = 0;
	if (!to->established && to->ibv.state == IBV_QPS_RTR)
		sim_hca_note(to->ctx, IBV_EVENT_COMM_EST, &to->ibv);
	to->established = true;
	if (w->status == IBV_WC_SUCCESS)
		w->status = carry_out(qp, w, to);
	to->taken++;
	qp->sent++;
	qp->halted = w->status != IBV_WC_SUCCESS;
	w->acked = sim_now + latency(qp);
	if (w->acked < qp->last_ack)
		w->acked = qp->last_ack;
	qp->last_ack = w->acked;
	qp->sq_next++;
	arm_ack(qp);
	arm_arrive(qp);
}

static void on_ack(void *arg)
{
	struct sim_qp *qp = arg;
	struct sim_wqe *w = &qp->sq[qp->sq_una % qp->sq_room];

	if (sim_stands_still(qp->ctx, &qp->ack, on_ack, qp))
		return;
	/* Either the request failed at this end, or the peer refused it. In the
	 * second case, the peer's QP has failed, too. */
	if (w->status != IBV_WC_SUCCESS) {
		fail(qp, w->status);
		return;
	}
	/* If the acknowledgement was lost, request it again. Only a peer that
	 * still exists can send the acknowledgement. */
	if (qp->ack_lost ? !reach(qp) : !path_open(qp)) {
		qp->ack_lost = true;
		try_again(qp, &qp->ack, on_ack);
		return;
	}
	qp->stuck_since = 0;
	qp->ack_lost = false;
	sim_wqe_end(qp, IBV_WC_SUCCESS);
	arm_ack(qp);
}
