/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the engine: a tenant's protection domain and shared receive queue per
 * rail, and the registered memory for the tables of its connections.
 */
#ifndef MPIB_ENGINE_TENANT_H
#define MPIB_ENGINE_TENANT_H

#include <mpib/abi.h>

#include "engine/rail/loopback.h"
#include "engine/shard.h"

#define MPIB_TABLES_PER_SLAB 64

struct mpib_slab; /* memory for the tables of 64 connections */

/* A connection has two tables: the peer writes one by RDMA, and our own RDMA
 * writes read the other. They are a region of their own on each rail. */
struct mpib_tables {
	struct mpib_slab *slab;
	unsigned index;
	uint32_t in_bytes, out_bytes; /* whole cache lines; set by the caller of
					 mpib_tables_get() */
	void *in, *out;
	uint32_t lkey[MPIB_RAILS], rkey[MPIB_RAILS];
};

struct mpib_tenant {
	struct mpib_shard *shard;
	struct mpib_drr_class drr;
	uid_t uid;
	unsigned refs; /* control thread: clients, lanes, calls; 0: on_leave()
			  is on its way */
	struct ibv_pd *pd[MPIB_RAILS]; /* NULL: the device is away, rail.h */
	struct ibv_srq *srq[MPIB_RAILS];
	/* Control thread: places in the CQ of its receives, and QPs that have
	 * some, too, see budget.h. */
	uint32_t promised[MPIB_RAILS], qps[MPIB_RAILS];
	unsigned receivers; /* control thread: connections that receive */
	/* srq.low, and more for receivers; so much more is in a full SRQ. Written
	 * by the control thread. */
	_Atomic uint32_t srq_low[MPIB_RAILS];
	uint32_t srq_posted[MPIB_RAILS]; /* shard */
	struct mpib_loopback loop[MPIB_RAILS];
	void *answers; /* where the loop-back QPs read to; NULL: none is made */
	LIST_HEAD(, mpib_slab) slabs; /* control thread */
	TAILQ_ENTRY(mpib_tenant) link; /* shard's list */
	/* Shard: rings that may not be empty, and what was taken of those that
	 * summaries named in the turn with that number, see submit.c. */
	struct engine_conn_list submitting;
	TAILQ_ENTRY(mpib_tenant) submit_link; /* shard's, with such rings */
	uint64_t named_turn;
	unsigned named;
	uint64_t named_from; /* the client that is first in the next turn */
	struct mpib_tenant *next; /* control thread's list */
};

/* What NCCL has in flight on a connection. So many more receives are in the SRQ
 * for each that receives. */
#define MPIB_SRQ_PER_CONN 8u

/* Shard thread: fewer receives are too few. */
static inline uint32_t mpib_srq_low(const struct mpib_tenant *t, unsigned rail)
{
	return atomic_load_explicit(&t->srq_low[rail], memory_order_relaxed);
}

/* Fill each SRQ that has too few. */
int mpib_srq_turn(struct mpib_shard *s);
int mpib_srq_fill(struct mpib_tenant *t, unsigned rail);
/* A completion used up a receive of the SRQ. */
static inline void mpib_srq_taken(struct mpib_tenant *t, unsigned rail)
{
	struct mpib_shard *s = t->shard;

	assert(t->srq_posted[rail] > 0);
	if (--t->srq_posted[rail] < mpib_srq_low(t, rail))
		s->srq_short = true;
	mpib_budget_received(&s->rail[rail].budget, 1);
}
/* Control thread, from here on. */
/* Whether the CQ has places for so many QPs more of the tenant, of which any two
 * have half at most. The last quarter of a tenant's is for lanes that it opens
 * itself: no peer's takes these. 0, or -EDQUOT, which mpib_last_error_set() was
 * told. */
int mpib_tenant_may_have(const struct mpib_tenant *t, unsigned rail,
			 uint32_t qps, bool by_peer);
/* Places of the rail's CQ that one tenant may have. */
uint32_t mpib_tenant_most(const struct mpib_shard *s, unsigned rail);
/* Receives that an SRQ is made for. */
uint32_t mpib_srq_size(const struct mpib_shard *s, unsigned rail);
/* A connection that receives was made, and is freed. */
void mpib_srq_joined(struct mpib_tenant *t);
void mpib_srq_left(struct mpib_tenant *t);
/* One more reference, for a caller that has one already. */
void mpib_tenant_hold(struct mpib_tenant *t);
/* Have the device raise SRQ_LIMIT_REACHED when fewer than half of srq_low
 * receives are left, which means that the shard did not refill in time. */
void mpib_srq_arm(struct mpib_tenant *t, unsigned rail);
/* Of a connection on a lane of so many rails. */
int mpib_tables_get(struct mpib_tenant *t, unsigned rails,
		    struct mpib_tables *tables);
void mpib_tables_put(struct mpib_tenant *t, struct mpib_tables *tables);
void mpib_tenants_free(struct mpib_engine *e);

#endif
