/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs: creation, queries and states (qp.c), posts (soft_post.c). */
#ifndef MPIB_VERBS_SOFT_QP_H
#define MPIB_VERBS_SOFT_QP_H

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "verbs/soft/ctx.h"
#include "verbs/soft/soft.h"
#include "verbs/soft/wire/soft_wire.h"

/* Receive queues, shared (SRQ) or a QP's own. */

#define SOFT_MAX_SGE 30
#define SOFT_MAX_WR 32768

struct soft_pd;
struct soft_qp;

struct soft_rwqe {
	uint64_t wr_id;
	uint32_t nsge;
};

struct soft_rwq {
	uint32_t mask, max_sge;
	_Atomic uint32_t head, tail;
	struct soft_rwqe *wqe;
	struct ibv_sge *sge;
};

struct soft_srq {
	struct ibv_srq ibv;
	struct soft_rwq rq;
	uint32_t limit;
	unsigned refs;
	struct soft_events ev;
};

static inline struct soft_srq *to_srq(struct ibv_srq *q)
{
	return (struct soft_srq *)q;
}

int soft_rwq_init(struct soft_rwq *rq, uint32_t max_wr, uint32_t max_sge);
void soft_rwq_free(struct soft_rwq *rq);
int soft_rwq_post(struct soft_rwq *rq, struct ibv_recv_wr *wr,
		  struct ibv_recv_wr **bad);
/* Copy the next receive for qp to qp->recv_*. False: none is posted. */
bool soft_recv_take(struct soft_qp *qp);
/* Return the PD of the receive queue. A receive of qp may use only regions of
 * this PD. */
struct soft_pd *soft_recv_pd(struct soft_qp *qp);
int soft_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr,
		    struct ibv_srq **out);
int soft_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
int soft_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int soft_destroy_srq(struct ibv_srq *srq);
int soft_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
		       struct ibv_recv_wr **bad);
int soft_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
		   struct ibv_recv_wr **bad);

#define SOFT_MAX_INLINE 256
#define SOFT_MAX_RD 16
#define SOFT_NQP 65536

struct soft_conn;
struct soft_cq;
struct soft_ctx;
struct soft_pd;

struct soft_swqe {
	uint64_t wr_id, raddr;
	uint32_t rkey, imm, len, nsge;
	uint8_t op; /* enum soft_wire_op */
	uint8_t wc_op; /* enum ibv_wc_opcode */
	uint8_t status; /* enum ibv_wc_status: error found before sending */
	bool signaled, solicited, fence, is_inline;
	bool done; /* READs: the answer has arrived */
};

/* The destination of the payload of the message that is arriving. */
enum soft_place {
	SOFT_PLACE_NONE, /* between messages */
	SOFT_PLACE_RKEY, /* a WRITE: the region of its rkey */
	SOFT_PLACE_RECV, /* a SEND: the receive in qp->recv_sge */
	SOFT_PLACE_READ, /* an answer to a READ: the SGEs of the READ's WQE */
	SOFT_PLACE_DROP, /* the payload is dropped */
};

struct soft_qp {
	union {
		struct ibv_qp ibv;
		struct mpib_soft_qp_ex x;
	};
	struct soft_ctx *ctx;
	struct soft_pd *pd;
	struct soft_cq *scq, *rcq;
	struct soft_srq *srq;
	struct ibv_qp_cap cap;
	bool sig_all;
	_Atomic int state; /* enum ibv_qp_state */
	struct ibv_qp_attr attr;

	/* Requester. Indices are free-running. The msn of a WQE is its index
	 * minus sq_base. */
	uint8_t *sq; /* slots of sq_stride bytes, see soft_swqe() */
	size_t sq_stride;
	uint32_t sq_mask;
	_Atomic uint32_t sq_tail; /* written by post_send, read by the turn */
	uint32_t sq_next; /* first WQE that was not sent completely */
	uint32_t sq_off; /* bytes already sent of the WQE at sq_next */
	uint32_t sq_top; /* first WQE that was never sent completely */
	uint32_t sq_una; /* first WQE that is not complete */
	uint32_t sq_acked; /* first WQE that the peer has not acked */
	uint32_t sq_base; /* index of the WQE with msn 0 */
	/* `rd_idx`: where to start the search for the READ that is answered
	 * next. `reads_out`: number of READs sent but not answered. */
	uint32_t rd_idx, reads_out;
	uint8_t rnr_tries;
	bool rnr_wait; /* send nothing until rnr_at */
	uint64_t progress; /* grows when bytes move or a WQE completes */
	uint64_t came; /* number of socket reads that brought bytes */
	uint64_t ack_mark; /* `progress` when `ack_at` was set */
	uint64_t ack_since, ack_turn; /* time and turn when `ack_at` was set */

	/* Responder. */
	struct soft_rwq rq;
	/* msn of the next request expected; sent to the peer as `ack` */
	uint32_t rx_msn;
	uint32_t ack_sent; /* the last ack that was sent */
	uint64_t ack_by; /* turn until which an ack may wait, see rx.c */
	enum soft_place place;
	struct soft_hdr rx; /* header of the message that is arriving */
	/* payload bytes placed; end of the current segment */
	uint32_t rx_off, rx_seg;
	bool has_recv; /* recv_* is the receive of the message in `rx` */
	uint64_t recv_wr_id;
	uint32_t recv_nsge;
	struct ibv_sge recv_sge[SOFT_MAX_SGE];
	uint8_t nak; /* enum soft_nak to send for rx_msn; 0: none */
	bool rnr; /* an RNR is to be sent for rx_msn */
	/* the QP has stopped reading, and goes to ERR after the NAK is sent */
	bool dying;
	/* NAK and msn of the refused request, kept for the next connection;
	 * `refusal` 0: no request was refused */
	uint8_t refusal;
	uint32_t refused;
	struct soft_hdr resp[SOFT_MAX_RD]; /* READs to answer */
	uint32_t resp_head, resp_tail;
	uint32_t resp_off; /* bytes already sent of the first answer */

	/* The connection to the peer. */
	struct in_addr peer_addr;
	bool loop, was_up; /* `loop`: the peer is in the same context */
	bool peer_gone; /* the peer is gone for good */
	uint32_t life, peer_life; /* `peer_life` 0: never connected */
	uint32_t peer_rq_psn; /* first PSN that the peer expects */
	/* tokens in the hellos; `peer_token` 0: unknown, accept any */
	uint64_t token, peer_token;
	uint64_t up_mark; /* `progress` when the connection came up */
	struct soft_conn *conn;
	bool ready; /* on ctx->loop_ready */
	TAILQ_ENTRY(soft_qp) ready_link;
	_Atomic int belled; /* on ctx->bell */
	struct soft_qp *bell_next;
	/* end of a delay: a turn number, or with fault.delay_ns a time in ns */
	uint64_t hold_until;
	uint64_t conn_backoff;

	/* Times in ns; 0: not set. qp is on ctx->timers when any is set. At
	 * `die_at` qp goes to ERR. */
	uint64_t conn_at, rnr_at, ack_at, send_at, die_at;
	bool timed;
	TAILQ_ENTRY(soft_qp) timer_link;

	struct soft_events ev;
	uint32_t idx;
};

struct soft_qp_slot {
	struct soft_qp *qp; /* under ctx->lock */
	/* qpn << 32 | index up to which the send queue is free. poll_cq
	 * advances the index, and post_send reads it. */
	_Atomic uint64_t sq_done;
	/* Changes when the QP is destroyed or reset. CQ entries with another
	 * value are dropped. */
	_Atomic uint32_t life;
};

static inline struct soft_qp *to_qp(struct ibv_qp *q)
{
	return (struct soft_qp *)q;
}

static inline int qp_state(struct soft_qp *qp)
{
	/* Acquire pairs with the release in soft_qp_set_state(). */
	return atomic_load_explicit(&qp->state, memory_order_acquire);
}

int soft_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
		   struct ibv_qp **out);
int soft_destroy_qp(struct ibv_qp *qp);
/* Get the token of qp, or set the token of its peer, in the form of an ECE. The
 * owners of both QPs exchange the tokens over a channel that is closed to
 * strangers. Each owner sets the peer's token before RTR. */
int soft_query_ece(struct ibv_qp *qp, struct ibv_ece *ece);
int soft_set_ece(struct ibv_qp *qp, const struct ibv_ece *ece);
int soft_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		  struct ibv_qp_init_attr *init);
struct soft_qp *soft_qp_find(struct soft_ctx *ctx, uint32_t qpn);
int soft_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
/* Move qp to ERR: leave the connection, flush both queues. */
void soft_qp_error(struct soft_qp *qp);
/* Flush the WRs that were posted after qp went to ERR. */
void soft_qp_flush(struct soft_qp *qp);

int soft_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		   struct ibv_send_wr **bad);

/* The attributes that ibv_modify_qp() accepts for an RC queue pair. The
 * simulated HCA of the tests has the same rules. Any thread. */

/* Check attributes for a QP in state `from`. Return 0, or -EINVAL if such a QP
 * does not accept them. */
int soft_modify_check(int from, const struct ibv_qp_attr *attr, int mask);
/* Copy the attributes named in `mask` from `a` to `q`. */
void soft_modify_apply(struct ibv_qp_attr *q, const struct ibv_qp_attr *a,
		       int mask);

#endif
