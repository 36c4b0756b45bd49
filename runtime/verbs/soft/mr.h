/* SPDX-License-Identifier: Apache-2.0 */
/* Protection domains, memory regions, and access checks of SGEs. */
#ifndef MPIB_VERBS_SOFT_MR_H
#define MPIB_VERBS_SOFT_MR_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#define SOFT_MAX_MR (1u << 20)

struct soft_ctx;

struct soft_pd {
	struct ibv_pd ibv;
	unsigned refs;
	/* Turn numbers for wire/soft_conn.c. `turn`: the last turn that served
	 * a socket of this domain. `grown`: the last turn that added credit.
	 * `much_until`: the domain counts as busy until this turn. */
	uint64_t turn, grown, much_until;
	int64_t credit; /* bytes; above 0: the domain is light */
};

enum soft_key {
	SOFT_LKEY,
	SOFT_RKEY,
	SOFT_KEYS
};

struct soft_mr {
	struct ibv_mr ibv;
	uint64_t iova;
	/* next region in the bucket, for each kind of key */
	struct soft_mr *next[SOFT_KEYS];
	uint8_t *map; /* mmap() of a dma-buf's fd; else NULL */
	int access;
};

struct soft_mr_table {
	/* One table for lkeys and one for rkeys, by enum soft_key. */
	struct soft_mr **bucket;
	uint32_t size; /* a power of two; 0: no region yet */
};

static inline struct soft_pd *to_pd(struct ibv_pd *p)
{
	return (struct soft_pd *)p;
}

void soft_mr_table_free(struct soft_mr_table *t);
int soft_alloc_pd(struct ibv_context *c, struct ibv_pd **out);
int soft_dealloc_pd(struct ibv_pd *pd);
int soft_reg_mr(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
		int access, struct ibv_mr **out);
int soft_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t len,
		       uint64_t iova, int fd, int access, struct ibv_mr **out);
int soft_dereg_mr(struct ibv_mr *mr);
/* Return the address of [addr, addr + len) in this process. Return NULL if rkey
 * and pd do not allow this access to the whole range. */
uint8_t *soft_mr_remote(struct soft_ctx *ctx, struct soft_pd *pd, uint32_t rkey,
			uint64_t addr, uint64_t len, int access);
/* Fill iov with the pieces of an SGE list, starting at byte `off`: at most
 * `len` bytes and `max` pieces. Return the number of pieces, or -EACCES if no
 * region of pd allows this access to a piece. */
int soft_sge_iov(struct soft_pd *pd, const struct ibv_sge *sge, uint32_t nsge,
		 uint64_t off, uint64_t len, int access, struct iovec *iov,
		 int max);
bool soft_sge_valid(struct soft_pd *pd, const struct ibv_sge *sge,
		    uint32_t nsge, int access);

#endif
