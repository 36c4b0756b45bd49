/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requester: it chooses the next WQE to send, handles the peer's answers,
 * and decides when to give up. The send queue has three free-running indices:
 * sq_una <= sq_next <= sq_tail.
 */
#include "verbs/soft/wire/rc.h"

#include "verbs/soft/cq.h"
#include "verbs/soft/ctx.h"
#include "verbs/soft/mr.h"
#include "verbs/soft/qp.h"
#include "verbs/soft/wire/soft_conn.h"
#include "verbs/soft/wire/soft_wire.h"

/*
 * The minimum ack timeout while the TCP connection is up. A silent peer may be
 * healthy: perhaps its thread makes no turns at the moment. A real HCA answers
 * without a thread.
 */
#define PATIENCE_NS (2000 * SOFT_MS)
#define PATIENCE_TURNS 32
/* The minimum ack timeout while there is no TCP connection: the connection may
 * still be in set-up. A real HCA needs no connection. */
#define CONNECT_NS (500 * SOFT_MS)

static const uint32_t rnr_us[32] = {
	655360, 10,    20,    30,     40,     60,     80,     120,
	160,	240,   320,   480,    640,    960,    1280,   1920,
	2560,	3840,  5120,  7680,   10240,  15360,  20480,  30720,
	40960,	61440, 81920, 122880, 163840, 245760, 327680, 491520,
};

static uint64_t tx_patience(struct soft_qp *qp)
{
	return (4096ull << qp->attr.timeout) * (qp->attr.retry_cnt + 1u);
}

static void tx_arm(struct soft_qp *qp)
{
	if (qp->ack_at || !qp->attr.timeout)
		return;
	qp->ack_since = mpib_now_ns();
	qp->ack_mark = qp->progress;
	qp->ack_turn = qp->ctx->turn;
	qp->ack_at = qp->ack_since + tx_patience(qp);
	soft_timer_update(qp);
}

/* Start the ack timer instead of failing the WQEs immediately. An HCA does not
 * learn that its peer is gone, and retries as the QP's attributes say. */
void soft_tx_unanswered(struct soft_qp *qp)
{
	if (qp->sq_una != soft_tx_end(qp))
		tx_arm(qp);
}

void soft_tx_start(struct soft_qp *qp)
{
	int state = qp_state(qp);

	if (state == IBV_QPS_ERR) {
		soft_qp_flush(qp);
		return;
	}
	if (qp->sq_una == soft_tx_end(qp))
		return;
	tx_arm(qp);
	soft_conn_work(qp);
}

/* Return the access that a request needs to its own memory. */
static int sge_access(const struct soft_swqe *w)
{
	return w->op == SOFT_OP_READ ? IBV_ACCESS_LOCAL_WRITE : 0;
}

static uint8_t check_wqe(struct soft_qp *qp, uint32_t idx)
{
	struct soft_swqe *w = soft_swqe(qp, idx);

	if (w->status)
		return w->status;
	if (w->op == SOFT_OP_READ && !qp->attr.max_rd_atomic)
		return IBV_WC_LOC_QP_OP_ERR;
	if (!w->is_inline && !soft_sge_valid(qp->pd, soft_sq_sges(qp, idx),
					     w->nsge, sge_access(w)))
		return IBV_WC_LOC_PROT_ERR;
	return 0;
}

struct soft_swqe *soft_tx_next(struct soft_qp *qp, uint32_t idx)
{
	struct soft_swqe *w = soft_swqe(qp, idx);

	if (idx == soft_tx_end(qp) || qp->rnr_wait || qp->dying)
		return NULL;
	if (w->fence && qp->reads_out)
		return NULL;
	if (w->op == SOFT_OP_READ && qp->reads_out &&
	    qp->reads_out >= qp->attr.max_rd_atomic)
		return NULL;
	w->status = check_wqe(qp, idx);
	return w->status ? NULL : w;
}

void soft_tx_header(struct soft_qp *qp, uint32_t idx, struct soft_hdr *h)
{
	struct soft_swqe *w = soft_swqe(qp, idx);

	*h = (struct soft_hdr){
		.op = w->op,
		.flags = w->solicited ? SOFT_F_SOLICITED : 0,
		.msn = idx - qp->sq_base,
		.ack = qp->rx_msn,
		.len = w->len,
	};
	if (w->op != SOFT_OP_SEND && w->op != SOFT_OP_SEND_IMM) {
		h->rkey = w->rkey;
		h->addr = w->raddr;
	}
	if (w->op == SOFT_OP_WRITE_IMM || w->op == SOFT_OP_SEND_IMM)
		h->imm = w->imm;
}

int soft_tx_iov(struct soft_qp *qp, uint32_t idx, uint64_t off, uint64_t len,
		struct iovec *iov, int max)
{
	struct soft_swqe *w = soft_swqe(qp, idx);

	if (!w->is_inline)
		return soft_sge_iov(qp->pd, soft_sq_sges(qp, idx), w->nsge, off,
				    len, sge_access(w), iov, max);
	if (!len || !max)
		return 0;
	iov->iov_base = soft_sq_inline(qp, idx) + off;
	iov->iov_len = len;
	return 1;
}

/* Starting at idx, return the index of the first request that the peer has not
 * completed. A READ is complete when its answer has arrived. */
static uint32_t skip_done(struct soft_qp *qp, uint32_t idx)
{
	while ((int32_t)(idx - qp->sq_acked) < 0) {
		struct soft_swqe *w = soft_swqe(qp, idx);

		if (w->op == SOFT_OP_READ && !w->done)
			break;
		idx++;
	}
	return idx;
}

uint32_t soft_tx_after(struct soft_qp *qp, uint32_t idx)
{
	return skip_done(qp, idx + 1);
}

void soft_tx_sent(struct soft_qp *qp, uint32_t idx, uint32_t off)
{
	struct soft_swqe *w = soft_swqe(qp, idx);

	tx_arm(qp);
	if (w->op != SOFT_OP_READ && off != w->len) {
		qp->sq_off = off;
		return;
	}
	qp->sq_off = 0;
	qp->sq_next = soft_tx_after(qp, idx);
	if ((int32_t)(qp->sq_next - qp->sq_top) > 0)
		qp->sq_top = qp->sq_next;
	if (w->op == SOFT_OP_READ)
		qp->reads_out++;
}

bool soft_tx_may_resume(struct soft_qp *qp, uint32_t ack)
{
	uint32_t idx = qp->sq_base + ack;

	return (int32_t)(idx - qp->sq_acked) >= 0 &&
	       (int32_t)(idx - qp->sq_top) <= 0;
}

void soft_tx_resume(struct soft_qp *qp, uint32_t ack)
{
	qp->sq_acked = qp->sq_base + ack;
	qp->sq_next = qp->sq_acked;
	qp->sq_off = 0;
	qp->reads_out = 0;
	qp->rd_idx = qp->sq_una;
	soft_tx_complete(qp);
	/* Go back to READs whose answers were lost. */
	qp->sq_next = skip_done(qp, qp->sq_una);
}

void soft_tx_fail(struct soft_qp *qp, enum ibv_wc_status st)
{
	if (qp->sq_una != soft_sq_tail(qp)) {
		soft_cq_send(qp, qp->sq_una, st);
		qp->sq_una++;
	}
	soft_qp_error(qp);
}

void soft_tx_complete(struct soft_qp *qp)
{
	while (qp->sq_una != qp->sq_next) {
		struct soft_swqe *w = soft_swqe(qp, qp->sq_una);

		if (w->op == SOFT_OP_READ
			    ? !w->done
			    : (int32_t)(qp->sq_acked - qp->sq_una) <= 0)
			return;
		if (w->signaled)
			soft_cq_send(qp, qp->sq_una, IBV_WC_SUCCESS);
		qp->sq_una++;
		qp->rnr_tries = 0;
		qp->progress++;
	}
	/* All WQEs before sq_una are done, so report the error that check_wqe()
	 * found in the WQE at sq_una. */
	if (qp->sq_una != soft_tx_end(qp) && soft_swqe(qp, qp->sq_una)->status)
		soft_tx_fail(qp, soft_swqe(qp, qp->sq_una)->status);
}

/* Return whether the peer may have received a part of the request. */
static bool tx_outstanding(struct soft_qp *qp, uint32_t idx)
{
	const struct soft_conn *conn = qp->conn;

	if (conn && conn->has_cur && conn->cur.kind == SOFT_ITEM_WQE &&
	    !conn->cur_stale && conn->cur.idx == idx)
		return true;
	if (qp->sq_off && qp->sq_next == idx)
		return true;
	return idx - qp->sq_una < qp->sq_next - qp->sq_una;
}

bool soft_tx_ack(struct soft_qp *qp, uint32_t ack)
{
	uint32_t idx = qp->sq_base + ack;

	if ((int32_t)(idx - qp->sq_top) > 0)
		return false;
	if ((int32_t)(idx - qp->sq_acked) <= 0)
		return idx == qp->sq_acked;
	qp->sq_acked = idx;
	soft_tx_complete(qp);
	return true;
}

bool soft_tx_nak(struct soft_qp *qp, uint32_t msn, uint8_t nak)
{
	static const enum ibv_wc_status st[] = {
		[SOFT_NAK_ACCESS] = IBV_WC_REM_ACCESS_ERR,
		[SOFT_NAK_INVALID] = IBV_WC_REM_INV_REQ_ERR,
		[SOFT_NAK_OP] = IBV_WC_REM_OP_ERR,
	};
	uint32_t idx = qp->sq_base + msn;

	/* The ack in the NAK's header has completed all WQEs before idx. */
	if (idx != qp->sq_una || !tx_outstanding(qp, idx))
		return false;
	soft_tx_fail(qp, st[nak]);
	return true;
}

bool soft_tx_rnr(struct soft_qp *qp, uint32_t msn, uint8_t timer)
{
	uint32_t idx = qp->sq_base + msn;

	if (idx != qp->sq_una || !tx_outstanding(qp, idx))
		return false;
	if (qp->attr.rnr_retry != 7 && qp->rnr_tries >= qp->attr.rnr_retry) {
		soft_tx_fail(qp, IBV_WC_RNR_RETRY_EXC_ERR);
		return true;
	}
	if (qp->attr.rnr_retry != 7)
		qp->rnr_tries++;
	qp->progress++;
	/* The peer drops the request at idx and all later ones, so send them
	 * again later. */
	qp->sq_next = idx;
	qp->sq_off = 0;
	qp->rd_idx = idx;
	qp->reads_out = 0;
	qp->rnr_wait = true;
	qp->rnr_at = mpib_now_ns() + rnr_us[timer & 31] * 1000ull;
	if (qp->conn && qp->conn->has_cur &&
	    qp->conn->cur.kind == SOFT_ITEM_WQE)
		qp->conn->cur_stale = true;
	soft_timer_update(qp);
	return true;
}

bool soft_tx_read_awaited(struct soft_qp *qp, uint32_t *idx)
{
	struct soft_swqe *w;

	if ((int32_t)(qp->rd_idx - qp->sq_una) < 0)
		qp->rd_idx = qp->sq_una;
	for (; qp->rd_idx != qp->sq_next; qp->rd_idx++) {
		w = soft_swqe(qp, qp->rd_idx);
		if (w->op == SOFT_OP_READ && !w->done) {
			*idx = qp->rd_idx;
			return true;
		}
	}
	return false;
}

void soft_tx_read_done(struct soft_qp *qp, uint32_t idx)
{
	soft_swqe(qp, idx)->done = true;
	qp->reads_out--;
	soft_tx_complete(qp);
	/* A WQE with a fence, or a READ above max_rd_atomic, may have waited
	 * for this answer. */
	if (qp_state(qp) != IBV_QPS_ERR)
		soft_conn_work(qp);
}

static uint64_t least_patience(struct soft_qp *qp)
{
	if (qp->ctx->paused || qp->peer_gone)
		return 0;
	return qp->conn && qp->conn->state == SOFT_CONN_UP ? PATIENCE_NS
							   : CONNECT_NS;
}

static void ack_expired(struct soft_qp *qp, uint64_t now)
{
	uint64_t least = qp->ack_since + least_patience(qp);

	qp->ack_at = 0;
	if (qp->sq_una == soft_tx_end(qp))
		return;
	if (qp->progress != qp->ack_mark || qp->rnr_wait) {
		tx_arm(qp);
		return;
	}
	if (now < least) {
		qp->ack_at = least;
		return;
	}
	/* Time without turns of this context does not count, because the answer
	 * may have arrived without being read. */
	if (qp->ctx->turn < qp->ack_turn + PATIENCE_TURNS) {
		qp->ack_at = now + SOFT_MS;
		return;
	}
	soft_tx_fail(qp, IBV_WC_RETRY_EXC_ERR);
}

void soft_tx_timers(struct soft_qp *qp, uint64_t now)
{
	if (qp->rnr_at && now >= qp->rnr_at) {
		qp->rnr_at = 0;
		qp->rnr_wait = false;
		soft_conn_work(qp);
	}
	if (qp->send_at && now >= qp->send_at) {
		qp->send_at = 0;
		if (qp->conn)
			qp->conn->tx_blocked = false;
		soft_conn_work(qp);
	}
	if (qp->ack_at && now >= qp->ack_at)
		ack_expired(qp, now);
}
