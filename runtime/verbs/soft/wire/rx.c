/* SPDX-License-Identifier: Apache-2.0 */
/* The responder: checks the permissions of a request, finds the destination of
 * its payload, and chooses the answer. Used by soft_stream.c for sockets, and
 * by pairs.c. */
#include "verbs/soft/wire/rc.h"

#include <errno.h>

#include "verbs/soft/cq.h"
#include "verbs/soft/ctx.h"
#include "verbs/soft/mr.h"
#include "verbs/soft/qp.h"
#include "verbs/soft/wire/soft_conn.h"
#include "verbs/soft/wire/soft_wire.h"

/*
 * A program that gets a small message often answers immediately with a message.
 * The answer carries the ack for free, and should not wait behind a separate
 * ACK. So the ack of one small message waits a few turns for an answer. After a
 * second unacked request, an ACK is sent immediately, because a peer that
 * streams needs the ACK to free its send queue.
 */
#define ACK_TURNS 8

bool soft_ack_waits(struct soft_qp *qp)
{
	struct soft_ctx *ctx = qp->ctx;

	/* Relaxed: a thread that goes to sleep makes one more turn after it has
	 * incremented `sleepers`. */
	return qp->rx_msn != qp->ack_sent && ctx->turn < qp->ack_by &&
	       !atomic_load_explicit(&ctx->sleepers, memory_order_relaxed);
}

uint32_t soft_rx_payload(const struct soft_hdr *h)
{
	return h->op == SOFT_OP_READ ? 0 : h->len;
}

static void rx_die(struct soft_qp *qp, enum soft_nak nak)
{
	qp->place = SOFT_PLACE_DROP;
	qp->nak = (uint8_t)nak;
	qp->dying = true;
	/* If the NAK cannot be sent before this time, on this or another
	 * connection, soft_dial() moves qp to ERR. */
	if (!qp->refusal)
		qp->die_at = mpib_now_ns() + 2000 * SOFT_MS;
	soft_timer_update(qp);
	qp->refusal = qp->nak;
	qp->refused = qp->rx.msn;
	/* Allow a send: qp no longer reads, so only a send can show that the
	 * connection broke. */
	if (qp->conn)
		qp->conn->tx_blocked = false;
	soft_conn_work(qp);
}

/* Refuse the request in qp->rx: raise the event and send a NAK. */
static void rx_refuse(struct soft_qp *qp, enum soft_nak nak,
		      enum ibv_event_type event)
{
	soft_event(qp->ctx, &qp->ev, event);
	rx_die(qp, nak);
}

/* Refuse the request because its receive was too short or invalid, and complete
 * the receive with error `st`. */
static void refuse_recv(struct soft_qp *qp, enum ibv_wc_status st,
			enum soft_nak nak)
{
	soft_cq_recv(qp, st);
	qp->has_recv = false;
	rx_die(qp, nak);
}

/* Check that the QP allows this access. False: the QP does not allow the
 * access, and the request was refused. */
static bool rx_permits(struct soft_qp *qp, unsigned access)
{
	if (qp->attr.qp_access_flags & access)
		return true;
	rx_refuse(qp, SOFT_NAK_INVALID, IBV_EVENT_QP_REQ_ERR);
	return false;
}

/* Check that another answer may be queued. False: too many answers are pending,
 * and the request was refused. */
static bool may_answer(struct soft_qp *qp)
{
	if (qp->resp_tail - qp->resp_head < qp->attr.max_dest_rd_atomic)
		return true;
	rx_refuse(qp, SOFT_NAK_INVALID, IBV_EVENT_QP_REQ_ERR);
	return false;
}

static bool has_region(struct soft_qp *qp, int access)
{
	const struct soft_hdr *h = &qp->rx;

	/* A length of 0 accesses no memory, so the rkey is not checked. */
	if (!h->len ||
	    soft_mr_remote(qp->ctx, qp->pd, h->rkey, h->addr, h->len, access))
		return true;
	rx_refuse(qp, SOFT_NAK_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
	return false;
}

static bool take_recv(struct soft_qp *qp)
{
	/* A message that was sent again may already have its receive. */
	if (qp->has_recv || soft_recv_take(qp))
		return true;
	qp->rnr = true;
	qp->place = SOFT_PLACE_DROP;
	soft_conn_work(qp);
	return false;
}

/* Begin to answer a READ. `again`: the READ was answered before, and the answer
 * was lost. */
static void begin_read(struct soft_qp *qp, bool again)
{
	qp->place = SOFT_PLACE_NONE;
	if (!rx_permits(qp, IBV_ACCESS_REMOTE_READ) || !may_answer(qp) ||
	    !has_region(qp, IBV_ACCESS_REMOTE_READ))
		return;
	qp->rx_msn += !again;
	qp->resp[qp->resp_tail++ % SOFT_MAX_RD] = qp->rx;
	soft_conn_work(qp);
}

static void begin_send(struct soft_qp *qp)
{
	uint64_t room = 0;

	if (!take_recv(qp))
		return;
	for (uint32_t i = 0; i < qp->recv_nsge; i++)
		room += qp->recv_sge[i].length;
	if (qp->rx.len > room)
		refuse_recv(qp, IBV_WC_LOC_LEN_ERR, SOFT_NAK_INVALID);
	else if (!soft_sge_valid(soft_recv_pd(qp), qp->recv_sge, qp->recv_nsge,
				 IBV_ACCESS_LOCAL_WRITE))
		refuse_recv(qp, IBV_WC_LOC_PROT_ERR, SOFT_NAK_OP);
	else
		qp->place = SOFT_PLACE_RECV;
}

/* Drop a message that is out of order, for example after an RNR: the peer will
 * send it again. If the message is a READ that was already done, answer it
 * again. */
static void begin_other(struct soft_qp *qp)
{
	if (qp->rx.op != SOFT_OP_READ)
		return;
	qp->place = SOFT_PLACE_NONE;
	if ((int32_t)(qp->rx.msn - qp->rx_msn) < 0 && !qp->dying)
		begin_read(qp, true);
}

void soft_rx_begin(struct soft_qp *qp)
{
	qp->rx_off = 0;
	qp->place = SOFT_PLACE_DROP;
	if (qp->refusal && qp->rx.msn == qp->refused) {
		/* The connection broke before the NAK was sent. */
		rx_die(qp, (enum soft_nak)qp->refusal);
		return;
	}
	if (qp->rx.msn != qp->rx_msn || qp->rnr || qp->dying) {
		begin_other(qp);
		return;
	}
	if (qp->rx.len > qp->ctx->limits.max_msg_sz) {
		rx_refuse(qp, SOFT_NAK_INVALID, IBV_EVENT_QP_REQ_ERR);
		return;
	}
	switch ((enum soft_wire_op)qp->rx.op) {
	case SOFT_OP_READ:
		begin_read(qp, false);
		break;
	case SOFT_OP_SEND:
	case SOFT_OP_SEND_IMM:
		begin_send(qp);
		break;
	case SOFT_OP_WRITE:
	case SOFT_OP_WRITE_IMM:
		if (!rx_permits(qp, IBV_ACCESS_REMOTE_WRITE) ||
		    !has_region(qp, IBV_ACCESS_REMOTE_WRITE))
			break;
		if (qp->rx.op == SOFT_OP_WRITE_IMM && !take_recv(qp))
			break;
		qp->place = SOFT_PLACE_RKEY;
		break;
	case SOFT_OP_ACK:
	case SOFT_OP_NAK:
	case SOFT_OP_RNR:
	case SOFT_OP_BYE:
	case SOFT_OP_READ_RESP:
	case SOFT_OP_MORE:
		break;
	}
}

static int rkey_iov(struct soft_qp *qp, struct iovec *iov)
{
	const struct soft_hdr *h = &qp->rx;
	uint32_t left = h->len - qp->rx_off;

	if (!left)
		return 0;
	iov->iov_len = left;
	iov->iov_base =
		soft_mr_remote(qp->ctx, qp->pd, h->rkey, h->addr + qp->rx_off,
			       left, IBV_ACCESS_REMOTE_WRITE);
	return iov->iov_base ? 1 : -EACCES;
}

int soft_rx_iov(struct soft_qp *qp, struct iovec *iov, int max)
{
	uint32_t left = qp->rx.len - qp->rx_off;

	switch (qp->place) {
	case SOFT_PLACE_RKEY:
		return rkey_iov(qp, iov);
	case SOFT_PLACE_RECV:
		return soft_sge_iov(soft_recv_pd(qp), qp->recv_sge,
				    qp->recv_nsge, qp->rx_off, left,
				    IBV_ACCESS_LOCAL_WRITE, iov, max);
	case SOFT_PLACE_READ:
		return soft_tx_iov(qp, qp->sq_base + qp->rx.msn, qp->rx_off,
				   left, iov, max);
	case SOFT_PLACE_DROP:
		iov->iov_base = NULL;
		iov->iov_len = left;
		return left ? 1 : 0;
	case SOFT_PLACE_NONE:
		break;
	}
	return 0;
}

void soft_rx_end(struct soft_qp *qp)
{
	enum soft_place place = qp->place;

	qp->place = SOFT_PLACE_NONE;
	if (place == SOFT_PLACE_READ) {
		soft_tx_read_done(qp, qp->sq_base + qp->rx.msn);
		return;
	}
	if (place != SOFT_PLACE_RKEY && place != SOFT_PLACE_RECV)
		return;
	if (qp->has_recv) {
		soft_cq_recv(qp, IBV_WC_SUCCESS);
		qp->has_recv = false;
	}
	qp->ack_by = 0;
	if (qp->rx_msn == qp->ack_sent && qp->rx.len <= SOFT_SMALL)
		qp->ack_by = qp->ctx->turn + ACK_TURNS;
	qp->rx_msn++;
	soft_conn_work(qp);
}

void soft_rx_unplug(struct soft_qp *qp)
{
	qp->place = SOFT_PLACE_NONE;
	qp->rnr = false;
	qp->nak = 0;
	qp->dying = false;
	qp->resp_head = qp->resp_tail;
	qp->resp_off = 0;
}

void soft_rx_abort(struct soft_qp *qp)
{
	if (qp->place == SOFT_PLACE_READ)
		soft_tx_fail(qp, IBV_WC_LOC_PROT_ERR);
	else if (qp->place == SOFT_PLACE_RECV)
		refuse_recv(qp, IBV_WC_LOC_PROT_ERR, SOFT_NAK_OP);
	else if (qp->place == SOFT_PLACE_RKEY)
		rx_refuse(qp, SOFT_NAK_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
}
