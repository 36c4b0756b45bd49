/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs: life (qp.c), transitions (state.c), posts (post.c). */
#ifndef MPIB_VERBS_SOFT_QP_H
#define MPIB_VERBS_SOFT_QP_H

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "verbs/soft/event.h"
#include "verbs/soft/soft.h"
#include "verbs/soft/srq.h"
#include "verbs/soft/wire/wire.h"

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
	uint8_t status; /* enum ibv_wc_status found before it was sent */
	bool signaled, solicited, fence, is_inline, done;
	bool counted; /* by soft_fault_drops() */
};

/* Where the payload that is arriving goes. */
enum soft_place {
	SOFT_PLACE_NONE, /* between messages */
	SOFT_PLACE_RKEY,
	SOFT_PLACE_RECV, /* the receive WQE in qp->recv */
	SOFT_PLACE_READ, /* the SGEs of the send WQE read_idx */
	SOFT_PLACE_DROP,
	SOFT_PLACE_FORGET, /* nowhere, and yet it is acknowledged */
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
	unsigned mask_seen; /* of attr */

	/* Requester. Indices run free; msn = index - sq_base. */
	struct soft_swqe *swqe;
	struct ibv_sge *ssge;
	uint8_t *sinline;
	uint32_t sq_mask;
	_Atomic uint32_t sq_tail; /* post_send -> turn */
	uint32_t sq_next; /* first not sent whole */
	uint32_t sq_off; /* bytes of it that have left */
	uint32_t sq_top; /* first that has never left */
	uint32_t sq_una; /* first not completed */
	uint32_t sq_acked;
	uint32_t sq_base;
	uint32_t rd_idx, reads_out;
	uint8_t rnr_tries;
	bool rnr_wait;
	uint64_t progress; /* counts whatever the peer lets us do */
	uint64_t ack_mark; /* progress when ack_at was set */
	uint64_t ack_since, ack_turn;

	/* Responder. */
	struct soft_rwq rq;
	uint32_t rx_msn; /* next request expected, and our ack */
	uint32_t ack_sent;
	uint64_t ack_by; /* turn: until then an ack waits for company */
	bool ack_now; /* on ctx->ack_due */
	TAILQ_ENTRY(soft_qp) ack_link;
	enum soft_place place;
	struct soft_hdr rx;
	uint32_t rx_off, rx_seg; /* bytes of it; end of the segment */
	bool has_recv;
	uint64_t recv_wr_id;
	uint32_t recv_nsge;
	struct ibv_sge recv_sge[SOFT_MAX_SGE];
	uint8_t nak; /* enum soft_nak or 0, to send for rx_msn */
	bool rnr; /* to send for rx_msn */
	bool dying; /* error as soon as the NAK has left */
	struct soft_hdr resp[SOFT_MAX_RD]; /* READs to answer */
	uint32_t resp_head, resp_tail;
	uint32_t resp_off; /* bytes of the first answer that have left */

	/* The way to the peer. */
	struct in_addr peer_addr;
	bool loop, was_up;
	bool peer_gone; /* for good */
	uint32_t life, peer_life; /* peer_life 0: never connected */
	uint64_t up_mark; /* progress when the connection came up */
	struct soft_conn *conn;
	bool ready; /* on ctx->loop_ready */
	TAILQ_ENTRY(soft_qp) ready_link;
	_Atomic int belled;
	struct soft_qp *bell_next;
	uint64_t hold_until; /* turn */
	uint64_t conn_backoff;

	/* 0: not set. On ctx->timers when any is. */
	uint64_t conn_at, rnr_at, ack_at;
	bool timed;
	TAILQ_ENTRY(soft_qp) timer_link;

	struct soft_events ev;
	uint32_t idx;
};

struct soft_qp_slot {
	struct soft_qp *qp; /* under ctx->lock */
	/* qpn << 32 | sq_done. poll_cq moves it forward, post_send reads. */
	_Atomic uint64_t sq_done;
	/* A QP that is destroyed or reset takes its completions with it. */
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
int soft_query_ece(struct ibv_qp *qp, struct ibv_ece *ece);
int soft_set_ece(struct ibv_qp *qp, const struct ibv_ece *ece);
int soft_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		  struct ibv_qp_init_attr *init);
struct soft_qp *soft_qp_find(struct soft_ctx *ctx, uint32_t qpn);
int soft_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
void soft_qp_set_state(struct soft_qp *qp, int state);
/* To ERR: cut the connection, flush both queues. */
void soft_qp_error(struct soft_qp *qp);
/* Flush what was posted in ERR. */
void soft_qp_flush(struct soft_qp *qp);

int soft_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		   struct ibv_send_wr **bad);

#endif
