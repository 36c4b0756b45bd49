/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs of QPs in one context use no socket. The turn runs requester and
 * responder one after the other, and a message moves completely within one
 * turn.
 */
#include "verbs/soft/wire/rc.h"

#include <errno.h>

#include "base/copy.h"
#include "verbs/soft/ctx.h"
#include "verbs/soft/mr.h"
#include "verbs/soft/qp.h"
#include "verbs/soft/wire/soft_conn.h"
#include "verbs/soft/wire/soft_wire.h"

#define LOOP_BUDGET 64
#define LOOP_BYTES (8u << 20)

static struct soft_qp *peer_of(struct soft_qp *qp)
{
	struct soft_qp *peer = soft_qp_find(qp->ctx, qp->attr.dest_qp_num);
	struct soft_hello h = { .status = SOFT_HELLO_ASK };

	if (!peer || !peer->loop || peer->dying)
		return NULL;
	soft_hello_of(qp, &h);
	return soft_peer_matches(peer, &h) ? peer : NULL;
}

/* Copy in ascending order, like soft_stream.c, for readers that poll a flag at
 * the end. If the ranges overlap and an ascending copy would overwrite the
 * source, copy in another order. */
static void copy_piece(uint8_t *to, const uint8_t *from, size_t n)
{
	mpib_bus_begin(to, from, n);
	if (to > from && to < from + n)
		memmove(to, from, n);
	else
		mpib_copy_up(to, from, n);
	mpib_bus_end();
}

static void loop_copy(struct soft_qp *from, uint32_t idx, struct soft_qp *to)
{
	struct iovec src[SOFT_MAX_SGE], dst[SOFT_MAX_SGE];
	uint32_t len = to->rx.len;
	int ns = soft_tx_iov(from, idx, 0, len, src, SOFT_MAX_SGE);
	int nd = soft_rx_iov(to, dst, SOFT_MAX_SGE);
	int s = 0, d = 0;

	to->rx_off = len;
	/* Source and target are valid: they were checked after this thread took
	 * ctx->lock. */
	while (s < ns && d < nd) {
		size_t n = src[s].iov_len < dst[d].iov_len ? src[s].iov_len
							   : dst[d].iov_len;

		copy_piece(dst[d].iov_base, src[s].iov_base, n);
		src[s].iov_base = (char *)src[s].iov_base + n;
		dst[d].iov_base = (char *)dst[d].iov_base + n;
		src[s].iov_len -= n;
		dst[d].iov_len -= n;
		s += !src[s].iov_len;
		d += !dst[d].iov_len;
	}
}

static void read_back(struct soft_qp *qp, uint32_t idx, struct soft_qp *peer)
{
	const struct soft_hdr *h = &peer->resp[--peer->resp_tail % SOFT_MAX_RD];
	struct iovec dst[SOFT_MAX_SGE];
	const uint8_t *src = soft_mr_remote(qp->ctx, peer->pd, h->rkey, h->addr,
					    h->len, IBV_ACCESS_REMOTE_READ);
	int n = soft_tx_iov(qp, idx, 0, h->len, dst, SOFT_MAX_SGE);

	for (int i = 0; i < n; i++) {
		copy_piece(dst[i].iov_base, src, dst[i].iov_len);
		src += dst[i].iov_len;
	}
	soft_tx_read_done(qp, idx);
}

/* Move one message from qp to peer. Return false if qp can send no further
 * message in this turn. */
static bool loop_exchange(struct soft_qp *qp, struct soft_qp *peer)
{
	uint32_t idx = qp->sq_next;
	uint8_t op = soft_swqe(qp, idx)->op;
	uint8_t nak;

	soft_tx_header(qp, idx, &peer->rx);
	if (peer->rx.msn != peer->rx_msn) {
		/* The peer was reset and counts from 0 again, but qp was not
		 * reset. */
		soft_tx_fail(qp, IBV_WC_RETRY_EXC_ERR);
		return false;
	}
	soft_tx_sent(qp, idx, soft_swqe(qp, idx)->len);
	soft_rx_begin(peer);
	nak = peer->nak;
	if (nak) {
		uint32_t msn = peer->rx_msn;

		peer->nak = 0;
		if (peer == qp)
			soft_tx_nak(qp, msn, nak);
		soft_qp_error(peer);
		if (peer != qp && soft_tx_ack(qp, msn))
			soft_tx_nak(qp, msn, nak);
		return false;
	}
	if (peer->rnr) {
		peer->rnr = false;
		peer->place = SOFT_PLACE_NONE;
		soft_tx_rnr(qp, peer->rx_msn, peer->attr.min_rnr_timer);
		return false;
	}
	if (op == SOFT_OP_READ) {
		read_back(qp, idx, peer);
	} else {
		loop_copy(qp, idx, peer);
		soft_rx_end(peer);
	}
	peer->ack_sent = peer->rx_msn;
	return soft_tx_ack(qp, peer->rx_msn);
}

static void loop_unreachable(struct soft_qp *qp)
{
	if (qp->was_up)
		soft_tx_unanswered(qp);
	else
		soft_dial_later(qp);
}

int soft_loop_run(struct soft_qp *qp)
{
	bool slow = soft_fault_slow(qp);
	uint64_t bytes = 0;
	int n = 0;

	while (n < LOOP_BUDGET && bytes < LOOP_BYTES) {
		struct soft_qp *peer;

		if (qp->sq_next == soft_tx_end(qp) || qp->rnr_wait)
			return n;
		if (slow && soft_fault_hold(qp))
			break;
		if (!soft_tx_next(qp, qp->sq_next)) {
			soft_tx_complete(qp);
			return n;
		}
		peer = peer_of(qp);
		if (!peer) {
			loop_unreachable(qp);
			return n;
		}
		qp->was_up = true;
		bytes += soft_swqe(qp, qp->sq_next)->len;
		n++;
		if (!loop_exchange(qp, peer) || slow)
			break;
	}
	soft_conn_work(qp);
	return n;
}
