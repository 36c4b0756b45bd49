/* SPDX-License-Identifier: Apache-2.0 */
/* Polls the CQs of both rails and dispatches each completion to its QP, lane
 * and connection. If a completion failed, only its wr_id, status and qp_num are
 * valid, see ibv_poll_cq(3). Shard thread. */
#include <endian.h>

#include "base/crash.h"
#include "engine/conn/conn.h"
#include "engine/kept.h"
#include "engine/lane/spread.h"
#include "engine/recovery/stop.h"
#include "engine/trace.h"

#define BATCHES_PER_TURN 4

/* Find a QP that is not in the cache of recent ones. */
static struct mpib_lane_qp *look_up_qp(struct mpib_rail *rail, uint32_t qpn)
{
	struct mpib_lane_qp *q;

	HASH_FIND(hh, rail->qps, &qpn, sizeof(qpn), q);
	if (q)
		rail->recent[qpn % MPIB_RECENT_QPS] = q;
	return q;
}

static inline struct mpib_lane_qp *find_qp(struct mpib_rail *rail, uint32_t qpn)
{
	struct mpib_lane_qp *q = rail->recent[qpn % MPIB_RECENT_QPS];

	return q && q->qpn == qpn ? q : look_up_qp(rail, qpn);
}

/* Return the receiving connection of the IMM. A v1 IMM contains no connection,
 * because its lane has only one. */
static struct engine_conn *cq_conn_of(struct mpib_shard *s,
				      struct mpib_lane_qp *q, uint32_t imm)
{
	struct engine_conn *f;
	uint32_t id;

	if (q->lane->imm_version == MPIB_IMM_V1) {
		f = TAILQ_FIRST(&q->lane->conns);
	} else {
		id = mpib_imm_v2_conn(imm);
		f = id < ENGINE_CONNS_MAX ? s->conn[id] : NULL;
	}
	if (!f || f->lane != q->lane || f->is_sender)
		return NULL;
	return f;
}

static inline void cq_arrived(struct mpib_shard *s, struct mpib_lane_qp *q,
			      uint32_t imm, uint32_t bytes)
{
	struct engine_conn *f = cq_conn_of(s, q, imm);

	if (f && f->state == ENGINE_CONN_OPEN) {
		mpib_receiver_arrived(f, q->rail, q->qpn, imm, bytes);
		return;
	}
	q->lane->n[q->rail].rx_imms++;
	s->rail[q->rail].n.bad_imms += !f;
}

/* Handle waiting IMMs whose numbered fragments have now all arrived. The IMMs
 * came on the rail's first QP. The epoch of the IMMs needs no check, because a
 * fence resets the virtual QP. */
static void arrived_whole(struct mpib_shard *s, struct mpib_lane_qp *q)
{
	struct mpib_lane_qp *first = &q->lane->qp[q->rail][0];
	uint32_t imm, bytes;

	while (mpib_spread_next(q, &imm, &bytes))
		cq_arrived(s, first, imm, bytes);
}

/* Handle an IMM on a dqplb lane. True: the IMM is the number of a fragment,
 * waits for fragments, or has broken the lane. False: the caller must handle
 * the IMM. */
static bool cq_waits(struct mpib_shard *s, struct mpib_lane_qp *q, uint32_t imm,
		     uint32_t bytes)
{
	int rc = mpib_spread_received(q, imm, bytes);

	if (rc < 0)
		mpib_lane_break(q->lane, rc,
				"rail %s: peer %s numbers or ends parts that "
				"it cannot have begun",
				mpib_rail_label(s, q->rail), q->lane->peer);
	else if (rc > 0)
		arrived_whole(s, q);
	return rc != 0;
}

/* Count and drop an IMM that was posted before a fence. */
static void drop_stale(struct mpib_rail *rail, struct mpib_lane_qp *q)
{
	rail->n.stale_imms++;
	q->lane->n[q->rail].rx_imms++;
}

__attribute__((always_inline)) static inline void
receive_completed(struct mpib_shard *s, unsigned r, const struct ibv_wc *wc)
{
	struct mpib_rail *rail = mpib_kept(&s->rail[r]);
	struct mpib_lane_qp *q = find_qp(rail, wc->qp_num);
	uint32_t imm = be32toh(wc->imm_data);

	MPIB_TRACE(cqe, r, wc->qp_num, wc->status, imm, wc->byte_len);
	/* If the QP is gone, its tenant is unknown, so the tenant's count of
	 * posted receives still includes this receive. */
	if (!q) {
		rail->n.bad_imms++;
		return;
	}
	mpib_srq_taken(q->lane->tenant, r);
	if (wc->status != IBV_WC_SUCCESS) {
		if (!mpib_lane_fault(q->lane, r, MPIB_CAUSE_ERROR))
			mpib_lane_break(q->lane, -EIO,
					"rail %s: receive on QP 0x%x: %s",
					mpib_rail_label(s, r), wc->qp_num,
					ibv_wc_status_str(wc->status));
		return;
	}
	if (q->lane->rail[r].state == MPIB_RAIL_STOPPED) {
		drop_stale(rail, q);
		return;
	}
	if (q->lane->numbered && cq_waits(s, q, imm, wc->byte_len)) {
		/* Count fragments here. An IMM that waits is counted later, by
		 * its connection. */
		q->lane->n[r].rx_imms += q != &q->lane->qp[r][0];
		return;
	}
	if (q->lane->imm_version == MPIB_IMM_V2 &&
	    mpib_imm_v2_epoch(imm) != (q->lane->epoch[r] & 3)) {
		drop_stale(rail, q);
		return;
	}
	cq_arrived(s, q, imm, wc->byte_len);
}

/* Return whether the WR itself was invalid, so that it would fail on any rail.
 * LOC_QP_OP_ERR is not in the list, because soft-RoCE reports it for any WR
 * while its port has no route. */
static bool cq_condemned(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_LOC_LEN_ERR:
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_LOC_ACCESS_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_ACCESS_ERR:
		return true;
	default:
		return false;
	}
}

/*
 * A send WR failed: fence the rail or break the lane. True: the lane continues
 * over its other rail.
 *
 * If the WR would fail on any rail, its connection breaks. But REM_ACCESS_ERR
 * also occurs while the peer's proxy ends, or after the peer's rank has lost
 * this connection. So if connections can resume, REM_ACCESS_ERR breaks the
 * lane, and the connections continue on another lane. The receiver's rank then
 * posts its memory again, or reports that the memory is gone.
 */
static bool send_failed(struct mpib_lane_qp *q, struct engine_conn *f,
			unsigned r, const struct ibv_wc *wc)
{
	struct mpib_lane *lane = q->lane;
	bool refused = wc->status == IBV_WC_REM_ACCESS_ERR &&
		       lane->shard->engine->cfg.resume;

	if (f && f->lane == lane && cq_condemned(wc->status) && !refused)
		engine_conn_break(f, -EIO, "rail %s: QP 0x%x to %s: %s",
				  mpib_rail_label(lane->shard, r), wc->qp_num,
				  lane->peer, ibv_wc_status_str(wc->status));
	if (!refused && mpib_lane_fault(lane, r, MPIB_CAUSE_ERROR))
		return true;
	mpib_lane_break(lane, -EIO, "rail %s: QP 0x%x to %s: %s",
			mpib_rail_label(lane->shard, r), wc->qp_num, lane->peer,
			ibv_wc_status_str(wc->status));
	return false;
}

/* Return the connection whose WR completed. A last WR or a probe belongs to a
 * QP, not to a connection. */
static inline struct engine_conn *
poster_of(struct mpib_shard *s, enum mpib_wr_kind kind, uint64_t wr_id)
{
	if (kind == MPIB_WR_LAST || kind == MPIB_WR_PROBE)
		return NULL;
	return s->conn[mpib_wr_conn(wr_id) & (ENGINE_CONNS_MAX - 1)];
}

/* Report a send completion to its connection. If `fenced` is true, a fence will
 * determine which stripes were lost. */
__attribute__((always_inline)) static inline void
tell_poster(struct engine_conn *f, unsigned r, enum mpib_wr_kind kind,
	    uint64_t wr_id, bool ok, bool fenced)
{
	uint32_t op = mpib_wr_op(wr_id);

	/* Clear the bit even if the write failed: in that case the rail's fence
	 * ends all writes on the rail. */
	if (kind == MPIB_WR_STOP)
		f->stop_posted &= (uint8_t)~mpib_rail_bit(r);
	if (fenced)
		return;
	if (kind == MPIB_WR_OP && ok && r == MPIB_RAIL_SOUT)
		mpib_sender_sout_acked(f, op);
	else if (kind == MPIB_WR_OP && ok)
		mpib_sender_sup_acked(f, op);
	else if (kind == MPIB_WR_OP)
		mpib_sender_completed(f, op, mpib_rail_bit(r), ok);
	else if (kind == MPIB_WR_REPLAY)
		mpib_sender_completed(f, op, (uint8_t)(op >> 8), ok);
	else if (kind == MPIB_WR_STOP)
		engine_conn_check_stopped(f);
}

/* Handle a send completion. Most completions belong to send ops, so
 * cq_completed() passes that kind as a constant. The compiler then removes the
 * tests for other kinds. */
__attribute__((always_inline)) static inline void
send_completed(struct mpib_shard *s, unsigned r, const struct ibv_wc *wc,
	       enum mpib_wr_kind kind)
{
	struct mpib_rail *rail = mpib_kept(&s->rail[r]);
	struct mpib_lane_qp *q = find_qp(rail, wc->qp_num);
	uint64_t wr_id = wc->wr_id;
	struct engine_conn *f = poster_of(s, kind, wr_id);
	bool ok = wc->status == IBV_WC_SUCCESS, fenced;
	struct mpib_lane *lane;

	MPIB_TRACE(cqe, r, wc->qp_num, wc->status, wr_id, 0);
	/* If the QP is gone, the wr_id may refer to a later connection. */
	if (!q) {
		rail->n.n.tx_cqes++;
		return;
	}
	lane = q->lane;
	if (f)
		f->n[r].tx_cqes++;
	else
		lane->n[r].tx_cqes++;
	fenced = lane->rail[r].state == MPIB_RAIL_STOPPED;
	mpib_qp_retire(q, r, wr_id);
	if (!ok)
		fenced = send_failed(q, f, r, wc);
	if (kind == MPIB_WR_SPREAD)
		mpib_spread_sent(q, wr_id, ok);
	else if (kind == MPIB_WR_PROBE)
		mpib_rail_probed(lane, r, ok);
	else if (f)
		tell_poster(f, r, kind, wr_id, ok, fenced);
	if (lane->rail[r].stopped)
		mpib_rail_check_stopped(lane, r);
	if (lane->kill)
		mpib_lane_check_stopped(lane);
}

/* Handle the completion of a READ on a loop-back QP. Such a QP has no lane. The
 * connection still exists, because it stops only after its READs have
 * completed. */
static void read_completed(struct mpib_shard *s, unsigned r,
			   const struct ibv_wc *wc)
{
	mpib_flush_read(s->conn[mpib_wr_conn(wc->wr_id)], r,
			mpib_wr_op(wc->wr_id), wc->status == IBV_WC_SUCCESS,
			cq_condemned(wc->status));
}

/* Return whether the status counts as an error. A flush error does not count:
 * either another error preceded it, or the QP was deliberately moved to ERR, to
 * end a lane or to stop a rail. */
static inline bool is_error(enum ibv_wc_status status)
{
	return status != IBV_WC_SUCCESS && status != IBV_WC_WR_FLUSH_ERR;
}

/* Handle the completion of a WR that does not belong to a send op. */
static void other_completed(struct mpib_shard *s, unsigned r,
			    const struct ibv_wc *wc)
{
	enum mpib_wr_kind kind = mpib_wr_kind(wc->wr_id);

	if (kind == MPIB_WR_FLUSH)
		read_completed(s, r, wc);
	else
		send_completed(s, r, wc, kind);
}

/* Handle the n completions in s->wc. Then poll and handle more, up to a
 * limit. */
__attribute__((always_inline)) static inline int
cq_completed(struct mpib_shard *s, unsigned r, int n)
{
	struct mpib_rail *rail = &s->rail[r];
	int total = 0;

	for (int b = 1; n > 0; b++) {
		for (const struct ibv_wc *wc = s->wc; wc != s->wc + n; wc++) {
			if (is_error(wc->status))
				rail->n.cqe_errors++;
			/* The wr_id of a receive is 0, the wr_id of a send is
			 * not. */
			if (wc->wr_id == 0)
				receive_completed(s, r, wc);
			else if (mpib_wr_kind(wc->wr_id) == MPIB_WR_OP)
				send_completed(s, r, wc, MPIB_WR_OP);
			else
				other_completed(s, r, wc);
		}
		rail->n.cqes += (uint64_t)n;
		total += n;
		if (n < MPIB_CQ_BATCH || b == BATCHES_PER_TURN)
			break;
		n = ibv_poll_cq(rail->cq, MPIB_CQ_BATCH, s->wc);
	}
	return total;
}

/* There is one function per rail, so that the compiler knows the rail. The
 * functions are not inlined into mpib_cq_turn(), because a poll usually finds
 * nothing. */
__attribute__((noinline)) static int sout_completed(struct mpib_shard *s, int n)
{
	return cq_completed(s, MPIB_RAIL_SOUT, n);
}

__attribute__((noinline)) static int sup_completed(struct mpib_shard *s, int n)
{
	return cq_completed(s, MPIB_RAIL_SUP, n);
}

static inline int poll_rail(struct mpib_shard *s, unsigned r)
{
	struct mpib_rail *rail = &s->rail[r];
	int n = rail->lost ? 0 : ibv_poll_cq(rail->cq, MPIB_CQ_BATCH, s->wc);

	if (n <= 0)
		return 0;
	return r == MPIB_RAIL_SOUT ? sout_completed(s, n) : sup_completed(s, n);
}

int mpib_cq_turn(struct mpib_shard *s)
{
	int n;

	/* 0: this thread now works for peers, not for a client */
	mpib_works_for = 0;
	n = poll_rail(s, MPIB_RAIL_SOUT);
	return s->engine->cfg.rails == 1 ? n : n + poll_rail(s, MPIB_RAIL_SUP);
}

void mpib_cq_poll_all(struct mpib_shard *s)
{
	for (int i = 0; i < 64 && mpib_cq_turn(s) > 0; i++)
		;
}

int mpib_cq_whole_turn(struct mpib_shard *s)
{
	struct mpib_vwc wc[16];
	int n, total = 0;

	if (!mpib_vcq_busy(s->vcq))
		return 0;
	do {
		n = mpib_vcq_take(s->vcq, 16, wc);
		for (int i = 0; i < n; i++)
			mpib_sender_completed(
				s->conn[mpib_wr_conn(wc[i].wr_id)],
				mpib_wr_op(wc[i].wr_id),
				mpib_rail_bit(wc[i].qp_num), true);
		total += n;
	} while (n == 16);
	return total;
}
