/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A socket's bytes out. Each turn gathers headers and payload into one
 * sendmsg: first the rest of a message that went out in part, then answers to
 * READs, then a refusal, then new requests; an ack alone if nothing carries
 * it. Only a message that was begun is remembered between turns; the others
 * are gathered anew.
 */
#include "verbs/soft/wire/conn.h"

#include <errno.h>

#include "verbs/soft/cq.h"
#include "verbs/soft/ctx.h"
#include "verbs/soft/mr.h"
#include "verbs/soft/qp.h"
#include "verbs/soft/wire/rc.h"
#include "verbs/soft/wire/wire.h"

#define RATE_CREDIT (25 * SOFT_MS)

struct gather {
	struct soft_qp *qp;
	struct soft_op *op;
	size_t niov, bytes, limit;
};

static size_t byte_limit(struct soft_ctx *ctx)
{
	uint64_t rate = ctx->fault.rate_bytes_per_s;

	if (!rate)
		return SOFT_OP_BYTES;
	/* About a millisecond's worth. */
	return rate / 1000 < 4096 ? 4096 : rate / 1000;
}

static int payload_iov(struct soft_qp *qp, const struct soft_item *it,
		       uint64_t off, uint64_t len, struct iovec *iov, int max)
{
	const struct soft_hdr *h;

	if (!len || it->kind == SOFT_ITEM_CTL)
		return 0;
	if (it->kind == SOFT_ITEM_WQE)
		return soft_tx_iov(qp, it->idx, off, len, iov, max);
	h = &qp->resp[it->idx % SOFT_MAX_RD];
	iov->iov_len = len;
	iov->iov_base = soft_mr_remote(qp->ctx, qp->pd, h->rkey, h->addr + off,
				       len, IBV_ACCESS_REMOTE_READ);
	return iov->iov_base ? 1 : -EACCES;
}

/* Add the bytes of the last item from off on; < 0: they are not ours. */
static int add_bytes(struct gather *g, size_t off)
{
	struct soft_item *it = &g->op->items[g->op->nitems - 1];
	struct iovec *iov = &g->op->iov[g->niov];
	size_t len;
	int n;

	if (off < SOFT_HDR_LEN) {
		iov->iov_base = it->hdr + off;
		iov->iov_len = SOFT_HDR_LEN - off;
		g->bytes += iov->iov_len;
		g->niov++;
		iov++;
		off = SOFT_HDR_LEN;
	}
	off -= SOFT_HDR_LEN;
	len = it->len - off;
	if (len > g->limit)
		len = g->limit;
	n = payload_iov(g->qp, it, off, len, iov, (int)(SOFT_OP_IOV - g->niov));
	for (int i = 0; i < n; i++)
		g->bytes += iov[i].iov_len;
	if (n > 0)
		g->niov += (size_t)n;
	return n;
}

static bool has_room(const struct gather *g)
{
	return g->op->nitems < SOFT_OP_ITEMS && g->niov + 2 <= SOFT_OP_IOV &&
	       g->bytes < g->limit;
}

static int add_item(struct gather *g, enum soft_item_kind kind, uint32_t idx,
		    const struct soft_hdr *h)
{
	struct soft_item *it = &g->op->items[g->op->nitems++];

	it->kind = kind;
	it->op = h->op;
	it->idx = idx;
	it->ack = h->ack;
	it->len = soft_rx_payload(h);
	soft_hdr_encode(it->hdr, h);
	return add_bytes(g, 0);
}

static int add_responses(struct gather *g)
{
	struct soft_qp *qp = g->qp;
	int rc = 0;

	for (uint32_t i =
		     qp->resp_head + (qp->conn->has_cur &&
				      qp->conn->cur.kind == SOFT_ITEM_RESP);
	     i != qp->resp_tail && has_room(g) && rc >= 0; i++) {
		const struct soft_hdr *req = &qp->resp[i % SOFT_MAX_RD];
		struct soft_hdr h = {
			.op = SOFT_OP_READ_RESP,
			.msn = req->msn,
			.len = req->len,
			.ack = qp->rx_msn,
		};

		rc = add_item(g, SOFT_ITEM_RESP, i, &h);
	}
	return rc;
}

static void add_refusal(struct gather *g)
{
	struct soft_qp *qp = g->qp;
	struct soft_hdr h = {
		.op = qp->nak ? SOFT_OP_NAK : SOFT_OP_RNR,
		.status = qp->nak ? qp->nak : qp->attr.min_rnr_timer,
		.msn = qp->rx_msn,
		.ack = qp->rx_msn,
	};

	/* Half of it may already be under way. */
	if (qp->conn->has_cur && qp->conn->cur.kind == SOFT_ITEM_CTL &&
	    qp->conn->cur.op != SOFT_OP_ACK)
		return;
	if ((qp->nak || qp->rnr) && has_room(g))
		add_item(g, SOFT_ITEM_CTL, 0, &h);
}

static int add_requests(struct gather *g, bool one)
{
	struct soft_qp *qp = g->qp;
	struct soft_conn *conn = qp->conn;
	uint32_t idx = qp->sq_next;
	int rc = 0;

	if (conn->has_cur && conn->cur.kind == SOFT_ITEM_WQE) {
		if (conn->cur_stale)
			return 0;
		idx++;
	}
	while (rc >= 0 && has_room(g) && soft_tx_next(qp, idx)) {
		struct soft_hdr h;

		soft_tx_header(qp, idx, &h);
		rc = add_item(g, SOFT_ITEM_WQE, idx++, &h);
		/* A READ is counted when it has left: look again then. */
		if (one || h.op == SOFT_OP_READ)
			break;
	}
	return rc;
}

static int gather(struct gather *g)
{
	struct soft_qp *qp = g->qp;
	struct soft_conn *conn = qp->conn;
	struct soft_hdr ack = { .op = SOFT_OP_ACK, .ack = qp->rx_msn };
	bool slow = qp->ctx->fault.delay_turns;
	int rc = 0;

	if (conn->has_cur) {
		g->op->items[g->op->nitems++] = conn->cur;
		rc = add_bytes(g, conn->cur_off);
	}
	if (rc < 0 || (slow && soft_fault_hold(qp)))
		return rc;
	rc = add_responses(g);
	if (rc < 0)
		return rc;
	/* All answers have been gathered: a refusal may follow them. */
	if (has_room(g))
		add_refusal(g);
	if (!qp->dying)
		rc = add_requests(g, slow);
	if (rc >= 0 && g->op->nitems == conn->has_cur && has_room(g) &&
	    qp->rx_msn != qp->ack_sent && !soft_ack_waits(qp))
		add_item(g, SOFT_ITEM_CTL, 0, &ack);
	return rc;
}

/* Half a message cannot be taken back: the stream ends here. */
static void source_gone(struct soft_qp *qp, const struct soft_item *it)
{
	if (it->kind != SOFT_ITEM_WQE) {
		soft_qp_error(qp);
		return;
	}
	while (qp->sq_una != it->idx)
		soft_cq_send(qp, qp->sq_una++, IBV_WC_WR_FLUSH_ERR);
	soft_tx_fail(qp, IBV_WC_LOC_PROT_ERR);
}

bool soft_stream_tx_prep(struct soft_conn *conn, struct soft_op *op)
{
	struct gather g = { .qp = conn->qp, .op = op };

	op->conn = conn;
	op->tx = true;
	op->nitems = 0;
	if (conn->state != SOFT_CONN_UP)
		return false;
	g.limit = byte_limit(conn->ctx);
	if (gather(&g) < 0) {
		source_gone(conn->qp, &op->items[op->nitems - 1]);
		return false;
	}
	if (!g.niov) {
		/* Stopped at a WQE that cannot be sent? */
		soft_tx_complete(conn->qp);
		return false;
	}
	memset(&op->msg, 0, sizeof(op->msg));
	op->msg.msg_iov = op->iov;
	op->msg.msg_iovlen = g.niov;
	op->asked = g.bytes;
	return true;
}

/* A message has left whole. False: the QP has left, too. */
static bool commit(struct soft_conn *conn, const struct soft_item *it)
{
	struct soft_qp *qp = conn->qp;

	qp->ack_sent = it->ack;
	switch (it->kind) {
	case SOFT_ITEM_RESP:
		qp->resp_head++;
		break;
	case SOFT_ITEM_WQE:
		if (!conn->cur_stale)
			soft_tx_sent(qp, it->idx);
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

static void account(struct soft_conn *conn, struct soft_op *op)
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
		if (!commit(conn, it))
			return;
	}
}

static void spend(struct soft_ctx *ctx, size_t n)
{
	uint64_t now;

	if (!ctx->fault.rate_bytes_per_s)
		return;
	now = mpib_now_ns();
	/* What an owner without a CPU has missed is made up for: a rate is that
	 * of the link, not of the machine. */
	if (ctx->rate_at + RATE_CREDIT < now)
		ctx->rate_at = now - RATE_CREDIT;
	ctx->rate_at += n * 1000 * SOFT_MS / ctx->fault.rate_bytes_per_s;
}

void soft_stream_tx_done(struct soft_conn *conn, struct soft_op *op)
{
	if (conn->state != SOFT_CONN_UP)
		return;
	if (op->res == -EAGAIN) {
		conn->tx_blocked = true;
	} else if (op->res == -EFAULT) {
		soft_tx_fail(conn->qp, IBV_WC_LOC_PROT_ERR);
	} else if (op->res < 0 && op->res != -EINTR) {
		/* What the peer still had to say is read first: then comes
		 * its end, and with it the error. */
		conn->tx_blocked = true;
		conn->rx_ready = true;
	} else if (op->res > 0) {
		if ((size_t)op->res < op->asked)
			conn->tx_blocked = true;
		conn->qp->progress++;
		spend(conn->ctx, (size_t)op->res);
		account(conn, op);
	}
}
