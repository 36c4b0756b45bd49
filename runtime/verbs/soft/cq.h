/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues and channels: cq.c, channel.c. */
#ifndef MPIB_VERBS_SOFT_CQ_H
#define MPIB_VERBS_SOFT_CQ_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "verbs/soft/event.h"
#include "verbs/soft/soft.h"

#define SOFT_MAX_CQE (1 << 22)

struct soft_qp;

struct soft_channel {
	struct ibv_comp_channel ibv; /* fd is an epoll set of the four */
	int event_fd;
	pthread_mutex_t lock;
	TAILQ_HEAD(, soft_cq) queue; /* CQs with events to deliver */
	LIST_ENTRY(soft_channel) link;
};

struct soft_cqe {
	struct ibv_wc wc;
	uint32_t sq_done; /* with of_sq: the send queue is free up to here */
	uint32_t life; /* of the QP, when it was made */
	bool of_sq;
	uint64_t ns; /* when it was made, if the CQ is stamped */
};

struct soft_cq {
	union {
		struct ibv_cq ibv;
		struct mpib_soft_cq_ex x;
	};
	uint32_t mask;
	_Atomic uint32_t head, tail;
	struct soft_cqe *ring;
	pthread_mutex_t poll_lock; /* the consumer's, in threaded mode */
	_Atomic int armed; /* 0, 1: any, 2: solicited only */
	uint32_t made; /* entries; tail says how many are shown */
	bool held, held_solicited;
	TAILQ_ENTRY(soft_cq) held_link;
	bool overrun, stamped;
	unsigned refs;
	TAILQ_ENTRY(soft_cq) ch_link;
	uint32_t ch_pending, ch_taken; /* under the channel's lock */
	struct soft_events ev;
};

static inline struct soft_cq *to_cq(struct ibv_cq *q)
{
	return (struct soft_cq *)q;
}

int soft_create_channel(struct ibv_context *c, struct ibv_comp_channel **out);
int soft_destroy_channel(struct ibv_comp_channel *ch);
void soft_channel_push(struct soft_channel *ch, struct soft_cq *cq);
void soft_channel_forget(struct soft_channel *ch, struct soft_cq *cq);
int soft_create_cq(struct ibv_context *c, int cqe, void *cq_context,
		   struct ibv_comp_channel *ch, struct ibv_cq **out);
int soft_destroy_cq(struct ibv_cq *cq);
int soft_get_cq_event(struct ibv_comp_channel *c, struct ibv_cq **out,
		      void **cq_context);
void soft_ack_cq_events(struct ibv_cq *cq, unsigned nevents);
int soft_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int soft_req_notify_cq(struct ibv_cq *cq, int solicited_only);
bool soft_disarm_cq(struct ibv_cq *cq);
/* What qp has completed and nobody has polled yet is gone. */
void soft_cq_forget(struct soft_qp *qp);
void soft_cq_send(struct soft_qp *qp, uint32_t idx, enum ibv_wc_status st);
/* From now on entries of qp's receive queue are shown when its acks have left,
 * or could not: who sees a completion may exit at once, and the peer must not
 * take that for a failure. */
void soft_cq_hold(struct soft_qp *qp);
/* At the end of a turn: show what was held. */
void soft_cq_publish(struct soft_ctx *ctx);
/* Of the receive in qp->recv_wr_id, for the request in qp->rx. */
void soft_cq_recv(struct soft_qp *qp, enum ibv_wc_status st);

#endif
