/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim_hca.h"
#include "sim_task.h"
#include "sim_wrap.h"

/* These bits distinguish a remote key from a local key. */
#define REMOTE 0x5a000000u

static bool has_dmabuf;

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

/* Put the region into a free entry of the table. Return the entry's index. The
 * index determines the region's keys, so a free entry is reused as late as
 * possible. */
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

/* Return whether the memory is mapped and, if `access` requires it,
 * writable. */
static bool there(void *addr, size_t len, int access)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = (uintptr_t)addr & ~(page - 1);
	/* msync() fails if a page of the memory is not mapped. */
	int rc = msync((void *)from, (uintptr_t)addr + len - from, MS_ASYNC);

	if (rc == 0 && access & IBV_ACCESS_LOCAL_WRITE)
		rc = __real_madvise((void *)from, page, MADV_POPULATE_WRITE);
	return rc == 0;
}

static int enter(struct ibv_pd *pd, struct sim_mr *mr)
{
	struct sim_ctx *ctx = sim_ctx(pd->context);

	mr->ibv.context = pd->context;
	mr->ibv.pd = pd;
	mr->ibv.lkey =
		(place(ctx, mr) << 8 | (uint32_t)sim_hca_draw(256)) & 0xffffff;
	mr->ibv.rkey = mr->ibv.lkey | REMOTE;
	((struct sim_pd *)pd)->refs++;
	ctx->mrs++;
	return 0;
}

static int check_range(uint64_t at, size_t len, uint64_t iova, int access)
{
	int writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

	return !len || at + len < at || iova + len < iova ||
			       (access & writes &&
				!(access & IBV_ACCESS_LOCAL_WRITE))
		       ? -EINVAL
		       : 0;
}

int sim_reg_mr(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
	       int access, struct ibv_mr **out)
{
	int rc = check_range((uintptr_t)addr, len, iova, access);
	struct sim_mr *mr;

	if (sim_ctx(pd->context)->dead)
		return -EIO;
	if (rc < 0)
		return rc;
	if (!there(addr, len, access))
		return -EFAULT;
	if (sim_short())
		return -ENOMEM;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	mr->ibv.addr = addr;
	mr->ibv.length = len;
	mr->iova = iova;
	mr->access = access;
	*out = &mr->ibv;
	return enter(pd, mr);
}

void sim_hca_dmabuf(bool on)
{
	has_dmabuf = on;
}

int sim_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t len,
		      uint64_t iova, int fd, int access, struct ibv_mr **out)
{
	const uint64_t skip = offset % (uint64_t)sysconf(_SC_PAGESIZE);
	int rc = check_range(offset, len, iova, access);
	struct sim_mr *mr;

	if (!has_dmabuf)
		return -EOPNOTSUPP;
	if (fd < 0)
		return -EBADF;
	if (sim_ctx(pd->context)->dead)
		return -EIO;
	if (rc < 0)
		return rc;
	if (sim_short())
		return -ENOMEM;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	mr->is_gpu = true;
	mr->map_len = len + skip;
	mr->map = mmap(NULL, mr->map_len, PROT_READ | PROT_WRITE, MAP_SHARED,
		       fd, (off_t)(offset - skip));
	if (mr->map == MAP_FAILED) {
		free(mr);
		return -ENOMEM;
	}
	mr->ibv.addr = (char *)mr->map + skip;
	mr->ibv.length = len;
	mr->iova = iova;
	mr->access = access;
	*out = &mr->ibv;
	return enter(pd, mr);
}

int sim_dereg_mr(struct ibv_mr *ibv)
{
	struct sim_ctx *ctx = sim_ctx(ibv->context);
	struct sim_mr *mr = (struct sim_mr *)ibv;

	ctx->mr[ibv->lkey >> 8] = NULL;
	((struct sim_pd *)ibv->pd)->refs--;
	ctx->mrs--;
	if (mr->is_gpu) {
		sim_posted_push(ctx->device);
		munmap(mr->map, mr->map_len);
	}
	free(mr);
	return 0;
}

void sim_mr_write(struct sim_ctx *ctx, uint32_t key, uint8_t *at,
		  const uint8_t *bytes, size_t len)
{
	if (ctx->mr[(key & 0xffffff) >> 8]->is_gpu)
		sim_posted_write(ctx->device, at, bytes, len);
	else
		memmove(at, bytes, len);
}

uint8_t *sim_mr_at(struct sim_ctx *ctx, struct ibv_pd *pd, uint32_t key,
		   uint64_t addr, uint64_t len, int access)
{
	bool remote =
		access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	uint32_t at = (key & 0xffffff) >> 8;
	const struct sim_mr *mr;

	if (at >= ctx->mr_room || len > sim_device_message(ctx->device))
		return NULL;
	mr = ctx->mr[at];
	if (!mr || mr->ibv.pd != pd ||
	    key != (remote ? mr->ibv.rkey : mr->ibv.lkey) ||
	    (mr->access & access) != access || addr < mr->iova ||
	    len > mr->ibv.length || addr - mr->iova > mr->ibv.length - len)
		return NULL;
	return (uint8_t *)mr->ibv.addr + (addr - mr->iova);
}
