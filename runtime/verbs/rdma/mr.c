/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protection domains and memory regions by libibverbs.
 */
#include "verbs/rdma/internal.h"

#include <stdbool.h>

int mpib_rdma_alloc_pd(struct ibv_context *ctx, struct ibv_pd **pd)
{
	struct ibv_pd *p;

	errno = 0;
	p = ibv_alloc_pd(ctx);
	if (!p)
		return mpib_rdma_err();
	*pd = p;
	return 0;
}

int mpib_rdma_dealloc_pd(struct ibv_pd *pd)
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

int mpib_rdma_reg_mr(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
		     int access, struct ibv_mr **mr)
{
	struct ibv_mr *m;

	do {
		errno = 0;
		m = ibv_reg_mr_iova2(pd, addr, len, iova, (unsigned)access);
	} while (!m && again_without(&access));
	if (!m)
		return mpib_rdma_err();
	*mr = m;
	return 0;
}

int mpib_rdma_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t len,
			    uint64_t iova, int fd, int access,
			    struct ibv_mr **mr)
{
	struct ibv_mr *m;

	do {
		errno = 0;
		m = ibv_reg_dmabuf_mr(pd, offset, len, iova, fd, access);
	} while (!m && again_without(&access));
	if (!m)
		return mpib_rdma_err();
	*mr = m;
	return 0;
}

int mpib_rdma_dereg_mr(struct ibv_mr *mr)
{
	return -ibv_dereg_mr(mr);
}
