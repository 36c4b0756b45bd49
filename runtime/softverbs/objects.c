/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Public functions for protection domains, memory regions, completion channels
 * and queues, and queue pairs. Each calls the software HCA's table.
 */
#include "softverbs/softverbs.h"

static const struct mpib_verbs *const soft = &mpib_verbs_soft;

SV_EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
	struct ibv_pd *pd = NULL;
	int rc = soft->alloc_pd(ctx, &pd);

	return sv_object(rc, pd);
}

SV_EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
	return sv_result(soft->dealloc_pd(pd));
}

SV_EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr,
					  size_t length, uint64_t iova,
					  unsigned access)
{
	struct ibv_mr *mr = NULL;
	int rc = soft->reg_mr(pd, addr, length, iova, (int)access, &mr);

	return sv_object(rc, mr);
}

#undef ibv_reg_mr
SV_EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr,
				    size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr,
				(unsigned)access);
}

#undef ibv_reg_mr_iova
SV_EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr,
					 size_t length, uint64_t iova,
					 int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned)access);
}

SV_EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset,
					   size_t length, uint64_t iova, int fd,
					   int access)
{
	struct ibv_mr *mr = NULL;
	int rc = soft->reg_dmabuf_mr(pd, offset, length, iova, fd, access, &mr);

	return sv_object(rc, mr);
}

SV_EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	return sv_result(soft->dereg_mr(mr));
}

SV_EXPORT struct ibv_comp_channel *
ibv_create_comp_channel(struct ibv_context *ctx)
{
	struct ibv_comp_channel *ch = NULL;
	int rc = soft->create_comp_channel(ctx, &ch);

	return sv_object(rc, ch);
}

SV_EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *ch)
{
	return sv_result(soft->destroy_comp_channel(ch));
}

SV_EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe,
				       void *cq_context,
				       struct ibv_comp_channel *ch, int vector)
{
	struct ibv_cq *cq = NULL;
	int rc = -EINVAL;

	if (vector >= 0 && vector < ctx->num_comp_vectors)
		rc = soft->create_cq(ctx, cqe, cq_context, ch, &cq);
	return sv_object(rc, cq);
}

SV_EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
	struct sv_reader *reader = ((struct mpib_soft_cq_ex *)cq)->reader;
	int rc = soft->destroy_cq(cq);

	if (!rc)
		sv_reader_free(reader);
	return sv_result(rc);
}

SV_EXPORT int ibv_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq,
			       void **cq_context)
{
	return sv_minus_one(soft->get_cq_event(ch, cq, cq_context));
}

SV_EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned nevents)
{
	soft->ack_cq_events(cq, nevents);
}

SV_EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd,
					 struct ibv_srq_init_attr *attr)
{
	struct ibv_srq *srq = NULL;
	int rc = soft->create_srq(pd, attr, &srq);

	return sv_object(rc, srq);
}

SV_EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr,
			     int mask)
{
	return sv_result(soft->modify_srq(srq, attr, mask));
}

SV_EXPORT int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	return sv_result(soft->query_srq(srq, attr));
}

SV_EXPORT int ibv_destroy_srq(struct ibv_srq *srq)
{
	return sv_result(soft->destroy_srq(srq));
}

SV_EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd,
				       struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp = NULL;
	int rc = soft->create_qp(pd, attr, &qp);

	return sv_object(rc, qp);
}

SV_EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr,
			    int mask)
{
	return sv_result(soft->modify_qp(qp, attr, mask));
}

SV_EXPORT int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr,
			   int mask, struct ibv_qp_init_attr *init)
{
	return sv_result(soft->query_qp(qp, attr, mask, init));
}

SV_EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
	struct sv_builder *b = ((struct mpib_soft_qp_ex *)qp)->builder;
	int rc = soft->destroy_qp(qp);

	if (!rc)
		sv_builder_free(b);
	return sv_result(rc);
}
