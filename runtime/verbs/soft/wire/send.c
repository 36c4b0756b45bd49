/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A socket's bytes out: prepares one sendmsg of what gather.c has gathered, and
 * afterwards accounts for the bytes that have left.
 */
#include "verbs/soft/wire/conn.h"

#include <errno.h>

#include "verbs/soft/cq.h"
#include "verbs/soft/ctx.h"
#include "verbs/soft/event.h"
#include "verbs/soft/qp.h"
#include "verbs/soft/wire/rc.h"
#include "verbs/soft/wire/wire.h"

#define RATE_CREDIT (25 * SOFT_MS)
#define STOPPED_NS (100 * SOFT_MS)

static size_t byte_limit(struct soft_ctx *ctx)
{
	uint64_t rate = ctx->fault.rate_bytes_per_s;

	if (!rate)
		return ctx->most;
	/* The bytes of about one millisecond. */
	return rate / 1000 < 4096 ? 4096 : rate / 1000;
}

/*
 * The memory that item it is sent from may no longer be read. A request fails when
 * all requests before it are done; if they are, the QP ends with its last words. A
 * partly sent segment cannot be taken back, so else end the connection: the next
 * one deals with the request, and a repeated READ is refused.
 */
static void source_gone(struct soft_qp *qp, const struct soft_item *it)
{
	struct soft_conn *conn = qp->conn;

	if (it->kind == SOFT_ITEM_WQE)
		soft_swqe(qp, it->idx)->status = IBV_WC_LOC_PROT_ERR;
	if (!conn->has_cur)
		soft_tx_complete(qp);
	if (qp->conn)
		soft_conn_lost(conn);
}

bool soft_stream_tx_prep(struct soft_conn *conn, struct soft_op *op)
{
	int n;

	op->conn = conn;
	op->tx = true;
	op->nitems = 0;
	if (conn->state != SOFT_CONN_UP)
		return false;
	n = soft_stream_gather(conn, op, byte_limit(conn->ctx));
	if (n < 0) {
		source_gone(conn->qp, &op->items[op->nitems - 1]);
		return false;
	}
	/* Nothing gathered: fail a WQE that cannot be sent, if all before it
	 * are done. */
	if (!n)
		soft_tx_complete(conn->qp);
	return n;
}

/* A segment has left whole. False: that has parted the QP from conn. */
static bool send_commit(struct soft_conn *conn, const struct soft_item *it)
{
	struct soft_qp *qp = conn->qp;

	qp->ack_sent = it->ack;
	switch (it->kind) {
	case SOFT_ITEM_RESP:
		qp->resp_off = it->off + it->len;
		if (qp->resp_off == qp->resp[it->idx % SOFT_MAX_RD].len) {
			qp->resp_off = 0;
			qp->resp_head++;
		}
		break;
	case SOFT_ITEM_WQE:
		if (!conn->cur_stale)
			soft_tx_sent(qp, it->idx, it->off + it->len);
		conn->cur_stale = false;
		break;
	case SOFT_ITEM_CTL:
		if (it->op == SOFT_OP_RNR)
			qp->rnr = false;
		if (it->op == SOFT_OP_NAK)
			soft_qp_error(qp);
		break;
	}
	return conn->qp == qp;
}

static void send_account(struct soft_conn *conn, struct soft_op *op)
{
	size_t n = (size_t)op->res;
	size_t off = conn->has_cur ? conn->cur_off : 0;

	conn->has_cur = false;
	for (unsigned i = 0; i < op->nitems && n; i++) {
		struct soft_item *it = &op->items[i];
		size_t left = SOFT_HDR_LEN + (size_t)it->len - off;

		if (n < left) {
			conn->cur = *it;
			conn->cur_off = (uint32_t)(off + n);
			conn->has_cur = true;
			return;
		}
		n -= left;
		off = 0;
		if (!send_commit(conn, it))
			return;
	}
}

static void send_spend(struct soft_ctx *ctx, size_t n)
{
	uint64_t now;

	if (!ctx->fault.rate_bytes_per_s)
		return;
	now = mpib_now_ns();
	/* Bytes that a thread without a CPU could not send in time are made up
	 * for, up to RATE_CREDIT: the rate limits the link, not the machine. */
	if (ctx->rate_at + RATE_CREDIT < now)
		ctx->rate_at = now - RATE_CREDIT;
	ctx->rate_at += n * 1000 * SOFT_MS / ctx->fault.rate_bytes_per_s;
}

/*
 * The socket is full, and the engine hears when it takes more; or the send came to
 * a page that is gone, or found no memory. Of these the kernel tells nobody but who
 * tries again.
 */
static void send_stopped(struct soft_conn *conn)
{
	struct soft_qp *qp = conn->qp;

	conn->tx_blocked = true;
	if (qp->send_at)
		return;
	qp->send_at = mpib_now_ns() + STOPPED_NS;
	soft_timer_update(qp);
}

/* Whether the peer has heard of all that qp has done for it. */
static bool has_told_all(const struct soft_qp *qp)
{
	const struct soft_conn *conn = qp->conn;
	bool left = conn->has_cur && conn->cur_off >= SOFT_HDR_LEN;

	return qp->rx_msn == (left ? conn->cur.ack : qp->ack_sent);
}

/* The process has unmapped memory that is still registered. Whose it is only a
 * send of one segment tells; the rest of that in last words would be made up, so
 * what is to be said yet the next connection says. */
static void source_faulted(struct soft_conn *conn, struct soft_op *op)
{
	const struct soft_item *it = &op->items[0];
	struct soft_qp *qp = conn->qp;
	bool told = has_told_all(qp);

	if (op->nitems > 1) {
		conn->singly = true;
		return;
	}
	if (it->kind == SOFT_ITEM_WQE) {
		source_gone(qp, it);
		if (told)
			soft_tx_complete(qp);
		return;
	}
	/* Repeated, the READ would find the same region and no memory. */
	if (conn->has_cur)
		soft_conn_lost(conn);
	soft_event(qp->ctx, &qp->ev, IBV_EVENT_QP_ACCESS_ERR);
	soft_qp_error(qp);
}

/* TCP says EAGAIN, too, where it finds no memory. */
static bool lacks_room(int error)
{
	return error == -EAGAIN || error == -ENOMEM || error == -ENOBUFS;
}

void soft_stream_tx_done(struct soft_conn *conn, struct soft_op *op)
{
	if (conn->state != SOFT_CONN_UP)
		return;
	if (lacks_room(op->res)) {
		send_stopped(conn);
	} else if (op->res == -EFAULT) {
		source_faulted(conn, op);
	} else if (op->res < 0 && op->res != -EINTR) {
		/* Read first what the peer has sent: after its last bytes
		 * recvmsg() reports the error, too. */
		conn->tx_blocked = true;
		conn->rx_ready = true;
	} else if (op->res > 0) {
		if ((size_t)op->res < op->asked)
			send_stopped(conn);
		conn->qp->progress++;
		send_spend(conn->ctx, (size_t)op->res);
		send_account(conn, op);
	}
}

/*
 * The state SQD (send queue drain): requests that were begun are carried to
 * their end, sent again where that is needed; those posted later wait until the
 * QP is in RTS again. Requests of the peer are served as in RTS.
 */

static uint32_t later(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) > 0 ? a : b;
}

void soft_sqd_begin(struct soft_qp *qp, bool notify)
{
	const struct soft_conn *conn = qp->conn;

	qp->sq_stop = qp->sq_top;
	if (qp->sq_off)
		qp->sq_stop = later(qp->sq_stop, qp->sq_next + 1);
	if (conn && conn->has_cur && conn->cur.kind == SOFT_ITEM_WQE)
		qp->sq_stop = later(qp->sq_stop, conn->cur.idx + 1);
	qp->sqd_notify = notify;
	soft_sqd_look(qp);
}

void soft_sqd_look(struct soft_qp *qp)
{
	if (!qp->sqd_notify || qp->sq_una != qp->sq_stop)
		return;
	qp->sqd_notify = false;
	soft_event(qp->ctx, &qp->ev, IBV_EVENT_SQ_DRAINED);
}

void soft_sqd_end(struct soft_qp *qp)
{
	qp->sqd_notify = false;
	soft_tx_start(qp);
}

bool soft_sqd_draining(struct soft_qp *qp)
{
	return qp_state(qp) == IBV_QPS_SQD && qp->sq_una != qp->sq_stop;
}
