/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that the software HCA does not support. They are defined all the
 * same, so that none of the real libibverbs is called with an object of the
 * software HCA; each fails with EOPNOTSUPP the way libibverbs reports it.
 */
#include "softverbs/softverbs.h"

static void *refused_none(void)
{
	errno = EOPNOTSUPP;
	return NULL;
}

SV_EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd,
				       struct ibv_ah_attr *attr)
{
	(void)pd;
	(void)attr;
	return refused_none();
}

SV_EXPORT int ibv_init_ah_from_wc(struct ibv_context *ctx, uint8_t port,
				  struct ibv_wc *wc, struct ibv_grh *grh,
				  struct ibv_ah_attr *attr)
{
	(void)ctx;
	(void)port;
	(void)wc;
	(void)grh;
	(void)attr;
	return sv_minus_one(-EOPNOTSUPP);
}

SV_EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd,
					       struct ibv_wc *wc,
					       struct ibv_grh *grh,
					       uint8_t port)
{
	(void)pd;
	(void)wc;
	(void)grh;
	(void)port;
	return refused_none();
}

SV_EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
	(void)ah;
	return sv_result(-EOPNOTSUPP);
}

SV_EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid,
			       uint16_t lid)
{
	(void)qp;
	(void)gid;
	(void)lid;
	return sv_result(-EOPNOTSUPP);
}

SV_EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid,
			       uint16_t lid)
{
	(void)qp;
	(void)gid;
	(void)lid;
	return sv_result(-EOPNOTSUPP);
}

SV_EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *ctx,
					  struct ibv_ah_attr *attr,
					  uint8_t mac[ETHERNET_LL_SIZE],
					  uint16_t *vid)
{
	(void)ctx;
	(void)attr;
	(void)mac;
	(void)vid;
	return sv_result(-EOPNOTSUPP);
}

SV_EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	(void)cq;
	(void)cqe;
	return sv_result(-EOPNOTSUPP);
}

SV_EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd,
			   void *addr, size_t length, int access)
{
	(void)mr;
	(void)flags;
	(void)pd;
	(void)addr;
	(void)length;
	(void)access;
	/* This result tells the program that the old region stays valid. */
	errno = EOPNOTSUPP;
	return IBV_REREG_MR_ERR_INPUT;
}

SV_EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
	(void)cmd_fd;
	return refused_none();
}

SV_EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *ctx, uint32_t handle)
{
	(void)ctx;
	(void)handle;
	return refused_none();
}

SV_EXPORT void ibv_unimport_pd(struct ibv_pd *pd)
{
	(void)pd;
}

SV_EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	(void)pd;
	(void)handle;
	return refused_none();
}

SV_EXPORT void ibv_unimport_mr(struct ibv_mr *mr)
{
	(void)mr;
}

SV_EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *ctx, uint32_t handle)
{
	(void)ctx;
	(void)handle;
	return refused_none();
}

SV_EXPORT void ibv_unimport_dm(struct ibv_dm *dm)
{
	(void)dm;
}

SV_EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	(void)ece;
	return sv_result(-EOPNOTSUPP);
}

SV_EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	(void)ece;
	return sv_result(-EOPNOTSUPP);
}

/* Promise no order: memory is filled upwards, but a message that is sent again
 * is written again from its beginning. */
SV_EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp,
					 enum ibv_wr_opcode op, uint32_t flags)
{
	(void)qp;
	(void)op;
	(void)flags;
	return 0;
}
