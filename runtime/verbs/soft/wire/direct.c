/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payload that is read from the socket into its place, without a copy. The kernel
 * writes in any order, so this is for WRITEs into regions of which nobody reads what
 * has not completed (MPIB_ACCESS_ANY_ORDER).
 *
 * One read takes in what it can of the message. It is scattered as if the header
 * between two segments were always a MORE. Where an ACK, say, stands in between, what
 * follows it is out of place: it is put together again for the parser, and the places
 * are written anew. No byte leaves the message's own range meanwhile.
 */
#include "verbs/soft/wire/conn.h"

#include "base/copy.h"
#include "verbs/soft/ctx.h"
#include "verbs/soft/mr.h"
#include "verbs/soft/qp.h"
#include "verbs/soft/wire/rc.h"
#include "verbs/verbs.h"

#define LONG SOFT_SEGMENT /* shorter messages are copied as fast */
/* Of payload, in one read: with the headers between and the lead behind them it is to
 * fit into SOFT_AHEAD bytes, should it have to be put together. */
#define MOST (SOFT_AHEAD - 2 * SOFT_LEAD)

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* The place of the first byte of the WRITE that is arriving; NULL: it is none, or is
 * not to be read into its place. */
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

unsigned soft_direct_prep(struct soft_conn *conn, struct soft_op *op)
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
	/* The next message's beginning, or the next segment's. */
	if (off == segment) {
		op->iov[n++] = (struct iovec){ aside, SOFT_LEAD };
		op->asked += SOFT_LEAD;
	}
	return n;
}

void soft_direct_look(struct soft_conn *conn, bool whole)
{
	if (place_of(conn))
		conn->led = true;
	else if (whole)
		conn->led = false;
}

/* Whether the parser awaits payload just where iov i was read to. */
static bool is_next(const struct soft_conn *conn, const struct soft_op *op,
		    unsigned i)
{
	const struct soft_qp *qp = conn->qp;

	return qp->place == SOFT_PLACE_RKEY && qp->rx_off != qp->rx_seg &&
	       op->iov[i].iov_base == op->direct + qp->rx_off;
}

/* The n bytes from iov i on are no payload, or are payload of another place. */
static void put_together(struct soft_conn *conn, const struct soft_op *op,
			 unsigned i, uint32_t n)
{
	uint8_t *all = soft_stream_ahead(SOFT_OPS), *to = all;

	for (; n; i++) {
		uint32_t some = least((uint32_t)op->iov[i].iov_len, n);

		mpib_bus_begin(to, op->iov[i].iov_base, some);
		memcpy(to, op->iov[i].iov_base, some);
		mpib_bus_end();
		to += some;
		n -= some;
	}
	soft_stream_take(conn, all, (uint32_t)(to - all));
}

void soft_direct_done(struct soft_conn *conn, struct soft_op *op, uint32_t n)
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
			soft_stream_take(conn, op->iov[i].iov_base, some);
		}
		if (conn->state != SOFT_CONN_UP || conn->qp != qp || qp->dying)
			return;
		/* Behind a header comes payload, behind payload a header. */
		if (n && op->iov[i].iov_len == SOFT_HDR_LEN &&
		    !is_next(conn, op, i + 1)) {
			put_together(conn, op, i + 1, n);
			return;
		}
	}
}

bool soft_direct_failed(struct soft_conn *conn, const struct soft_op *op)
{
	if (!op->direct)
		return false;
	conn->indirect = true;
	return true;
}
