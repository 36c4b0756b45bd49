/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim_hca.h"
#include "sim_task.h"
#include "sim_wrap.h"

/* What a remote key has that a local one has not. */
#define REMOTE 0x5a000000u

int sim_alloc_pd(struct ibv_context *c, struct ibv_pd **pd)
{
	struct sim_ctx *ctx = sim_ctx(c);
	struct sim_pd *p;

	if (ctx->dead)
		return -EIO;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->ibv.context = c;
	ctx->pds++;
	*pd = &p->ibv;
	return 0;
}

int sim_dealloc_pd(struct ibv_pd *pd)
{
	struct sim_pd *p = (struct sim_pd *)pd;

	if (p->refs)
		return -EBUSY;
	sim_ctx(pd->context)->pds--;
	free(p);
	return 0;
}

/* Keys come back late: the last bits count the uses of a place. */
static uint32_t place(struct sim_ctx *ctx, struct sim_mr *mr)
{
	for (uint32_t i = 0; i < ctx->mr_room; i++) {
		uint32_t at = (ctx->mr_hint + i) % ctx->mr_room;

		if (ctx->mr[at])
			continue;
		ctx->mr[at] = mr;
		ctx->mr_hint = at + 1;
		return at;
	}
	ctx->mr_hint = ctx->mr_room;
	ctx->mr_room = ctx->mr_room ? 2 * ctx->mr_room : 64;
	ctx->mr = realloc(ctx->mr, ctx->mr_room * sizeof(struct sim_mr *));
	if (!ctx->mr)
		abort();
	for (uint32_t i = ctx->mr_hint; i < ctx->mr_room; i++)
		ctx->mr[i] = NULL;
	return place(ctx, mr);
}

/* Memory that is there, and may be written where access says so. */
static bool there(void *addr, size_t len, int access)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = (uintptr_t)addr & ~(page - 1);
	size_t pages = ((uintptr_t)addr + len - from + page - 1) / page;
	unsigned char *in = malloc(pages);
	int rc;

	if (!in)
		abort();
	rc = mincore((void *)from, pages * page, in);
	free(in);
	if (rc == 0 && access & IBV_ACCESS_LOCAL_WRITE)
		rc = __real_madvise((void *)from, page, MADV_POPULATE_WRITE);
	return rc == 0;
}

int sim_reg_mr(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
	       int access, struct ibv_mr **out)
{
	struct sim_ctx *ctx = sim_ctx(pd->context);
	int writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	struct sim_mr *mr;

	if (ctx->dead)
		return -EIO;
	if (!len || (uintptr_t)addr + len < (uintptr_t)addr ||
	    iova + len < iova ||
	    (access & writes && !(access & IBV_ACCESS_LOCAL_WRITE)))
		return -EINVAL;
	if (!there(addr, len, access))
		return -EFAULT;
	if (sim_short())
		return -ENOMEM;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	mr->ibv.context = pd->context;
	mr->ibv.pd = pd;
	mr->ibv.addr = addr;
	mr->ibv.length = len;
	mr->iova = iova;
	mr->access = access;
	mr->ibv.lkey =
		(place(ctx, mr) << 8 | (uint32_t)sim_hca_draw(256)) & 0xffffff;
	mr->ibv.rkey = mr->ibv.lkey | REMOTE;
	((struct sim_pd *)pd)->refs++;
	ctx->mrs++;
	*out = &mr->ibv;
	return 0;
}

int sim_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t len,
		      uint64_t iova, int fd, int access, struct ibv_mr **mr)
{
	(void)pd;
	(void)offset;
	(void)len;
	(void)iova;
	(void)fd;
	(void)access;
	(void)mr;
	return -EOPNOTSUPP;
}

int sim_dereg_mr(struct ibv_mr *mr)
{
	struct sim_ctx *ctx = sim_ctx(mr->context);

	ctx->mr[mr->lkey >> 8] = NULL;
	((struct sim_pd *)mr->pd)->refs--;
	ctx->mrs--;
	free(mr);
	return 0;
}

uint8_t *sim_mr_at(struct sim_ctx *ctx, struct ibv_pd *pd, uint32_t key,
		   uint64_t addr, uint64_t len, int access)
{
	bool remote =
		access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			  IBV_ACCESS_REMOTE_ATOMIC);
	uint32_t at = (key & 0xffffff) >> 8;
	const struct sim_mr *mr;

	if (at >= ctx->mr_room)
		return NULL;
	mr = ctx->mr[at];
	if (!mr || mr->ibv.pd != pd ||
	    key != (remote ? mr->ibv.rkey : mr->ibv.lkey) ||
	    (mr->access & access) != access || addr < mr->iova ||
	    len > mr->ibv.length || addr - mr->iova > mr->ibv.length - len)
		return NULL;
	return (uint8_t *)mr->ibv.addr + (addr - mr->iova);
}
