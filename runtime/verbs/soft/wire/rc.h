/* SPDX-License-Identifier: Apache-2.0 */
/* The RC protocol: requester, responder, and pairs inside a context (loop). */
#ifndef MPIB_VERBS_SOFT_RC_H
#define MPIB_VERBS_SOFT_RC_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "verbs/soft/qp.h"
#include "verbs/soft/wire/soft_wire.h"

/* tx.c: the requester. A slot of the send queue contains a WQE, its SGEs, and
 * its inline data. */
static inline struct soft_swqe *soft_swqe(struct soft_qp *qp, uint32_t idx)
{
	return (struct soft_swqe *)(qp->sq +
				    (idx & qp->sq_mask) * qp->sq_stride);
}
static inline struct ibv_sge *soft_sq_sges(struct soft_qp *qp, uint32_t idx)
{
	return (struct ibv_sge *)(soft_swqe(qp, idx) + 1);
}
static inline uint8_t *soft_sq_inline(struct soft_qp *qp, uint32_t idx)
{
	return (uint8_t *)(soft_sq_sges(qp, idx) + qp->cap.max_send_sge);
}
static inline uint32_t soft_sq_tail(struct soft_qp *qp)
{
	/* Acquire pairs with the release in post_chain(). */
	return atomic_load_explicit(&qp->sq_tail, memory_order_acquire);
}
/* Return the index of the first WQE that must not be started yet. */
static inline uint32_t soft_tx_end(struct soft_qp *qp)
{
	return qp_state(qp) == IBV_QPS_RTS ? soft_sq_tail(qp) : qp->sq_una;
}

/* Process new posts to qp: send them, or flush them in ERR. */
void soft_tx_start(struct soft_qp *qp);
/* Start the ack timer because the peer is gone. Outstanding WQEs then fail
 * after their retries. */
void soft_tx_unanswered(struct soft_qp *qp);
/* Return the WQE at idx if it may be sent now, else NULL. */
struct soft_swqe *soft_tx_next(struct soft_qp *qp, uint32_t idx);
void soft_tx_header(struct soft_qp *qp, uint32_t idx, struct soft_hdr *h);
/* Get the memory of the WQE at idx from byte `off` on: the payload to send, or
 * the destination of a READ's answer. */
int soft_tx_iov(struct soft_qp *qp, uint32_t idx, uint64_t off, uint64_t len,
		struct iovec *iov, int max);
/* Return the next index after idx whose WQE is not done. */
uint32_t soft_tx_after(struct soft_qp *qp, uint32_t idx);
/* Record that the payload of the WQE at idx was sent up to byte `off`. */
void soft_tx_sent(struct soft_qp *qp, uint32_t idx, uint32_t off);
/* On a new connection, the peer has reported that it has completed `ack`
 * requests. soft_tx_may_resume() returns whether this number is possible. If
 * so, soft_tx_resume() continues with the first request that the peer has not
 * completed. */
bool soft_tx_may_resume(struct soft_qp *qp, uint32_t ack);
void soft_tx_resume(struct soft_qp *qp, uint32_t ack);
/* Handle the peer's ACK, NAK or RNR of qp's requests. Return false if a correct
 * peer would not send this answer in the current state. Each call may move qp
 * to ERR and close qp->conn. */
bool soft_tx_ack(struct soft_qp *qp, uint32_t ack);
bool soft_tx_nak(struct soft_qp *qp, uint32_t msn, uint8_t nak);
bool soft_tx_rnr(struct soft_qp *qp, uint32_t msn, uint8_t timer);
/* Set *idx to the WQE of the READ that is answered next. Return false if no
 * READ is outstanding. */
bool soft_tx_read_awaited(struct soft_qp *qp, uint32_t *idx);
void soft_tx_read_done(struct soft_qp *qp, uint32_t idx);
void soft_tx_complete(struct soft_qp *qp);
/* Fail the oldest WQE with status `st`, and move qp to ERR. */
void soft_tx_fail(struct soft_qp *qp, enum ibv_wc_status st);
void soft_tx_timers(struct soft_qp *qp, uint64_t now);

/* rx.c: the responder. */
/* Check the request whose header is in qp->rx, and set qp->place. */
void soft_rx_begin(struct soft_qp *qp);
/* Return how many bytes of payload follow header h in the stream. */
uint32_t soft_rx_payload(const struct soft_hdr *h);
/* Fill iov with the destinations of the payload that begins at byte qp->rx_off.
 * For payload that is dropped, iov_base is NULL. Return < 0 if qp may no longer
 * write to the destinations. */
int soft_rx_iov(struct soft_qp *qp, struct iovec *iov, int max);
void soft_rx_end(struct soft_qp *qp);
/* Return whether qp may delay a due ack until a message carries the ack. */
bool soft_ack_waits(struct soft_qp *qp);
/* The connection is gone: drop the partly received message. The peer will send
 * it again. */
void soft_rx_unplug(struct soft_qp *qp);
/* End the request with an error, after soft_rx_iov() failed. */
void soft_rx_abort(struct soft_qp *qp);

/* pairs.c: run both ends of a pair in one context. */
int soft_loop_run(struct soft_qp *qp);

#endif
