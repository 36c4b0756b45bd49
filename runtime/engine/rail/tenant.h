/* SPDX-License-Identifier: Apache-2.0 */
/* Engine-internal: a tenant's protection domain and shared receive queue per
 * rail, and the registered memory for the tables of its connections. */
#ifndef MPIB_ENGINE_TENANT_H
#define MPIB_ENGINE_TENANT_H

#include <mpib/abi.h>

#include "engine/rail/loopback.h"
#include "engine/shard.h"

#define MPIB_TABLES_PER_SLAB 64

struct mpib_slab; /* memory for the tables of 64 connections */

/* The two tables of a connection: the peer writes one by RDMA, and the
 * connection's own RDMA writes read the other. They are one region on each
 * rail. */
struct mpib_tables {
	struct mpib_slab *slab;
	unsigned index;
	/* Multiples of a cache line; set before mpib_tables_get(). */
	uint32_t in_bytes, out_bytes;
	void *in, *out;
	uint32_t lkey[MPIB_RAILS], rkey[MPIB_RAILS];
};

struct mpib_tenant {
	struct mpib_shard *shard;
	struct mpib_drr_class drr;
	uid_t uid;
	/* Control thread: references by clients, lanes and calls; 0: on_leave()
	 * was sent. */
	unsigned refs;
	struct ibv_pd *pd[MPIB_RAILS]; /* NULL: the device is away, rail.h */
	struct ibv_srq *srq[MPIB_RAILS];
	/* Control thread: CQ places promised for its receives, and the number
	 * of its QPs, which have CQ places, too; see budget.h. */
	uint32_t promised[MPIB_RAILS], qps[MPIB_RAILS];
	unsigned receivers; /* control thread: connections that receive */
	/* srq.low, plus more for receivers; a full SRQ exceeds srq.high by the
	 * same number. Written by the control thread. */
	_Atomic uint32_t srq_low[MPIB_RAILS];
	uint32_t srq_posted[MPIB_RAILS]; /* shard */
	struct mpib_loopback loop[MPIB_RAILS];
	/* Destination of the loop-back QPs' READs; NULL: none yet. */
	void *answers;
	LIST_HEAD(, mpib_slab) slabs; /* control thread */
	TAILQ_ENTRY(mpib_tenant) link; /* shard's list */
	/* Shard: rings that may not be empty; and the number of descriptors
	 * taken in turn named_turn from rings that summaries named, see
	 * submit.c. */
	struct engine_conn_list submitting;
	/* Shard's list of tenants with such rings. */
	TAILQ_ENTRY(mpib_tenant) submit_link;
	uint64_t named_turn;
	unsigned named;
	uint64_t named_from; /* the client that is first in the next turn */
	struct mpib_tenant *next; /* control thread's list */
};

/* Messages that NCCL has in flight on a connection. The SRQ gets this many more
 * receives for each receiving connection. */
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
/* A completion used a receive of the SRQ. */
static inline void mpib_srq_taken(struct mpib_tenant *t, unsigned rail)
{
	struct mpib_shard *s = t->shard;

	assert(t->srq_posted[rail] > 0);
	if (--t->srq_posted[rail] < mpib_srq_low(t, rail))
		s->srq_short = true;
	mpib_budget_received(&s->rail[rail].budget, 1);
}
/* Control thread, from here on. */
/* Check whether the CQ has places for qps more QPs of the tenant; any two
 * tenants together may have at most half. A tenant's last quarter is for lanes
 * that it opens itself, not for lanes that a peer opens. Return 0, or -EDQUOT
 * and a last error. */
int mpib_tenant_may_have(const struct mpib_tenant *t, unsigned rail,
			 uint32_t qps, bool by_peer);
/* Return how many places of the rail's CQ one tenant may have. */
uint32_t mpib_tenant_most(const struct mpib_shard *s, unsigned rail);
/* Return the number of receives that a new SRQ must hold. */
uint32_t mpib_srq_size(const struct mpib_shard *s, unsigned rail);
/* A receiving connection was created or is freed. */
void mpib_srq_joined(struct mpib_tenant *t);
void mpib_srq_left(struct mpib_tenant *t);
/* Add a reference for a caller that already has one. */
void mpib_tenant_hold(struct mpib_tenant *t);
/* Let the device raise SRQ_LIMIT_REACHED when fewer than half of srq_low
 * receives are left, which means that the shard did not refill in time. */
void mpib_srq_arm(struct mpib_tenant *t, unsigned rail);
/* Get tables for a connection on a lane with this many rails. */
int mpib_tables_get(struct mpib_tenant *t, unsigned rails,
		    struct mpib_tables *tables);
void mpib_tables_put(struct mpib_tenant *t, struct mpib_tables *tables);
void mpib_tenants_free(struct mpib_engine *e);

#endif
