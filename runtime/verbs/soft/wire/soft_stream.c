/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receiving on a socket. Bytes are read into a buffer and copied from there to
 * their destinations in ascending order, for readers that poll a flag behind
 * the last byte. A read from the socket directly into the destination stores
 * bytes in any order. So such reads are made only for regions that allow any
 * order. Whatever a peer sends, this file writes only where soft_rx_iov()
 * allows, and allocates nothing.
 */
#include "verbs/soft/wire/soft_conn.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/copy.h"
#include "verbs/soft/ctx.h"
#include "verbs/soft/mr.h"
#include "verbs/soft/qp.h"
#include "verbs/soft/wire/rc.h"
#include "verbs/soft/wire/soft_wire.h"
#include "verbs/verbs.h"

/* number of bytes that a reader loads at once, and that must appear together */
#define WORD 8

/* The read buffers are empty between two turns, so they belong to the thread
 * that makes turns. A thread uses the same buffers for all its contexts, and
 * they stay in the CPU's cache. libc's free() releases them when the thread
 * ends, so that no code of an unloaded library is called. */
static pthread_key_t ahead_key;
static pthread_once_t ahead_once = PTHREAD_ONCE_INIT;
static int ahead_rc;

static void make_ahead_key(void)
{
	ahead_rc = -pthread_key_create(&ahead_key, free);
}

int soft_stream_init(void)
{
	pthread_once(&ahead_once, make_ahead_key);
	return ahead_rc;
}

/* Return a buffer of SOFT_AHEAD bytes for the n-th read of a turn. For n =
 * SOFT_OPS return the buffer to reassemble a read. NULL: no memory. A thread's
 * first read allocates all buffers, but few buffers are ever used. */
static uint8_t *stream_ahead(unsigned n)
{
	uint8_t *all = pthread_getspecific(ahead_key);

	if (!all) {
		all = malloc((SOFT_OPS + 1ul) * SOFT_AHEAD);
		if (all && pthread_setspecific(ahead_key, all)) {
			free(all);
			all = NULL;
		}
	}
	return all ? all + (size_t)n * SOFT_AHEAD : NULL;
}

/* Return how many bytes to copy to `to`: `room` if there are enough bytes,
 * otherwise a number such that the copy ends on a word boundary. */
static size_t whole_words(const uint8_t *to, size_t room, size_t have)
{
	size_t over = ((uintptr_t)to + have) % WORD;

	if (have >= room)
		return room;
	return over < have ? have - over : 0;
}

/* Copy payload to its destination, up to the end of the segment. False: more
 * bytes must arrive, or the request was refused. */
static bool place_segment(struct soft_conn *conn)
{
	struct soft_qp *qp = conn->qp;

	while (qp->rx_off != qp->rx_seg) {
		size_t have = conn->rlen - conn->rpos;
		size_t left = qp->rx_seg - qp->rx_off;
		const uint8_t *from = conn->in + conn->rpos;
		struct iovec iov;
		size_t n;

		if (have > left)
			have = left;
		if (soft_rx_iov(qp, &iov, 1) <= 0) {
			soft_rx_abort(qp);
			return false;
		}
		if (!iov.iov_base) {
			n = have;
		} else {
			if (iov.iov_len > left)
				iov.iov_len = left;
			n = whole_words(iov.iov_base, iov.iov_len, have);
			mpib_bus_begin(iov.iov_base, from, n);
			mpib_copy_up(iov.iov_base, from, n);
			mpib_bus_end();
		}
		if (!n)
			return false;
		conn->rpos += (uint32_t)n;
		qp->rx_off += (uint32_t)n;
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

static void begin_segment(struct soft_qp *qp)
{
	uint32_t left = soft_rx_payload(&qp->rx) - qp->rx_off;

	qp->rx_seg = qp->rx_off + (left < SOFT_SEGMENT ? left : SOFT_SEGMENT);
}

/* Return whether a segment has ended whose message has not ended. */
static bool wants_more(const struct soft_qp *qp)
{
	return qp->place != SOFT_PLACE_NONE && qp->rx_off == qp->rx_seg &&
	       qp->rx_seg != qp->rx.len;
}

static bool continue_message(struct soft_qp *qp, const struct soft_hdr *h)
{
	return wants_more(qp) && h->msn == qp->rx.msn && h->len == qp->rx.len &&
	       h->addr == qp->rx_off;
}

static bool begin_message(struct soft_conn *conn, const struct soft_hdr *h)
{
	struct soft_qp *qp = conn->qp;

	if (!soft_tx_ack(qp, h->ack))
		return false;
	/* soft_tx_ack() may have moved the QP to ERR. Then the QP has left
	 * conn. */
	if (conn->qp != qp)
		return true;
	switch ((enum soft_wire_op)h->op) {
	case SOFT_OP_ACK:
		return true;
	case SOFT_OP_NAK:
		return soft_tx_nak(qp, h->msn, h->status);
	case SOFT_OP_RNR:
		return soft_tx_rnr(qp, h->msn, h->status);
	case SOFT_OP_BYE:
		soft_conn_over(conn);
		return true;
	case SOFT_OP_MORE:
		if (!continue_message(qp, h))
			return false;
		begin_segment(qp);
		return true;
	case SOFT_OP_READ_RESP:
	case SOFT_OP_WRITE:
	case SOFT_OP_WRITE_IMM:
	case SOFT_OP_SEND:
	case SOFT_OP_SEND_IMM:
	case SOFT_OP_READ:
		break;
	}
	/* A new message may begin before the end of the current one only if the
	 * current one is dropped. */
	if (wants_more(qp) && qp->place != SOFT_PLACE_DROP)
		return false;
	if (h->op == SOFT_OP_READ_RESP) {
		if (!begin_response(qp, h))
			return false;
	} else {
		qp->rx = *h;
		soft_rx_begin(qp);
	}
	begin_segment(qp);
	return true;
}

/* Parse a header or place a segment. False: the buffer has no more bytes to
 * parse, qp has left conn, or qp is dying and reads no more. */
static bool stream_parse_one(struct soft_conn *conn)
{
	struct soft_qp *qp = conn->qp;
	struct soft_hdr h;

	if (qp->place == SOFT_PLACE_NONE || wants_more(qp)) {
		if (conn->rlen - conn->rpos < SOFT_HDR_LEN)
			return false;
		if (!soft_hdr_decode(conn->in + conn->rpos, &h)) {
			soft_conn_over(conn);
			return false;
		}
		conn->rpos += SOFT_HDR_LEN;
		if (!begin_message(conn, &h)) {
			if (conn->qp == qp)
				soft_conn_over(conn);
			return false;
		}
		return conn->qp == qp && !qp->dying;
	}
	if (!place_segment(conn))
		return false;
	if (qp->rx_off == qp->rx.len)
		soft_rx_end(qp);
	return conn->qp == qp && !qp->dying;
}

/* Keep unparsed bytes for the next read. If more than SOFT_KEEP bytes are
 * unparsed, the QP reads no more, and the bytes are dropped. */
static void stream_keep(struct soft_conn *conn)
{
	uint32_t rest = conn->rlen - conn->rpos;

	if (rest > SOFT_KEEP)
		rest = 0;
	memcpy(conn->kept, conn->in + conn->rpos, rest);
	conn->rlen = rest;
	conn->rpos = 0;
	conn->in = NULL;
}

/* Process `len` bytes at `in`, and keep an incomplete header. */
static void stream_take(struct soft_conn *conn, uint8_t *in, uint32_t len)
{
	conn->in = in;
	conn->rlen = len;
	if (conn->state != SOFT_CONN_UP)
		soft_hello_recv(conn);
	/* Requests may directly follow the answer to the hello. */
	while (conn->state == SOFT_CONN_UP && stream_parse_one(conn))
		;
	stream_keep(conn);
}

/*
 * Reading payload from the socket directly into its destination, without a
 * copy. The kernel writes in any order. So only WRITEs into regions that are
 * not read before the completion (MPIB_ACCESS_ANY_ORDER) are read directly.
 *
 * One read gets as much of the message as possible. The read scatters the bytes
 * as if all headers between segments were MOREs. If there is another header,
 * such as an ACK, the bytes after it are misplaced: they are reassembled for
 * the parser, and their destinations are written again. No byte is ever written
 * outside the message's range.
 */

#define LONG SOFT_SEGMENT /* for shorter messages a copy is as fast */
/* Maximum payload in one read, in bytes. The payload, its headers and the lead
 * after it must fit into SOFT_AHEAD bytes for reassembly. */
#define MOST (SOFT_AHEAD - 2 * SOFT_LEAD)

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Return the destination of the first byte of the arriving WRITE. Return NULL
 * if the message is not a WRITE or cannot be read into place. */
static uint8_t *place_of(const struct soft_conn *conn)
{
	const struct soft_qp *qp = conn->qp;
	const struct soft_hdr *h;

	if (conn->state != SOFT_CONN_UP || conn->rlen || conn->indirect ||
	    qp->place != SOFT_PLACE_RKEY || qp->rx.len < LONG)
		return NULL;
	h = &qp->rx;
	return soft_mr_remote(qp->ctx, qp->pd, h->rkey, h->addr, h->len,
			      IBV_ACCESS_REMOTE_WRITE | MPIB_ACCESS_ANY_ORDER);
}

/* Prepare op to read payload directly into its destination. Return the number
 * of its iovecs. 0: conn expects no payload that can be read into place. */
static unsigned direct_prep(struct soft_conn *conn, struct soft_op *op)
{
	uint8_t *to = place_of(conn), *aside = op->ahead;
	uint32_t off, segment, left;
	unsigned n = 0;

	op->direct = to;
	if (!to)
		return 0;
	off = conn->qp->rx_off;
	segment = conn->qp->rx_seg;
	left = least(conn->ctx->most, MOST);
	left = least(left, conn->qp->rx.len - off);
	op->asked = 0;
	while (left) {
		uint32_t some;

		if (off == segment) {
			op->iov[n++] = (struct iovec){ aside, SOFT_HDR_LEN };
			aside += SOFT_HDR_LEN;
			op->asked += SOFT_HDR_LEN;
			segment += least(conn->qp->rx.len - off, SOFT_SEGMENT);
		}
		some = least(segment - off, left);
		op->iov[n++] = (struct iovec){ to + off, some };
		op->asked += some;
		off += some;
		left -= some;
	}
	/* Room for the beginning of the next message, or for the next segment's
	 * header. */
	if (off == segment) {
		op->iov[n++] = (struct iovec){ aside, SOFT_LEAD };
		op->asked += SOFT_LEAD;
	}
	return n;
}

/* After an ordinary read, adapt conn->led. `whole`: the read filled its
 * buffer. */
static void direct_look(struct soft_conn *conn, bool whole)
{
	if (place_of(conn))
		conn->led = true;
	else if (whole)
		conn->led = false;
}

/* Return whether the bytes of iov i are at the destination that the parser
 * expects for the next payload. */
static bool is_next(const struct soft_conn *conn, const struct soft_op *op,
		    unsigned i)
{
	const struct soft_qp *qp = conn->qp;

	return qp->place == SOFT_PLACE_RKEY && qp->rx_off != qp->rx_seg &&
	       op->iov[i].iov_base == op->direct + qp->rx_off;
}

/* Reassemble and parse n bytes, beginning at iov i: headers, and payload that
 * is not at its final place. */
static void put_together(struct soft_conn *conn, const struct soft_op *op,
			 unsigned i, uint32_t n)
{
	uint8_t *all = stream_ahead(SOFT_OPS), *to = all;

	for (; n; i++) {
		uint32_t some = least((uint32_t)op->iov[i].iov_len, n);

		mpib_bus_begin(to, op->iov[i].iov_base, some);
		memcpy(to, op->iov[i].iov_base, some);
		mpib_bus_end();
		to += some;
		n -= some;
	}
	stream_take(conn, all, (uint32_t)(to - all));
}

/* Account for n bytes read into place. */
static void direct_done(struct soft_conn *conn, struct soft_op *op, uint32_t n)
{
	struct soft_qp *qp = conn->qp;

	for (unsigned i = 0; n; i++) {
		uint32_t some = least((uint32_t)op->iov[i].iov_len, n);

		n -= some;
		if (is_next(conn, op, i)) {
			qp->rx_off += some;
			if (qp->rx_off == qp->rx.len)
				soft_rx_end(qp);
		} else {
			stream_take(conn, op->iov[i].iov_base, some);
		}
		if (conn->state != SOFT_CONN_UP || conn->qp != qp || qp->dying)
			return;
		/* The iovecs alternate between headers and payload. */
		if (n && op->iov[i].iov_len == SOFT_HDR_LEN &&
		    !is_next(conn, op, i + 1)) {
			put_together(conn, op, i + 1, n);
			return;
		}
	}
}

/* Call this if the kernel could not write to the destination. Return whether to
 * read again, without reading into place. */
static bool direct_failed(struct soft_conn *conn, const struct soft_op *op)
{
	if (!op->direct)
		return false;
	conn->indirect = true;
	return true;
}

/* The read itself. */

bool soft_stream_rx_prep(struct soft_conn *conn, struct soft_op *op)
{
	op->conn = conn;
	op->tx = false;
	op->nitems = 0;
	if (conn->state == SOFT_CONN_UP && conn->qp->dying)
		return false;
	op->ahead = stream_ahead(conn->ctx->nreads);
	if (!op->ahead)
		return false;
	conn->ctx->nreads++;
	if (conn->state == SOFT_CONN_LINGER)
		conn->rlen = 0;
	memset(&op->msg, 0, sizeof(op->msg));
	op->msg.msg_iov = op->iov;
	op->msg.msg_iovlen = direct_prep(conn, op);
	if (op->msg.msg_iovlen)
		return true;
	memcpy(op->ahead, conn->kept, conn->rlen);
	op->asked = conn->led ? SOFT_LEAD : SOFT_AHEAD;
	op->asked -= conn->rlen;
	if (op->asked > conn->ctx->most)
		op->asked = conn->ctx->most;
	op->iov[0] = (struct iovec){ op->ahead + conn->rlen, op->asked };
	op->msg.msg_iovlen = 1;
	return true;
}

void soft_stream_rx_done(struct soft_conn *conn, struct soft_op *op)
{
	uint32_t n = (uint32_t)op->res;

	if (conn->state == SOFT_CONN_DEAD)
		return;
	if (op->res == -EAGAIN || op->res == -EINTR) {
		conn->rx_ready = op->res == -EINTR;
		return;
	}
	if (op->res == -EFAULT && direct_failed(conn, op))
		return;
	if (op->res <= 0) {
		soft_conn_lost(conn);
		return;
	}
	/* If the socket is empty, wait until the engine reports it readable.
	 * But continue reading if the peer has closed the connection, because
	 * the engine reports the close only once. Also continue after a direct
	 * read, because only the next read would report a missing page. */
	if (n < op->asked && !conn->ended && !op->direct)
		conn->rx_ready = false;
	if (conn->state == SOFT_CONN_LINGER)
		return;
	if (conn->state == SOFT_CONN_UP) {
		conn->unsure = false;
		conn->qp->progress++;
		conn->qp->came++;
	}
	if (op->direct) {
		direct_done(conn, op, n);
		return;
	}
	stream_take(conn, op->ahead, conn->rlen + n);
	direct_look(conn, n == op->asked);
}
