/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Send WRs made once, each with its SGEs in the same object, and chains of them
 * that one doorbell posts. A WR stays with who took it until its completion, so
 * that it can be posted again as it is. Owner thread; nothing allocates after
 * mpib_wr_pool_init().
 */
#ifndef MPIB_VQP_WR_POOL_H
#define MPIB_VQP_WR_POOL_H

#include <infiniband/verbs.h>
#include <stdint.h>
#include <sys/queue.h>

#define MPIB_WR_POOL 4096u /* a power of two */
#define MPIB_WR_SGES 2 /* a head and what follows it */

struct mpib_wr {
	struct ibv_send_wr wr; /* sg_list is sge, num_sge 1 */
	struct ibv_sge sge[MPIB_WR_SGES];
	STAILQ_ENTRY(mpib_wr) link; /* free, in flight, or lost */
	uint64_t owner; /* the taker's */
	uint8_t kind; /* the taker's; 0: free again once it is posted */
};

STAILQ_HEAD(mpib_wr_list, mpib_wr);

struct mpib_wr_pool {
	struct mpib_wr *all;
	struct mpib_wr_list free;
	uint32_t left;
};

/* -ENOMEM. */
int mpib_wr_pool_init(struct mpib_wr_pool *pool);
void mpib_wr_pool_fini(struct mpib_wr_pool *pool);

/* NULL when all are taken. Opcode WRITE_WITH_IMM, signalled, the SGE to be
 * filled in. */
struct mpib_wr *mpib_wr_take(struct mpib_wr_pool *pool);
void mpib_wr_give(struct mpib_wr_pool *pool, struct mpib_wr *w);

/* WRs for one QP, in order. Zeroed memory is an empty chain. */
struct mpib_wr_chain {
	struct mpib_wr *first, *last;
	uint32_t n;
};

void mpib_wr_chain_add(struct mpib_wr_chain *c, struct mpib_wr *w);

/*
 * Post the chain with one doorbell; it is empty afterwards. 0, or -errno of
 * ibv_post_send() with *bad, the first that was not taken.
 */
int mpib_wr_chain_post(struct mpib_wr_chain *c, struct ibv_qp *qp,
		       struct mpib_wr **bad);

#endif
