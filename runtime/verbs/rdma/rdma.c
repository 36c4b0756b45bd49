/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs table of the provider on libibverbs (rdma-core). */
#include "verbs/rdma/internal.h"

#include <errno.h>

static int rdma_no_bell(void)
{
	return -EOPNOTSUPP;
}

const struct mpib_verbs mpib_verbs_rdma = {
	.name = "rdma",
	.open = mpib_rdma_open,
	.close = mpib_rdma_close,
	.query_port = mpib_rdma_query_port,
	.alloc_pd = mpib_rdma_alloc_pd,
	.dealloc_pd = mpib_rdma_dealloc_pd,
	.reg_mr = mpib_rdma_reg_mr,
	.reg_dmabuf_mr = mpib_rdma_reg_dmabuf_mr,
	.dereg_mr = mpib_rdma_dereg_mr,
	.create_comp_channel = mpib_rdma_create_channel,
	.destroy_comp_channel = mpib_rdma_destroy_channel,
	.create_cq = mpib_rdma_create_cq,
	.disarm_cq = mpib_rdma_disarm_cq,
	.destroy_cq = mpib_rdma_destroy_cq,
	.get_cq_event = mpib_rdma_get_cq_event,
	.ack_cq_events = ibv_ack_cq_events,
	.create_srq = mpib_rdma_create_srq,
	.modify_srq = mpib_rdma_modify_srq,
	.query_srq = mpib_rdma_query_srq,
	.destroy_srq = mpib_rdma_destroy_srq,
	.create_qp = mpib_rdma_create_qp,
	.modify_qp = mpib_rdma_modify_qp,
	.query_qp = mpib_rdma_query_qp,
	.destroy_qp = mpib_rdma_destroy_qp,
	.query_ece = mpib_rdma_query_ece,
	.set_ece = mpib_rdma_set_ece,
	.get_async_event = mpib_rdma_get_async_event,
	.ack_async_event = ibv_ack_async_event,
	.bell = rdma_no_bell,
};
