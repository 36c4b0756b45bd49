/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protection domains and memory regions. A key is the index of a table entry
 * and the entry's generation, scrambled with a secret of the context. So keys
 * look random, the key of a region that is gone matches nothing, and an lkey is
 * never valid as an rkey.
 */
#include "verbs/soft/mr.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "verbs/soft/ctx.h"
#include "verbs/soft/qp.h"

#define MR_IDX_BITS 20
#define GEN_MASK 0xfffu
#define MIX_A 0x9e3779b1u
#define MIX_A_INV 0x0e8b2f51u /* MIX_A * MIX_A_INV == 1 mod 2^32 */

#define ACCESS_KNOWN                                                           \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |                    \
	 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |                   \
	 IBV_ACCESS_HUGETLB | IBV_ACCESS_ON_DEMAND |                           \
	 IBV_ACCESS_OPTIONAL_RANGE)
/* Defined by verbs, not supported here. */
#define ACCESS_UNSUPPORTED (IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED)

_Static_assert(SOFT_MAX_MR >> MR_IDX_BITS == 1, "an index fills its bits");

static uint32_t mr_mix(uint32_t v, uint32_t secret)
{
	v = (v ^ secret) * MIX_A;
	v ^= v >> 16;
	return v * MIX_A ^ (secret << 7 | secret >> 25);
}

static uint32_t mr_unmix(uint32_t v, uint32_t secret)
{
	v = (v ^ (secret << 7 | secret >> 25)) * MIX_A_INV;
	v ^= v >> 16;
	return v * MIX_A_INV ^ secret;
}

int soft_mr_table_init(struct soft_mr_table *t)
{
	uint32_t secrets[2];

	if (getrandom(secrets, sizeof(secrets), 0) != sizeof(secrets))
		return -EIO;
	t->lsecret = secrets[0];
	t->rsecret = secrets[1];
	return 0;
}

void soft_mr_table_free(struct soft_mr_table *t)
{
	free(t->slot);
	free(t->gen);
}

static int mr_table_grow(struct soft_mr_table *t)
{
	uint32_t size = t->size ? t->size * 2 : 256;
	struct soft_mr **slot;
	uint16_t *gen;

	if (size > SOFT_MAX_MR)
		return -ENOMEM;
	slot = realloc(t->slot, size * sizeof(*slot));
	if (!slot)
		return -ENOMEM;
	t->slot = slot;
	gen = realloc(t->gen, size * sizeof(*gen));
	if (!gen)
		return -ENOMEM;
	t->gen = gen;
	for (uint32_t i = t->size; i < size; i++) {
		slot[i] = NULL;
		gen[i] = (uint16_t)(mr_mix(i, t->lsecret) & GEN_MASK);
	}
	t->hint = t->size;
	t->size = size;
	return 0;
}

static int mr_table_insert(struct soft_mr_table *t, struct soft_mr *mr)
{
	uint32_t i, tag;
	int rc;

	for (i = 0; i < t->size; i++)
		if (!t->slot[(t->hint + i) % t->size])
			break;
	if (i == t->size) {
		rc = mr_table_grow(t);
		if (rc < 0)
			return rc;
		i = 0;
	}
	mr->idx = (t->hint + i) % t->size;
	t->hint = mr->idx + 1;
	t->slot[mr->idx] = mr;
	mr->gen = ++t->gen[mr->idx] & GEN_MASK;
	tag = mr->gen << MR_IDX_BITS | mr->idx;
	mr->ibv.lkey = mr_mix(tag, t->lsecret);
	mr->ibv.rkey = mr_mix(tag, t->rsecret);
	mr->ibv.handle = mr->idx;
	return 0;
}

static struct soft_mr *table_find(struct soft_mr_table *t, uint32_t key,
				  uint32_t secret)
{
	uint32_t tag = mr_unmix(key, secret);
	uint32_t idx = tag & (SOFT_MAX_MR - 1);
	struct soft_mr *mr;

	if (idx >= t->size)
		return NULL;
	mr = t->slot[idx];
	return mr && mr->gen == tag >> MR_IDX_BITS ? mr : NULL;
}

static uint8_t *mr_at(struct soft_mr *mr, struct soft_pd *pd, uint64_t addr,
		      uint64_t len, int access)
{
	uint64_t off = addr - mr->iova;

	if (mr->ibv.pd != &pd->ibv || (mr->access & access) != access)
		return NULL;
	/* An address below iova has wrapped to a large offset. */
	if (off > mr->ibv.length || len > mr->ibv.length - off)
		return NULL;
	return mr->host + off;
}

uint8_t *soft_mr_remote(struct soft_ctx *ctx, struct soft_pd *pd, uint32_t rkey,
			uint64_t addr, uint64_t len, int access)
{
	struct soft_mr *mr = table_find(&ctx->mrs, rkey, ctx->mrs.rsecret);

	return mr ? mr_at(mr, pd, addr, len, access) : NULL;
}

static uint8_t *sge_at(struct soft_pd *pd, const struct ibv_sge *sge,
		       int access)
{
	struct soft_mr_table *t = &to_ctx(pd->ibv.context)->mrs;
	struct soft_mr *mr = table_find(t, sge->lkey, t->lsecret);

	return mr ? mr_at(mr, pd, sge->addr, sge->length, access) : NULL;
}

bool soft_sge_valid(struct soft_pd *pd, const struct ibv_sge *sge,
		    uint32_t nsge, int access)
{
	for (uint32_t i = 0; i < nsge; i++)
		if (sge[i].length && !sge_at(pd, &sge[i], access))
			return false;
	return true;
}

int soft_sge_iov(struct soft_pd *pd, const struct ibv_sge *sge, uint32_t nsge,
		 uint64_t off, uint64_t len, int access, struct iovec *iov,
		 int max)
{
	int n = 0;

	for (uint32_t i = 0; i < nsge && len && n < max; i++) {
		uint64_t part = sge[i].length;
		uint8_t *p;

		if (off >= part) {
			off -= part;
			continue;
		}
		p = sge_at(pd, &sge[i], access);
		if (!p)
			return -EACCES;
		part -= off;
		if (part > len)
			part = len;
		iov[n].iov_base = p + off;
		iov[n++].iov_len = part;
		len -= part;
		off = 0;
	}
	return n;
}

int soft_alloc_pd(struct ibv_context *c, struct ibv_pd **out)
{
	struct soft_ctx *ctx = to_ctx(c);
	struct soft_pd *pd;

	if (soft_is_gone(ctx))
		return -EIO;
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return -ENOMEM;
	pd->ibv.context = c;
	soft_lock(ctx);
	ctx->npds++;
	soft_unlock(ctx);
	*out = &pd->ibv;
	return 0;
}

int soft_dealloc_pd(struct ibv_pd *p)
{
	struct soft_ctx *ctx = to_ctx(p->context);
	struct soft_pd *pd = to_pd(p);
	bool busy;

	soft_lock(ctx);
	busy = pd->refs;
	if (!busy) {
		ctx->npds--;
		/* Nobody is left whom the next one shares the thread with. */
		if (ctx->served == pd)
			ctx->served = NULL;
	}
	soft_unlock(ctx);
	if (busy)
		return -EBUSY;
	free(pd);
	return 0;
}

/*
 * An HCA pins the pages at registration. So refuse now, and not at first use, a
 * range that is not mapped, or not writable if access asks for writing; ranges
 * that are paged in on demand are not checked.
 */
static int mr_populate(void *addr, size_t len, int access)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = (uintptr_t)addr & ~(page - 1);
	uintptr_t to = ((uintptr_t)addr + len + page - 1) & ~(page - 1);
	char *start = (char *)addr - ((uintptr_t)addr - from);
	bool write = access & IBV_ACCESS_LOCAL_WRITE;

	if (to <= from)
		return len ? -EFAULT : 0;
	if (!madvise(start, to - from,
		     write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
		return 0;
	if (errno != EINVAL)
		return errno == ENOMEM ? -EFAULT : -errno;
	/* EINVAL: not writable, or a kernel before 5.14, or device memory. Only
	 * a range that is not writable can be populated for reading. */
	if (write && !madvise(start, to - from, MADV_POPULATE_READ))
		return -EFAULT;
	return 0;
}

static int mr_create(struct ibv_pd *p, struct soft_mr proto,
		     struct ibv_mr **out)
{
	struct soft_ctx *ctx = to_ctx(p->context);
	struct soft_mr *mr;
	int rc;

	if (soft_is_gone(ctx))
		return -EIO;
	mr = malloc(sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	*mr = proto;
	mr->ibv.context = p->context;
	mr->ibv.pd = p;
	soft_lock(ctx);
	rc = mr_table_insert(&ctx->mrs, mr);
	if (!rc) {
		to_pd(p)->refs++;
		ctx->nmrs++;
	}
	soft_unlock(ctx);
	if (rc < 0) {
		free(mr);
		return rc;
	}
	*out = &mr->ibv;
	return 0;
}

static int check_access(int access, uint64_t iova, size_t len)
{
	const int writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

	if (access & ~(ACCESS_KNOWN | ACCESS_UNSUPPORTED) || iova + len < iova)
		return -EINVAL;
	if (access & writes && !(access & IBV_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	return access & ACCESS_UNSUPPORTED ? -EOPNOTSUPP : 0;
}

int soft_reg_mr(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
		int access, struct ibv_mr **out)
{
	struct soft_mr proto = {
		.ibv = { .addr = addr, .length = len },
		.iova = iova,
		.host = addr,
		.access = access,
	};
	int rc = check_access(access, iova, len);

	if (!rc && !(access & IBV_ACCESS_ON_DEMAND))
		rc = mr_populate(addr, len, access);
	return rc < 0 ? rc : mr_create(pd, proto, out);
}

int soft_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t len,
		       uint64_t iova, int fd, int access, struct ibv_mr **out)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t skip = offset & (page - 1);
	struct soft_mr proto = { .iova = iova, .access = access };
	off_t end = lseek(fd, 0, SEEK_END);
	int prot = PROT_READ;
	int rc = check_access(access, iova, len);

	if (rc < 0)
		return rc;
	if (end < 0)
		return errno == EBADF ? -EBADF : -EOPNOTSUPP;
	if (!len || offset > (uint64_t)end || len > (uint64_t)end - offset)
		return -EINVAL;
	/* As devices do, see ibv_reg_dmabuf_mr(3). */
	if ((iova & (page - 1)) != skip)
		return -EINVAL;
	if (access & IBV_ACCESS_LOCAL_WRITE)
		prot |= PROT_WRITE;
	proto.map_len = len + skip;
	proto.map = mmap(NULL, proto.map_len, prot, MAP_SHARED, fd,
			 (off_t)(offset - skip));
	/* Device memory often has no mapping for the CPU. */
	if (proto.map == MAP_FAILED)
		return errno == EBADF || errno == ENOMEM ? -errno : -EOPNOTSUPP;
	proto.host = (uint8_t *)proto.map + skip;
	proto.ibv.addr = proto.host;
	proto.ibv.length = len;
	rc = mr_create(pd, proto, out);
	if (rc < 0)
		munmap(proto.map, proto.map_len);
	return rc;
}

int soft_dereg_mr(struct ibv_mr *m)
{
	struct soft_ctx *ctx = to_ctx(m->context);
	struct soft_mr *mr = (struct soft_mr *)m;

	/* With the lock held no turn is under way, and no earlier turn has left
	 * an operation in the kernel: so nothing touches the region. */
	soft_lock(ctx);
	ctx->mrs.slot[mr->idx] = NULL;
	to_pd(m->pd)->refs--;
	ctx->nmrs--;
	soft_unlock(ctx);
	if (mr->map)
		munmap(mr->map, mr->map_len);
	free(mr);
	return 0;
}
