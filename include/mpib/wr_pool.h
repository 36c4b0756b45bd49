/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool of send WRs, and chains of WRs that are posted with one doorbell. Each
 * WR of the pool contains its SGEs. The pool sets the fields that are the same
 * in most WRs. A caller may keep a WR after it has completed, and post it again
 * unchanged. Only the thread that owns the pool may call these functions. Only
 * mpib_wr_pool_init() allocates memory. These functions are part of
 * libmpib-vqp.
 */
#ifndef MPIB_WR_POOL_H
#define MPIB_WR_POOL_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MPIB_WR_POOL 4096u /* number of WRs in a pool, a power of two */
#define MPIB_WR_SGES 2 /* SGEs of a WR: a head and the payload after it */

struct mpib_wr {
	struct ibv_send_wr wr; /* `sg_list` points to `sge` */
	struct ibv_sge sge[MPIB_WR_SGES];
	/* link in a list of free, in-flight or lost WRs */
	STAILQ_ENTRY(mpib_wr) link;
	uint64_t owner; /* for the caller's use */
	/* For the caller's use. In mpib-proxy the value 0 means that the caller
	 * returns the WR to the pool as soon as the WR is posted. */
	uint8_t kind;
};

STAILQ_HEAD(mpib_wr_list, mpib_wr);

struct mpib_wr_pool {
	struct mpib_wr *all; /* array of MPIB_WR_POOL WRs */
	struct mpib_wr *free; /* list of free WRs, linked by `link` */
	uint32_t left; /* number of free WRs */
};

/* Allocate the WRs of the pool. -ENOMEM: no memory. */
int mpib_wr_pool_init(struct mpib_wr_pool *pool);
/* Free the WRs of the pool. None of them may be in use. */
void mpib_wr_pool_fini(struct mpib_wr_pool *pool);

/* Take a WR from the pool, or return NULL if all WRs are in use. The WR has
 * opcode WRITE_WITH_IMM, is signalled, and has one SGE, which the caller must
 * fill in. */
static inline struct mpib_wr *mpib_wr_take(struct mpib_wr_pool *pool)
{
	struct mpib_wr *w = pool->free;

	if (!w)
		return NULL;
	pool->free = STAILQ_NEXT(w, link);
	pool->left--;
	return w;
}

/* Return a WR to the pool. */
static inline void mpib_wr_give(struct mpib_wr_pool *pool, struct mpib_wr *w)
{
	w->wr.num_sge = 1;
	w->wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	w->wr.send_flags = IBV_SEND_SIGNALED;
	/* LIFO, because the WR used last is still in the CPU's cache. */
	STAILQ_NEXT(w, link) = pool->free;
	pool->free = w;
	pool->left++;
}

/* WRs for one QP, in the order in which they will be posted. An empty chain is
 * all zeros. */
struct mpib_wr_chain {
	struct mpib_wr *first, *last;
	uint32_t n; /* number of WRs */
};

/* Append the WR `w` to the chain. */
static inline void mpib_wr_chain_add(struct mpib_wr_chain *c, struct mpib_wr *w)
{
	w->wr.next = NULL;
	if (c->last)
		c->last->wr.next = &w->wr;
	else
		c->first = w;
	c->last = w;
	c->n++;
}

/* Append the WRs of `more`, which must not be empty, to `c`. */
static inline void mpib_wr_chain_join(struct mpib_wr_chain *c,
				      const struct mpib_wr_chain *more)
{
	if (c->last)
		c->last->wr.next = &more->first->wr;
	else
		c->first = more->first;
	c->last = more->last;
	c->n += more->n;
}

/* Post all WRs of the chain with one doorbell, and clear the chain. The chain
 * must not be empty. Return 0, or -errno of ibv_post_send(). On an error, *bad
 * is the first WR that was not posted. The caller still owns the WRs. */
static inline int mpib_wr_chain_post(struct mpib_wr_chain *c, struct ibv_qp *qp,
				     struct mpib_wr **bad)
{
	struct ibv_send_wr *refused = NULL;
	struct mpib_wr *first = c->first;
	int rc = ibv_post_send(qp, &first->wr, &refused);

	c->first = c->last = NULL;
	c->n = 0;
	if (rc == 0)
		return 0;
	/* The cast is valid: `wr` is the first member of struct mpib_wr. */
	*bad = refused ? (struct mpib_wr *)refused : first;
	return -rc;
}

#ifdef __cplusplus
}
#endif

#endif
