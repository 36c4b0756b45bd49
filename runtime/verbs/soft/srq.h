/* SPDX-License-Identifier: Apache-2.0 */
/* Receive queues, shared (SRQ) or a QP's own. */
#ifndef MPIB_VERBS_SOFT_SRQ_H
#define MPIB_VERBS_SOFT_SRQ_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "verbs/soft/event.h"

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
/* Take the next receive for qp into qp->recv_*. False: there is none. */
bool soft_recv_take(struct soft_qp *qp);
/* The PD whose regions a receive of qp may name: that of the receive queue. */
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

#endif
