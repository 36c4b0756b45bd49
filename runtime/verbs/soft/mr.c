/* SPDX-License-Identifier: Apache-2.0 */
/* Protection domains and memory regions. Each region has two independent random
 * keys. So no key can be guessed from other keys, and no lkey is valid as an
 * rkey. Each kind of key has a hash table, indexed by the lowest bits of the
 * key. */
#include "verbs/soft/mr.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "verbs/soft/ctx.h"
#include "verbs/soft/qp.h"

#define BUCKETS_FIRST 256u

#define ACCESS_KNOWN                                                           \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |                    \
	 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |                   \
	 IBV_ACCESS_HUGETLB | IBV_ACCESS_ON_DEMAND |                           \
	 IBV_ACCESS_OPTIONAL_RANGE)
/* Access flags of verbs that the software HCA does not support. */
#define ACCESS_UNSUPPORTED (IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED)

void soft_mr_table_free(struct soft_mr_table *t)
{
	free(t->bucket);
}

static uint32_t mr_key(const struct soft_mr *mr, enum soft_key kind)
{
	return kind == SOFT_LKEY ? mr->ibv.lkey : mr->ibv.rkey;
}

static struct soft_mr **bucket_of(const struct soft_mr_table *t,
				  enum soft_key kind, uint32_t key)
{
	return &t->bucket[(key & (t->size - 1)) * SOFT_KEYS + kind];
}

static struct soft_mr *table_find(const struct soft_mr_table *t,
				  enum soft_key kind, uint32_t key)
{
	struct soft_mr *mr;

	if (!t->size)
		return NULL;
	mr = *bucket_of(t, kind, key);
	while (mr && mr_key(mr, kind) != key)
		mr = mr->next[kind];
	return mr;
}

static void mr_link(struct soft_mr_table *t, struct soft_mr *mr)
{
	for (unsigned kind = 0; kind < SOFT_KEYS; kind++) {
		struct soft_mr **at = bucket_of(t, kind, mr_key(mr, kind));

		mr->next[kind] = *at;
		*at = mr;
	}
}

static void mr_unlink(struct soft_mr_table *t, const struct soft_mr *mr)
{
	for (unsigned kind = 0; kind < SOFT_KEYS; kind++) {
		struct soft_mr **at = bucket_of(t, kind, mr_key(mr, kind));

		while (*at != mr)
			at = &(*at)->next[kind];
		*at = mr->next[kind];
	}
}

/* Keep at least one bucket per two regions, so that lists stay short. */
static int mr_table_grow(struct soft_mr_table *t)
{
	struct soft_mr_table grown = {
		.size = t->size ? t->size * 2 : BUCKETS_FIRST,
	};

	grown.bucket = calloc((size_t)grown.size * SOFT_KEYS,
			      sizeof(struct soft_mr *));
	if (!grown.bucket)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->size; i++) {
		struct soft_mr *mr = t->bucket[i * SOFT_KEYS + SOFT_LKEY];

		/* mr_link() changes `next` for both kinds of key. This loop
		 * walks the old lists by lkey. The old lists by rkey are not
		 * read any more. */
		for (struct soft_mr *next; mr; mr = next) {
			next = mr->next[SOFT_LKEY];
			mr_link(&grown, mr);
		}
	}
	free(t->bucket);
	*t = grown;
	return 0;
}

/* Draw a random key that no region has. Skip 0, which the engine uses for "no
 * key". */
static int draw_key(const struct soft_mr_table *t, enum soft_key kind,
		    uint32_t *key)
{
	do {
		if (getrandom(key, sizeof(*key), 0) != sizeof(*key))
			return -EIO;
	} while (*key == 0 || table_find(t, kind, *key));
	return 0;
}

static int mr_table_insert(struct soft_ctx *ctx, struct soft_mr *mr)
{
	struct soft_mr_table *t = &ctx->mrs;
	int rc = 0;

	if (ctx->nmrs >= SOFT_MAX_MR)
		return -ENOMEM;
	if (ctx->nmrs >= 2 * t->size)
		rc = mr_table_grow(t);
	if (rc == 0)
		rc = draw_key(t, SOFT_LKEY, &mr->ibv.lkey);
	if (rc == 0)
		rc = draw_key(t, SOFT_RKEY, &mr->ibv.rkey);
	if (rc == 0)
		mr_link(t, mr);
	return rc;
}

static uint8_t *mr_at(struct soft_mr *mr, struct soft_pd *pd, uint64_t addr,
		      uint64_t len, int access)
{
	uint64_t off = addr - mr->iova;

	if (mr->ibv.pd != &pd->ibv || (mr->access & access) != access)
		return NULL;
	/* If the address is below `iova`, the subtraction has wrapped to a
	 * large offset. */
	if (off > mr->ibv.length || len > mr->ibv.length - off)
		return NULL;
	return (uint8_t *)mr->ibv.addr + off;
}

uint8_t *soft_mr_remote(struct soft_ctx *ctx, struct soft_pd *pd, uint32_t rkey,
			uint64_t addr, uint64_t len, int access)
{
	struct soft_mr *mr = table_find(&ctx->mrs, SOFT_RKEY, rkey);

	return mr ? mr_at(mr, pd, addr, len, access) : NULL;
}

static uint8_t *sge_at(struct soft_pd *pd, const struct ibv_sge *sge,
		       int access)
{
	struct soft_mr_table *t = &to_ctx(pd->ibv.context)->mrs;
	struct soft_mr *mr = table_find(t, SOFT_LKEY, sge->lkey);

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
	if (ctx->npds >= (unsigned)ctx->limits.dev.max_pd)
		return -ENOMEM;
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
		/* Forget pd. Otherwise pd and the next domain would count as
		 * sharing the thread. */
		if (ctx->served == pd)
			ctx->served = NULL;
	}
	soft_unlock(ctx);
	if (busy)
		return -EBUSY;
	free(pd);
	return 0;
}

/* Check the range at registration, as an HCA does when it pins pages. Refuse a
 * range that is not mapped. Also refuse a read-only range if `access` includes
 * writes. Ranges that are paged in on demand are not checked. */
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
	/* EINVAL has three possible causes: the range is not writable, Linux is
	 * older than 5.14, or the range is device memory. If the range can be
	 * populated for reading, the cause is that it is not writable. */
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
	if (proto.ibv.length > ctx->limits.dev.max_mr_size)
		return -EINVAL;
	if (ctx->nmrs >= (unsigned)ctx->limits.dev.max_mr)
		return -ENOMEM;
	mr = malloc(sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	*mr = proto;
	mr->ibv.context = p->context;
	mr->ibv.pd = p;
	soft_lock(ctx);
	rc = mr_table_insert(ctx, mr);
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
	void *map;
	int prot = PROT_READ;
	int rc = check_access(access, iova, len);

	if (rc < 0)
		return rc;
	if (end < 0)
		return errno == EBADF ? -EBADF : -EOPNOTSUPP;
	if (!len || offset > (uint64_t)end || len > (uint64_t)end - offset)
		return -EINVAL;
	/* Devices require that iova and offset are equal modulo the page size,
	 * see ibv_reg_dmabuf_mr(3). */
	if ((iova & (page - 1)) != skip)
		return -EINVAL;
	if (access & IBV_ACCESS_LOCAL_WRITE)
		prot |= PROT_WRITE;
	map = mmap(NULL, len + skip, prot, MAP_SHARED, fd,
		   (off_t)(offset - skip));
	/* Device memory often has no mapping for the CPU. */
	if (map == MAP_FAILED)
		return errno == EBADF || errno == ENOMEM ? -errno : -EOPNOTSUPP;
	proto.map = map;
	proto.ibv.addr = proto.map + skip;
	proto.ibv.length = len;
	rc = mr_create(pd, proto, out);
	if (rc < 0)
		munmap(map, len + skip);
	return rc;
}

int soft_dereg_mr(struct ibv_mr *m)
{
	struct soft_ctx *ctx = to_ctx(m->context);
	struct soft_mr *mr = (struct soft_mr *)m;

	/* While the lock is held, no turn is running, and earlier turns left no
	 * operation in the kernel. So nothing accesses the region. */
	soft_lock(ctx);
	mr_unlink(&ctx->mrs, mr);
	to_pd(m->pd)->refs--;
	ctx->nmrs--;
	soft_unlock(ctx);
	if (mr->map)
		munmap(mr->map,
		       (size_t)((uint8_t *)m->addr + m->length - mr->map));
	free(mr);
	return 0;
}
