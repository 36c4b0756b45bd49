/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs and shared receive queues by libibverbs.
 */
#include "verbs/rdma/internal.h"

int mpib_rdma_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr,
			 struct ibv_srq **srq)
{
	struct ibv_srq *s;

	errno = 0;
	s = ibv_create_srq(pd, attr);
	if (!s)
		return mpib_rdma_err();
	*srq = s;
	return 0;
}

int mpib_rdma_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr,
			 int mask)
{
	return -ibv_modify_srq(srq, attr, mask);
}

int mpib_rdma_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	return -ibv_query_srq(srq, attr);
}

int mpib_rdma_destroy_srq(struct ibv_srq *srq)
{
	return -ibv_destroy_srq(srq);
}

int mpib_rdma_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
			struct ibv_qp **qp)
{
	struct ibv_qp *q;

	errno = 0;
	q = ibv_create_qp(pd, attr);
	if (!q)
		return mpib_rdma_err();
	*qp = q;
	return 0;
}

int mpib_rdma_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	return -ibv_modify_qp(qp, attr, mask);
}

int mpib_rdma_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		       struct ibv_qp_init_attr *init)
{
	return -ibv_query_qp(qp, attr, mask, init);
}

int mpib_rdma_destroy_qp(struct ibv_qp *qp)
{
	return -ibv_destroy_qp(qp);
}

int mpib_rdma_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return -ibv_query_ece(qp, ece);
}

int mpib_rdma_set_ece(struct ibv_qp *qp, const struct ibv_ece *ece)
{
	struct ibv_ece copy = *ece;

	return -ibv_set_ece(qp, &copy);
}
