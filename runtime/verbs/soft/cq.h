/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues (soft_cq.c) and completion channels (channel.c). */
#ifndef MPIB_VERBS_SOFT_CQ_H
#define MPIB_VERBS_SOFT_CQ_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "verbs/soft/ctx.h"
#include "verbs/soft/soft.h"

#define SOFT_MAX_CQE (1 << 22)

struct soft_qp;

struct soft_channel {
	struct ibv_comp_channel ibv; /* its fd: see channel.c */
	int event_fd; /* in threaded mode equal to ibv.fd */
	pthread_mutex_t lock;
	TAILQ_HEAD(, soft_cq) queue; /* CQs with events to deliver */
	/* number of stray events: threads read them from the fd, but the CQ was
	 * destroyed before the threads handled them */
	unsigned stray;
	LIST_ENTRY(soft_channel) link;
};

struct soft_cqe {
	struct ibv_wc wc;
	/* if `of_sq` is set: index up to which the send queue is free */
	uint32_t sq_done;
	uint32_t life; /* the QP's life when the entry was made */
	bool of_sq; /* completes a send */
};

struct soft_cq {
	union {
		struct ibv_cq ibv;
		struct mpib_soft_cq_ex x;
	};
	uint32_t mask;
	_Atomic uint32_t head, tail;
	struct soft_cqe *ring;
	pthread_mutex_t poll_lock; /* threaded mode: one consumer at a time */
	_Atomic int armed; /* 0: no, 1: any entry, 2: only solicited ones */
	bool overrun;
	unsigned refs; /* number of QPs that use the CQ */
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
/* Wake the threads that wait for an event, because the device is gone. Under
 * ctx->lock. */
void soft_channels_die(struct soft_ctx *ctx);
int soft_create_cq(struct ibv_context *c, int cqe, void *cq_context,
		   struct ibv_comp_channel *ch, struct ibv_cq **out);
int soft_destroy_cq(struct ibv_cq *cq);
int soft_get_cq_event(struct ibv_comp_channel *c, struct ibv_cq **out,
		      void **cq_context);
void soft_ack_cq_events(struct ibv_cq *cq, unsigned nevents);
int soft_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int soft_req_notify_cq(struct ibv_cq *cq, int solicited_only);
bool soft_disarm_cq(struct ibv_cq *cq, bool spoke);
/* Drop the entries of qp that were not polled yet, so that no poll returns
 * them. */
void soft_cq_forget(struct soft_qp *qp);
/* Add an entry for the send WQE at idx of qp. */
void soft_cq_send(struct soft_qp *qp, uint32_t idx, enum ibv_wc_status st);
/* Add an entry for receive qp->recv_wr_id, which the request in qp->rx used. */
void soft_cq_recv(struct soft_qp *qp, enum ibv_wc_status st);

#endif
