/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A socket's bytes in. A small buffer reads ahead for headers; payload that
 * it does not already hold goes from the socket to its place, and the same
 * recvmsg fills the buffer with what follows. Whatever a peer sends, this
 * only writes where soft_rx_iov() allows, and costs no memory.
 */
#include "verbs/soft/wire/conn.h"

#include <errno.h>

#include "base/bus.h"
#include "base/copy.h"
#include "verbs/soft/qp.h"
#include "verbs/soft/wire/rc.h"
#include "verbs/soft/wire/wire.h"

static void set_msg(struct soft_op *op, size_t iovlen, size_t asked)
{
	memset(&op->msg, 0, sizeof(op->msg));
	op->msg.msg_iov = op->iov;
	op->msg.msg_iovlen = iovlen;
	op->asked = asked;
}

/* After a large message another one is expected, which needs no copy. */
static size_t ahead(const struct soft_conn *conn)
{
	return conn->qp && conn->qp->rx.len > SOFT_SMALL ? SOFT_SMALL
							 : SOFT_AHEAD;
}

bool soft_stream_rx_prep(struct soft_conn *conn, struct soft_op *op)
{
	struct soft_qp *qp = conn->qp;
	size_t asked = 0;
	bool last;
	int n = 0;

	op->conn = conn;
	op->tx = false;
	op->nitems = 0;
	if (conn->state == SOFT_CONN_UP && qp->dying)
		return false;
	if (conn->state == SOFT_CONN_LINGER)
		conn->rlen = 0;
	if (conn->state == SOFT_CONN_UP && qp->place != SOFT_PLACE_NONE) {
		n = soft_rx_iov(qp, op->iov, SOFT_OP_IOV - 1);
		if (n < 0) {
			soft_rx_abort(qp);
			return false;
		}
		for (int i = 0; i < n; i++)
			asked += op->iov[i].iov_len;
	}
	last = !n || asked == qp->rx.len - qp->rx_off;
	/* The end comes by the buffer, for mpib_copy_up(). */
	if (n && last)
		asked -= soft_iov_trim(op->iov, &n, SOFT_TAIL);
	/* Items tells rx_done how much of the answer is payload. */
	op->nitems = (unsigned)asked;
	if (last) {
		memcpy(op->ahead, conn->kept, conn->rlen);
		op->iov[n].iov_base = op->ahead + conn->rlen;
		op->iov[n].iov_len = ahead(conn) - conn->rlen;
		asked += op->iov[n++].iov_len;
	}
	set_msg(op, (size_t)n, asked);
	return true;
}

/* Bytes of the message under way that have been read ahead. */
static bool place_buffered(struct soft_conn *conn)
{
	struct soft_qp *qp = conn->qp;

	while (conn->rpos != conn->rlen && qp->rx_off != qp->rx.len) {
		uint32_t have = conn->rlen - conn->rpos;
		struct iovec iov;
		int n = soft_rx_iov(qp, &iov, 1);

		if (n <= 0) {
			soft_rx_abort(qp);
			return false;
		}
		if (iov.iov_len > have)
			iov.iov_len = have;
		mpib_bus_begin(iov.iov_base, conn->in + conn->rpos,
			       iov.iov_len);
		mpib_copy_up(iov.iov_base, conn->in + conn->rpos, iov.iov_len);
		mpib_bus_end();
		conn->rpos += (uint32_t)iov.iov_len;
		qp->rx_off += (uint32_t)iov.iov_len;
	}
	return true;
}

static bool begin_response(struct soft_qp *qp, const struct soft_hdr *h)
{
	uint32_t idx;

	if (!soft_tx_read_awaited(qp, &idx) || idx != qp->sq_base + h->msn ||
	    soft_swqe(qp, idx)->len != h->len)
		return false;
	qp->rx = *h;
	qp->rx_off = 0;
	qp->place = SOFT_PLACE_READ;
	return true;
}

static bool begin_message(struct soft_conn *conn, const struct soft_hdr *h)
{
	struct soft_qp *qp = conn->qp;

	if (!soft_tx_ack(qp, h->ack))
		return false;
	/* What the ack completed may have failed the QP. */
	if (conn->qp != qp)
		return true;
	switch ((enum soft_wire_op)h->op) {
	case SOFT_OP_ACK:
		return true;
	case SOFT_OP_NAK:
		return soft_tx_nak(qp, h->msn, h->status);
	case SOFT_OP_RNR:
		return soft_tx_rnr(qp, h->msn, h->status);
	case SOFT_OP_READ_RESP:
		return begin_response(qp, h);
	case SOFT_OP_WRITE:
	case SOFT_OP_WRITE_IMM:
	case SOFT_OP_SEND:
	case SOFT_OP_SEND_IMM:
	case SOFT_OP_READ:
		qp->rx = *h;
		soft_rx_begin(qp);
		return true;
	}
	return false;
}

/* One step through the buffer. False: it holds no more, or conn is gone. */
static bool parse_one(struct soft_conn *conn)
{
	struct soft_qp *qp = conn->qp;
	struct soft_hdr h;

	if (qp->place == SOFT_PLACE_NONE) {
		if (conn->rlen - conn->rpos < SOFT_HDR_LEN)
			return false;
		if (!soft_hdr_decode(conn->in + conn->rpos, &h)) {
			soft_conn_lost(conn);
			return false;
		}
		conn->rpos += SOFT_HDR_LEN;
		if (!begin_message(conn, &h)) {
			if (conn->qp == qp)
				soft_conn_lost(conn);
			return false;
		}
		return conn->qp == qp && !qp->dying;
	}
	if (!place_buffered(conn) || qp->rx_off != qp->rx.len)
		return false;
	soft_rx_end(qp);
	return conn->qp == qp && !qp->dying;
}

/* More than fits is left by a QP that reads no more only. */
static void keep(struct soft_conn *conn)
{
	uint32_t rest = conn->rlen - conn->rpos;

	if (rest > SOFT_KEEP)
		rest = 0;
	memcpy(conn->kept, conn->in + conn->rpos, rest);
	conn->rlen = rest;
	conn->rpos = 0;
	conn->in = NULL;
}

static void rx_failed(struct soft_conn *conn, int res)
{
	if (res == -EAGAIN || res == -EINTR) {
		conn->rx_ready = res == -EINTR;
	} else if (res == -EFAULT && conn->state == SOFT_CONN_UP) {
		/* Somebody unmapped what is registered. */
		soft_rx_abort(conn->qp);
	} else {
		soft_conn_lost(conn);
	}
}

void soft_stream_rx_done(struct soft_conn *conn, struct soft_op *op)
{
	uint32_t payload = op->nitems, n = (uint32_t)op->res;

	if (conn->state == SOFT_CONN_DEAD)
		return;
	if (op->res <= 0) {
		rx_failed(conn, op->res);
		return;
	}
	if (n < op->asked)
		conn->rx_ready = false;
	if (conn->state == SOFT_CONN_LINGER)
		return;
	if (payload > n)
		payload = n;
	conn->in = op->ahead;
	conn->rlen += n - payload;
	if (conn->state == SOFT_CONN_UP) {
		conn->qp->rx_off += payload;
		conn->qp->progress++;
	} else {
		soft_hello_recv(conn);
	}
	/* Requests may have come right behind the hello's answer. */
	while (conn->state == SOFT_CONN_UP && parse_one(conn))
		;
	keep(conn);
}
