/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prevents overruns of a rail's CQ: before a WR is posted, a place (a CQ entry)
 * is reserved for its completion.
 *
 * The control thread reserves ("promises") places for the objects that it
 * creates. It promises one place per receive of a tenant. It promises two
 * places per QP, for the QP's last WR and for a probe. All sends share the
 * other places. One QP gets at most about half of the places that the other QPs
 * leave free (mpib_qp_fits()). So even while sends wait for room, receives can
 * be refilled, lanes can be stopped and probes can be posted. If sends already
 * use the places that are promised to a new object, the object gets its places
 * when sends complete. Receives and QPs together may reserve up to three
 * quarters of the CQ, and one tenant's lanes up to a quarter of that
 * (mpib_tenant_may_have()). Requests for more are refused with a reason. The
 * last 1/32 of the places that can be promised is reserved for root.
 */
#ifndef MPIB_ENGINE_BUDGET_H
#define MPIB_ENGINE_BUDGET_H

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/users.h"

#define MPIB_BUDGET_PER_QP 2u

struct mpib_budget {
	uint32_t size; /* capacity of the CQ in completions */
	/* Number of promised places. The control thread writes it, and the
	 * shard reads it. Relaxed: the mailbox message about the new tenant or
	 * QP orders the change. */
	_Atomic uint32_t promised;
	/* The part of `promised` that is for QPs. The same threads write and
	 * read it. */
	_Atomic uint32_t for_qps;
	/* Shard thread: WRs posted that have no completion yet. */
	uint32_t sends, receives;
};

/* Return how many places can be promised. The other places are for sends. */
static inline uint32_t mpib_budget_most(const struct mpib_budget *b)
{
	return b->size / 4 * 3;
}

/* Control thread. Promise n places to the user. -ENOSPC: too few places would
 * remain for sends, or for root. */
static inline int mpib_budget_promise(struct mpib_budget *b, uid_t uid,
				      uint32_t n)
{
	uint32_t promised =
		atomic_load_explicit(&b->promised, memory_order_relaxed);

	if (promised + n > mpib_places_for(mpib_budget_most(b), uid))
		return -ENOSPC;
	atomic_store_explicit(&b->promised, promised + n, memory_order_relaxed);
	return 0;
}

/* Control thread. Release places after the shard has released the tenant or
 * QP. */
static inline void mpib_budget_release(struct mpib_budget *b, uint32_t n)
{
	uint32_t promised =
		atomic_load_explicit(&b->promised, memory_order_relaxed);

	assert(n <= promised);
	atomic_store_explicit(&b->promised, promised - n, memory_order_relaxed);
}

/* As mpib_budget_promise(), for the last WR and the probe of a QP. */
static inline int mpib_budget_promise_qp(struct mpib_budget *b, uid_t uid)
{
	int rc = mpib_budget_promise(b, uid, MPIB_BUDGET_PER_QP);

	if (rc == 0)
		atomic_fetch_add_explicit(&b->for_qps, MPIB_BUDGET_PER_QP,
					  memory_order_relaxed);
	return rc;
}

static inline void mpib_budget_release_qp(struct mpib_budget *b)
{
	atomic_fetch_sub_explicit(&b->for_qps, MPIB_BUDGET_PER_QP,
				  memory_order_relaxed);
	mpib_budget_release(b, MPIB_BUDGET_PER_QP);
}

/* Return whether n places are free that are not promised. */
static inline bool mpib_budget_fits(const struct mpib_budget *b, uint32_t n)
{
	return b->sends + n +
		       atomic_load_explicit(&b->promised,
					    memory_order_relaxed) <=
	       b->size;
}

/* Return whether all places are in use. Then even a last WR or a probe has no
 * place. If places were promised while sends used them, they become free only
 * when the sends complete. */
static inline bool mpib_budget_is_full(const struct mpib_budget *b)
{
	return b->sends + b->receives >= b->size;
}

static inline void mpib_budget_send(struct mpib_budget *b, uint32_t n)
{
	b->sends += n;
	assert(b->sends + b->receives <= b->size);
}

static inline void mpib_budget_sent(struct mpib_budget *b, uint32_t n)
{
	assert(n <= b->sends);
	b->sends -= n;
}

/* Use n places, one for each receive. Leave the places that are promised to
 * QPs. Return false if there is no room until a send completes. */
static inline bool mpib_budget_receive(struct mpib_budget *b, uint32_t n)
{
	if (b->sends + b->receives + n +
		    atomic_load_explicit(&b->for_qps, memory_order_relaxed) >
	    b->size)
		return false;
	b->receives += n;
	return true;
}

static inline void mpib_budget_received(struct mpib_budget *b, uint32_t n)
{
	assert(n <= b->receives);
	b->receives -= n;
}

#endif
