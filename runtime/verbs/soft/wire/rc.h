/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol of a reliable connection: requester, responder, loop. */
#ifndef MPIB_VERBS_SOFT_RC_H
#define MPIB_VERBS_SOFT_RC_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "verbs/soft/qp.h"
#include "verbs/soft/wire/wire.h"

/* tx.c: the requester. */
static inline struct soft_swqe *soft_swqe(struct soft_qp *qp, uint32_t idx)
{
	return &qp->swqe[idx & qp->sq_mask];
}
static inline uint32_t soft_sq_tail(struct soft_qp *qp)
{
	/* Acquire pairs with the release in post_chain(). */
	return atomic_load_explicit(&qp->sq_tail, memory_order_acquire);
}
/* qp has been posted to. */
void soft_tx_start(struct soft_qp *qp);
/* The peer is gone: what waits fails when its retries are used up. */
void soft_tx_unanswered(struct soft_qp *qp);
/* The WQE at idx if it may be sent now; else NULL. */
struct soft_swqe *soft_tx_next(struct soft_qp *qp, uint32_t idx);
void soft_tx_header(struct soft_qp *qp, uint32_t idx, struct soft_hdr *h);
int soft_tx_iov(struct soft_qp *qp, uint32_t idx, uint64_t off, uint64_t len,
		struct iovec *iov, int max);
/* The one that follows idx and is not done. */
uint32_t soft_tx_after(struct soft_qp *qp, uint32_t idx);
/* The payload of idx has left up to byte off. */
void soft_tx_sent(struct soft_qp *qp, uint32_t idx, uint32_t off);
/* Connected again: the peer has done ack requests, the rest is to be sent. */
bool soft_tx_may_resume(struct soft_qp *qp, uint32_t ack);
void soft_tx_resume(struct soft_qp *qp, uint32_t ack);
/*
 * The peer's word on our requests. False: it lies, or the order of its
 * answers cannot be. Each may end in ERR and cost the QP its connection.
 */
bool soft_tx_ack(struct soft_qp *qp, uint32_t ack);
bool soft_tx_nak(struct soft_qp *qp, uint32_t msn, uint8_t nak);
bool soft_tx_rnr(struct soft_qp *qp, uint32_t msn, uint8_t timer);
/* The READ that must be answered next. False: none waits. */
bool soft_tx_read_awaited(struct soft_qp *qp, uint32_t *idx);
void soft_tx_read_done(struct soft_qp *qp, uint32_t idx);
void soft_tx_complete(struct soft_qp *qp);
/* The oldest WQE fails, the QP goes to ERR. */
void soft_tx_fail(struct soft_qp *qp, enum ibv_wc_status st);
void soft_tx_timers(struct soft_qp *qp, uint64_t now);

/* rx.c: the responder. */
/* The header of a request is in qp->rx: decides qp->place. */
void soft_rx_begin(struct soft_qp *qp);
/* Bytes that follow the header in the stream. */
uint32_t soft_rx_payload(const struct soft_hdr *h);
/* Pieces for the payload from qp->rx_off on, without a base where it is dropped;
 * < 0: no longer ours to write. */
int soft_rx_iov(struct soft_qp *qp, struct iovec *iov, int max);
void soft_rx_end(struct soft_qp *qp);
/* Nothing but an ack is due, and it may still wait. */
bool soft_ack_waits(struct soft_qp *qp);
/* What came in part comes again. */
void soft_rx_unplug(struct soft_qp *qp);
/* rx_iov refused: end the request with an error. */
void soft_rx_abort(struct soft_qp *qp);

/* loop.c: both ends in one context. */
int soft_loop_run(struct soft_qp *qp);

#endif
