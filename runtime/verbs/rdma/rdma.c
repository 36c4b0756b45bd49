/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs table of the provider on libibverbs (rdma-core), and its calls about
 * objects: each is libibverbs', with its result as the table has it.
 */
#include <stdatomic.h>
#include <string.h>

#include "verbs/rdma/internal.h"

/* object is what a call made, errno 0 before it. */
static int rdma_made(void *object, void *out)
{
	if (!object)
		return mpib_rdma_err();
	memcpy(out, &object, sizeof(object));
	return 0;
}

static int rdma_alloc_pd(struct ibv_context *ctx, struct ibv_pd **pd)
{
	errno = 0;
	return rdma_made(ibv_alloc_pd(ctx), pd);
}

static int rdma_dealloc_pd(struct ibv_pd *pd)
{
	return -ibv_dealloc_pd(pd);
}

/* After a registration was refused: drop IBV_ACCESS_RELAXED_ORDERING from
 * *access; true if it was set, so that a second try makes sense. The flag is an
 * optimisation, but a kernel or device that does not know it refuses the whole
 * call. (ibv_reg_mr_iova2 drops the flag by itself only where the kernel says
 * that flags may be dropped.) */
static bool again_without(int *access)
{
	bool wished = *access & IBV_ACCESS_RELAXED_ORDERING;

	*access &= ~IBV_ACCESS_RELAXED_ORDERING;
	return wished && (errno == EINVAL || errno == EOPNOTSUPP);
}

static int rdma_reg_mr(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
		       int access, struct ibv_mr **mr)
{
	struct ibv_mr *m;

	do {
		errno = 0;
		m = ibv_reg_mr_iova2(pd, addr, len, iova, (unsigned)access);
	} while (!m && again_without(&access));
	return rdma_made(m, mr);
}

static int rdma_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t len,
			      uint64_t iova, int fd, int access,
			      struct ibv_mr **mr)
{
	struct ibv_mr *m;

	do {
		errno = 0;
		m = ibv_reg_dmabuf_mr(pd, offset, len, iova, fd, access);
	} while (!m && again_without(&access));
	return rdma_made(m, mr);
}

static int rdma_dereg_mr(struct ibv_mr *mr)
{
	return -ibv_dereg_mr(mr);
}

int mpib_rdma_create_channel(struct ibv_context *ctx,
			     struct ibv_comp_channel **ch)
{
	errno = 0;
	return rdma_made(ibv_create_comp_channel(ctx), ch);
}

static int rdma_destroy_channel(struct ibv_comp_channel *ch)
{
	return -ibv_destroy_comp_channel(ch);
}

/* CQs take turns on the device's completion vectors, so that the interrupts of
 * shards go to different CPUs. Without one, or in a channel's absence, 0. */
static int next_vector(const struct ibv_context *ctx)
{
	static atomic_uint next;

	if (ctx->num_comp_vectors < 2)
		return 0;
	/* Relaxed: a number like any other. */
	return (int)(atomic_fetch_add_explicit(&next, 1, memory_order_relaxed) %
		     (unsigned)ctx->num_comp_vectors);
}

static int rdma_create_cq(struct ibv_context *ctx, int cqe, void *cq_context,
			  struct ibv_comp_channel *ch, struct ibv_cq **cq)
{
	errno = 0;
	return rdma_made(
		ibv_create_cq(ctx, cqe, cq_context, ch, next_vector(ctx)), cq);
}

static int rdma_destroy_cq(struct ibv_cq *cq)
{
	return -ibv_destroy_cq(cq);
}

bool mpib_rdma_disarm_cq(struct ibv_cq *cq, bool spoke)
{
	(void)cq; /* armed, it makes one event at most */
	return spoke;
}

int mpib_rdma_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq,
			   void **cq_context)
{
	return ibv_get_cq_event(ch, cq, cq_context) ? mpib_rdma_err() : 0;
}

static int rdma_get_async_event(struct ibv_context *ctx,
				struct ibv_async_event *ev)
{
	return ibv_get_async_event(ctx, ev) ? mpib_rdma_err() : 0;
}

static int rdma_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr,
			   struct ibv_srq **srq)
{
	errno = 0;
	return rdma_made(ibv_create_srq(pd, attr), srq);
}

static int rdma_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr,
			   int mask)
{
	return -ibv_modify_srq(srq, attr, mask);
}

int mpib_rdma_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	return -ibv_query_srq(srq, attr);
}

static int rdma_destroy_srq(struct ibv_srq *srq)
{
	return -ibv_destroy_srq(srq);
}

static int rdma_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
			  struct ibv_qp **qp)
{
	errno = 0;
	return rdma_made(ibv_create_qp(pd, attr), qp);
}

static int rdma_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	return -ibv_modify_qp(qp, attr, mask);
}

int mpib_rdma_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		       struct ibv_qp_init_attr *init)
{
	return -ibv_query_qp(qp, attr, mask, init);
}

static int rdma_destroy_qp(struct ibv_qp *qp)
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

static int rdma_no_bell(void)
{
	return -EOPNOTSUPP;
}

const struct mpib_verbs mpib_verbs_rdma = {
	.name = "rdma",
	.open = mpib_rdma_open,
	.close = mpib_rdma_close,
	.query_port = mpib_rdma_query_port,
	.alloc_pd = rdma_alloc_pd,
	.dealloc_pd = rdma_dealloc_pd,
	.reg_mr = rdma_reg_mr,
	.reg_dmabuf_mr = rdma_reg_dmabuf_mr,
	.dereg_mr = rdma_dereg_mr,
	.create_comp_channel = mpib_rdma_create_channel,
	.destroy_comp_channel = rdma_destroy_channel,
	.create_cq = rdma_create_cq,
	.disarm_cq = mpib_rdma_disarm_cq,
	.destroy_cq = rdma_destroy_cq,
	.get_cq_event = mpib_rdma_get_cq_event,
	.ack_cq_events = ibv_ack_cq_events,
	.create_srq = rdma_create_srq,
	.modify_srq = rdma_modify_srq,
	.query_srq = mpib_rdma_query_srq,
	.destroy_srq = rdma_destroy_srq,
	.create_qp = rdma_create_qp,
	.modify_qp = rdma_modify_qp,
	.query_qp = mpib_rdma_query_qp,
	.destroy_qp = rdma_destroy_qp,
	.query_ece = mpib_rdma_query_ece,
	.set_ece = mpib_rdma_set_ece,
	.get_async_event = rdma_get_async_event,
	.ack_async_event = ibv_ack_async_event,
	.bell = rdma_no_bell,
};
