/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to the engine: a tenant's protection domain and shared receive queue
 * per rail, and the registered memory for the tables of its connections. */
#ifndef MPIB_ENGINE_TENANT_H
#define MPIB_ENGINE_TENANT_H

#include <mpib/abi.h>

#include "engine/rail/loopback.h"
#include "engine/shard.h"

#define MPIB_TABLES_PER_SLAB 64

struct mpib_slab; /* memory for the tables of 64 connections */

/* The two tables of a connection. The peer writes the first table (`in`) by
 * RDMA. The second table (`out`) is the source of the connection's own RDMA
 * writes. Both tables form one region per rail. */
struct mpib_tables {
	struct mpib_slab *slab;
	unsigned index;
	/* Multiples of a cache line. The caller of mpib_tables_get() sets
	 * them. */
	uint32_t in_bytes, out_bytes;
	void *in, *out;
	uint32_t lkey[MPIB_RAILS], rkey[MPIB_RAILS];
};

struct mpib_tenant {
	struct mpib_shard *shard;
	struct mpib_drr_class drr;
	uid_t uid;
	/* Control thread: references from clients, lanes and calls; 0:
	 * on_leave() was sent. */
	unsigned refs;
	/* NULL: the device is away, see rail.h */
	struct ibv_pd *pd[MPIB_RAILS];
	struct ibv_srq *srq[MPIB_RAILS];
	/* Control thread. `promised`: CQ places kept for the tenant's receives.
	 * `qps`: number of the tenant's QPs; each QP keeps MPIB_BUDGET_PER_QP
	 * CQ places, too. See budget.h. */
	uint32_t promised[MPIB_RAILS], qps[MPIB_RAILS];
	/* control thread: number of receiving connections */
	unsigned receivers;
	/* The SRQ is refilled when it has fewer than this many receives. The
	 * number is mpib_srq_least() plus an addition for each receiving
	 * connection. A full SRQ has srq.high receives plus the same addition.
	 * Written by the control thread. */
	_Atomic uint32_t srq_low[MPIB_RAILS];
	uint32_t srq_posted[MPIB_RAILS]; /* shard: receives in the SRQ */
	struct mpib_loopback loop[MPIB_RAILS];
	/* Destination of the loop-back QPs' READs; NULL: none yet. */
	void *answers;
	LIST_HEAD(, mpib_slab) slabs; /* control thread */
	TAILQ_ENTRY(mpib_tenant) link; /* shard's list */
	/* Shard, for submit.c: connections whose rings may have
	 * descriptors. */
	struct engine_conn_list submitting;
	/* in the shard's list of tenants whose `submitting` is not empty */
	TAILQ_ENTRY(mpib_tenant) submit_link;
	/* `named` counts the rings that were marked in summaries in turn
	 * `named_turn`, and the descriptors read from these rings. */
	uint64_t named_turn;
	unsigned named;
	/* id of the client that the next turn serves first */
	uint64_t named_from;
	struct mpib_tenant *next; /* control thread's list */
};

/* Number of messages that NCCL has in flight on a connection. The SRQ gets this
 * many more receives for each receiving connection. */
#define MPIB_SRQ_PER_CONN 8u

/* Shard thread: return the number of receives below which the SRQ is
 * refilled. */
static inline uint32_t mpib_srq_low(const struct mpib_tenant *t, unsigned rail)
{
	return atomic_load_explicit(&t->srq_low[rail], memory_order_relaxed);
}

/* Fill each SRQ that has too few receives. */
int mpib_srq_turn(struct mpib_shard *s);
int mpib_srq_fill(struct mpib_tenant *t, unsigned rail);
/* Record that a completion used a receive of the SRQ. */
static inline void mpib_srq_taken(struct mpib_tenant *t, unsigned rail)
{
	struct mpib_shard *s = t->shard;

	assert(t->srq_posted[rail] > 0);
	if (--t->srq_posted[rail] < mpib_srq_low(t, rail))
		s->srq_short = true;
	mpib_budget_received(&s->rail[rail].budget, 1);
}
/* All functions below: control thread. */
/* Check whether the tenant may have `qps` more QPs. Any two tenants together
 * may have at most half of the CQ places that can be promised. Lanes that a
 * peer opens may not use the last quarter of a tenant's places, only lanes that
 * the tenant opens. Return 0, or return -EDQUOT and set a last error. */
int mpib_tenant_may_have(const struct mpib_tenant *t, unsigned rail,
			 uint32_t qps, bool by_peer);
/* Return the maximum number of the rail's CQ places for one tenant. */
uint32_t mpib_tenant_most(const struct mpib_shard *s, unsigned rail);
/* Return the number of receives that a new SRQ must hold. */
uint32_t mpib_srq_size(const struct mpib_shard *s, unsigned rail);
/* Count a receiving connection that was created or is being freed. */
void mpib_srq_joined(struct mpib_tenant *t);
void mpib_srq_left(struct mpib_tenant *t);
/* Add a reference for a caller that already has one. */
void mpib_tenant_hold(struct mpib_tenant *t);
/* Make the device raise SRQ_LIMIT_REACHED when fewer than mpib_srq_least() / 2
 * receives are left. That event means that the shard did not refill the SRQ in
 * time. */
void mpib_srq_arm(struct mpib_tenant *t, unsigned rail);
/* Get tables for a connection on a lane with this many rails. */
int mpib_tables_get(struct mpib_tenant *t, unsigned rails,
		    struct mpib_tables *tables);
void mpib_tables_put(struct mpib_tenant *t, struct mpib_tables *tables);
void mpib_tenants_free(struct mpib_engine *e);

#endif
