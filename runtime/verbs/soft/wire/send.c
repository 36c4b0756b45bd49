/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending on a socket: gather the bytes for one sendmsg, and afterwards account
 * for the bytes that were sent.
 *
 * The order is: the rest of a partly sent segment, a refusal (NAK or RNR), the
 * rest of a partly sent message, answers to READs, new requests. If no message
 * carries the ack, an ACK is added. Only a partly sent segment is stored
 * between turns. Everything else is gathered again.
 */
#include "verbs/soft/wire/soft_conn.h"

#include <errno.h>
#include <stdlib.h>

#include "base/copy.h"
#include "verbs/soft/cq.h"
#include "verbs/soft/ctx.h"
#include "verbs/soft/mr.h"
#include "verbs/soft/qp.h"
#include "verbs/soft/wire/rc.h"
#include "verbs/soft/wire/soft_wire.h"

#define RATE_CREDIT (25 * SOFT_MS)
#define STOPPED_NS (100 * SOFT_MS)

struct gather {
	struct soft_qp *qp;
	struct soft_op *op;
	size_t niov, bytes, limit;
	unsigned most; /* items */
	uint32_t idx, off; /* next request to send, and its first unsent byte */
	bool whole; /* every message that was started is gathered completely */
};

static int payload_iov(struct soft_qp *qp, const struct soft_item *it,
		       uint64_t off, uint64_t len, struct iovec *iov, int max)
{
	const struct soft_hdr *h;

	if (!len || it->kind == SOFT_ITEM_CTL)
		return 0;
	off += it->off;
	if (it->kind == SOFT_ITEM_WQE)
		return soft_tx_iov(qp, it->idx, off, len, iov, max);
	h = &qp->resp[it->idx % SOFT_MAX_RD];
	iov->iov_len = len;
	iov->iov_base = soft_mr_remote(qp->ctx, qp->pd, h->rkey, h->addr + off,
				       len, IBV_ACCESS_REMOTE_READ);
	return iov->iov_base ? 1 : -EACCES;
}

/* Add the last item's bytes from `off` on. Return < 0 if the QP may not read
 * the item's memory. */
static int add_bytes(struct gather *g, size_t off)
{
	struct soft_item *it = &g->op->items[g->op->nitems - 1];
	struct iovec *iov = &g->op->iov[g->niov];
	size_t len, left = g->limit - g->bytes; /* remaining space */
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
	if (len > left)
		len = left;
	n = payload_iov(g->qp, it, off, len, iov, (int)(SOFT_OP_IOV - g->niov));
	for (int i = 0; i < n; i++)
		g->bytes += iov[i].iov_len;
	if (n > 0)
		g->niov += (size_t)n;
	return n;
}

static bool has_room(const struct gather *g)
{
	return g->op->nitems < g->most && g->niov + 2 <= SOFT_OP_IOV &&
	       g->bytes < g->limit;
}

/* Add the segment that starts at byte `off` of a message with header h. Return
 * < 0 if qp may not read the message's memory. */
static int add_item(struct gather *g, enum soft_item_kind kind, uint32_t idx,
		    uint32_t off, struct soft_hdr *h)
{
	struct soft_item *it = &g->op->items[g->op->nitems++];
	uint32_t left = soft_rx_payload(h) - off;

	it->kind = kind;
	it->op = h->op;
	it->idx = idx;
	it->ack = h->ack;
	it->off = off;
	it->len = left < SOFT_SEGMENT ? left : SOFT_SEGMENT;
	if (off) {
		h->op = SOFT_OP_MORE;
		h->addr = off;
	}
	soft_hdr_encode(it->hdr, h);
	return add_bytes(g, 0);
}

/* Add bytes of a message, starting at byte *off, until no room is left, and
 * advance *off. */
static int add_message(struct gather *g, enum soft_item_kind kind, uint32_t idx,
		       uint32_t *off, const struct soft_hdr *h)
{
	uint32_t len = soft_rx_payload(h);
	int rc;

	do {
		struct soft_hdr segment = *h;

		rc = add_item(g, kind, idx, *off, &segment);
		*off += g->op->items[g->op->nitems - 1].len;
	} while (rc >= 0 && *off != len && has_room(g));
	g->whole = rc >= 0 && *off == len;
	return rc;
}

static bool is_cur(const struct soft_conn *conn, enum soft_item_kind kind)
{
	return conn->has_cur && conn->cur.kind == kind;
}

static int add_responses(struct gather *g)
{
	struct soft_qp *qp = g->qp;
	struct soft_conn *conn = qp->conn;
	uint32_t i = qp->resp_head, off = qp->resp_off;
	int rc = 0;

	if (is_cur(conn, SOFT_ITEM_RESP)) {
		off = conn->cur.off + conn->cur.len;
		if (off == qp->resp[i % SOFT_MAX_RD].len) {
			off = 0;
			i++;
		}
	}
	for (; i != qp->resp_tail && has_room(g) && rc >= 0; i++, off = 0) {
		const struct soft_hdr *req = &qp->resp[i % SOFT_MAX_RD];
		struct soft_hdr h = {
			.op = SOFT_OP_READ_RESP,
			.msn = req->msn,
			.len = req->len,
			.ack = qp->rx_msn,
		};

		rc = add_message(g, SOFT_ITEM_RESP, i, &off, &h);
	}
	/* If space was short, the last answers may not have been started. */
	g->whole = g->whole && i == qp->resp_tail;
	return rc;
}

/* Add a NAK or RNR. The caller must already have added the answers to all READs
 * that came before the refused request. */
static void add_refusal(struct gather *g)
{
	struct soft_qp *qp = g->qp;
	struct soft_hdr h = {
		.op = qp->nak ? SOFT_OP_NAK : SOFT_OP_RNR,
		.status = qp->nak ? qp->nak : qp->attr.min_rnr_timer,
		/* A refused READ may be a repetition with an older msn. */
		.msn = qp->nak ? qp->rx.msn : qp->rx_msn,
		.ack = qp->rx_msn,
	};

	/* The refusal may already be in `cur`, partly sent. */
	if (is_cur(qp->conn, SOFT_ITEM_CTL) && qp->conn->cur.op != SOFT_OP_ACK)
		return;
	if ((qp->nak || qp->rnr) && has_room(g))
		add_item(g, SOFT_ITEM_CTL, 0, 0, &h);
}

static int add_requests(struct gather *g, bool one)
{
	struct soft_qp *qp = g->qp;
	int rc = 0;

	while (rc >= 0 && has_room(g) && (g->off || soft_tx_next(qp, g->idx))) {
		struct soft_hdr h;

		soft_tx_header(qp, g->idx, &h);
		rc = add_message(g, SOFT_ITEM_WQE, g->idx, &g->off, &h);
		if (!g->whole)
			break;
		g->idx = soft_tx_after(qp, g->idx);
		g->off = 0;
		/* Add nothing after a READ in this turn. reads_out limits the
		 * requests that may follow, but counts a READ only after it was
		 * sent. */
		if (one || h.op == SOFT_OP_READ)
			break;
	}
	return rc;
}

/* Set `idx` and `off` to the next request to send. False: send no request in
 * this turn. */
static bool find_request(struct gather *g)
{
	struct soft_qp *qp = g->qp;
	const struct soft_conn *conn = qp->conn;

	g->idx = qp->sq_next;
	g->off = qp->sq_off;
	if (!is_cur(conn, SOFT_ITEM_WQE))
		return true;
	if (conn->cur_stale || conn->cur.op == SOFT_OP_READ)
		return false;
	g->off = conn->cur.off + conn->cur.len;
	if (g->off == soft_swqe(qp, g->idx)->len) {
		g->idx = soft_tx_after(qp, g->idx);
		g->off = 0;
	}
	return true;
}

static int add_new(struct gather *g, bool slow)
{
	struct soft_qp *qp = g->qp;
	bool requests = find_request(g);
	int rc = 0;

	g->whole = true;
	/* A refusal may go between two segments of a message. */
	if (qp->resp_head == qp->resp_tail)
		add_refusal(g);
	if (qp->nak && g->op->nitems > qp->conn->has_cur)
		return 0;
	/* Order: the rest of a partly sent request, then all answers, then
	 * requests. So answers do not starve requests, and requests do not
	 * starve answers. */
	if (requests && g->off)
		rc = add_requests(g, true);
	if (rc >= 0 && g->whole && (!g->off || !requests))
		rc = add_responses(g);
	if (rc < 0 || !g->whole)
		return rc;
	if (qp->resp_head != qp->resp_tail)
		add_refusal(g);
	return requests && !qp->dying ? add_requests(g, slow) : 0;
}

static int gather_one(struct gather *g)
{
	struct soft_qp *qp = g->qp;
	struct soft_conn *conn = qp->conn;
	struct soft_hdr ack = { .op = SOFT_OP_ACK, .ack = qp->rx_msn };
	bool slow = soft_fault_slow(qp);
	int rc = 0;

	if (conn->has_cur) {
		g->op->items[g->op->nitems++] = conn->cur;
		rc = add_bytes(g, conn->cur_off);
	}
	if (rc < 0 || (slow && soft_fault_hold(qp)))
		return rc;
	rc = add_new(g, slow);
	if (rc >= 0 && g->op->nitems == conn->has_cur && has_room(g) &&
	    qp->rx_msn != qp->ack_sent && !soft_ack_waits(qp))
		add_item(g, SOFT_ITEM_CTL, 0, 0, &ack);
	return rc;
}

/* Choose about `limit` bytes to send next on conn, and list them in `op`.
 * Return the number of iovecs, or -errno if the QP may not read the memory of
 * the last item. */
static int stream_gather(struct soft_conn *conn, struct soft_op *op,
			 size_t limit)
{
	struct gather g = { .qp = conn->qp,
			    .op = op,
			    .limit = limit,
			    .most = conn->singly ? 1 : SOFT_OP_ITEMS };
	int rc = gather_one(&g);

	memset(&op->msg, 0, sizeof(op->msg));
	op->msg.msg_iov = op->iov;
	op->msg.msg_iovlen = g.niov;
	op->asked = g.bytes;
	return rc < 0 ? rc : (int)g.niov;
}

void soft_stream_last_words(struct soft_conn *conn)
{
	struct soft_qp *qp = conn->qp;
	struct soft_op op = { .conn = conn };
	struct gather g = { .qp = qp, .op = &op, .limit = SIZE_MAX };
	struct soft_hdr bye = { .op = SOFT_OP_BYE, .ack = qp->rx_msn };
	uint8_t *to;

	if (conn->has_cur) {
		op.items[op.nitems++] = conn->cur;
		if (add_bytes(&g, conn->cur_off) < 0)
			return;
	}
	add_item(&g, SOFT_ITEM_CTL, 0, 0, &bye);
	conn->last = malloc(g.bytes);
	if (!conn->last)
		return;
	to = conn->last;
	for (size_t i = 0; i < g.niov; i++) {
		const struct iovec *from = &op.iov[i];

		mpib_bus_begin(to, from->iov_base, from->iov_len);
		memcpy(to, from->iov_base, from->iov_len);
		mpib_bus_end();
		to += from->iov_len;
	}
	conn->last_len = (uint32_t)g.bytes;
	conn->last_off = 0;
}

static size_t byte_limit(struct soft_ctx *ctx)
{
	uint64_t rate = ctx->fault.rate_bytes_per_s;

	if (!rate)
		return ctx->most;
	/* The bytes of about one millisecond at this rate, but at least
	 * 4096. */
	return rate / 1000 < 4096 ? 4096 : rate / 1000;
}

/* Handle an item whose memory can no longer be read. A request may fail only
 * after all earlier requests are done. If the earlier requests are done, fail
 * this request, so that the QP goes to ERR. If earlier requests are not done,
 * or if the item is an answer, end the connection, because a partly sent
 * segment cannot be withdrawn. The next connection then handles the request,
 * and a repeated READ is refused. */
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
	n = stream_gather(conn, op, byte_limit(conn->ctx));
	if (n < 0) {
		source_gone(conn->qp, &op->items[op->nitems - 1]);
		return false;
	}
	/* If nothing was gathered, the next WQE may be one that cannot be sent.
	 * soft_tx_complete() fails this WQE if all earlier WQEs are done. */
	if (!n)
		soft_tx_complete(conn->qp);
	return n;
}

/* Account for a segment that was sent completely. False: the QP has left
 * conn. */
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
	/* If the thread had no CPU time for a while, it may send faster
	 * afterwards, to make up for at most RATE_CREDIT: the rate simulates a
	 * slow link, not a slow machine. */
	if (ctx->rate_at + RATE_CREDIT < now)
		ctx->rate_at = now - RATE_CREDIT;
	ctx->rate_at += n * 1000 * SOFT_MS / ctx->fault.rate_bytes_per_s;
}

/* Handle a send that stopped early. If the socket is full, the engine will
 * report when the socket accepts more. But the kernel reports unmapped source
 * memory or a shortage of memory only at the next try, so also try again after
 * STOPPED_NS. */
static void send_stopped(struct soft_conn *conn)
{
	struct soft_qp *qp = conn->qp;

	conn->tx_blocked = true;
	if (qp->send_at)
		return;
	qp->send_at = mpib_now_ns() + STOPPED_NS;
	soft_timer_update(qp);
}

/* The connection broke. First read what the peer has sent: recvmsg() reports
 * the error, too, but only after the peer's last bytes. A QP that is dying does
 * not read any more, so its connection ends at once. */
static void send_broke(struct soft_conn *conn)
{
	if (conn->qp->dying) {
		soft_conn_lost(conn);
		return;
	}
	conn->tx_blocked = true;
	conn->rx_ready = true;
}

/* Return whether qp has sent all acks and answers to the peer. */
static bool has_told_all(const struct soft_qp *qp)
{
	const struct soft_conn *conn = qp->conn;
	bool left = conn->has_cur && conn->cur_off >= SOFT_HDR_LEN;

	return qp->rx_msn == (left ? conn->cur.ack : qp->ack_sent);
}

/* Handle a send that failed because the process has unmapped memory that is
 * still registered. To find the segment in unmapped memory, first send the
 * segments one by one. If the segment was partly sent, its rest cannot be sent,
 * so the connection must end. */
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
	/* Do not wait for the peer to repeat the READ: the answer would fail
	 * again, in the same unmapped memory. */
	if (conn->has_cur)
		soft_conn_lost(conn);
	soft_event(qp->ctx, &qp->ev, IBV_EVENT_QP_ACCESS_ERR);
	soft_qp_error(qp);
}

/* Return whether the socket or the kernel has no room. TCP also returns EAGAIN
 * if memory is short. */
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
		send_broke(conn);
	} else if (op->res > 0) {
		if ((size_t)op->res < op->asked)
			send_stopped(conn);
		conn->qp->progress++;
		send_spend(conn->ctx, (size_t)op->res);
		send_account(conn, op);
	}
}
