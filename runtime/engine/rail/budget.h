/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completions that a rail's CQ may still get, so that it cannot overrun. All of
 * it is added and taken back here.
 *
 * The control thread promises places as it makes what needs them: the receives
 * of a tenant, and for each QP those of its last request and of a probe. What is
 * sent has the rest, of which nobody has a part of its own. So receives fill up
 * again, a lane is drained and a probe asks whatever else waits for room, and
 * what is made beyond three quarters of the CQ is refused with a reason.
 */
#ifndef MPIB_ENGINE_BUDGET_H
#define MPIB_ENGINE_BUDGET_H

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define MPIB_BUDGET_PER_QP 2u

struct mpib_budget {
	uint32_t size; /* completions that the CQ holds */
	/* The control thread's. Relaxed: what goes into a place that is new, or
	 * no longer into one that is given back, goes through the mailbox. */
	_Atomic uint32_t promised;
	/* The shard's: posted, and without a completion. */
	uint32_t sends, receives;
};

/* Control thread. -ENOSPC: too little would be left for what is sent. */
static inline int mpib_budget_promise(struct mpib_budget *b, uint32_t n)
{
	uint32_t promised =
		atomic_load_explicit(&b->promised, memory_order_relaxed);

	if (n > b->size / 4 * 3 - promised)
		return -ENOSPC;
	atomic_store_explicit(&b->promised, promised + n, memory_order_relaxed);
	return 0;
}

/* Control thread. What had the places is gone from the shard. */
static inline void mpib_budget_release(struct mpib_budget *b, uint32_t n)
{
	uint32_t promised =
		atomic_load_explicit(&b->promised, memory_order_relaxed);

	assert(n <= promised);
	atomic_store_explicit(&b->promised, promised - n, memory_order_relaxed);
}

static inline uint32_t mpib_budget_room(const struct mpib_budget *b)
{
	uint32_t kept = b->sends + atomic_load_explicit(&b->promised,
							memory_order_relaxed);

	return kept < b->size ? b->size - kept : 0;
}

/* With one more, half of what may be sent at once waits: what is posted has to
 * be heard of soon. */
static inline bool mpib_budget_is_tight(const struct mpib_budget *b)
{
	return mpib_budget_room(b) <= b->sends + 1;
}

static inline void mpib_budget_send(struct mpib_budget *b, uint32_t n)
{
	assert((uint64_t)b->sends + b->receives + n <= b->size);
	b->sends += n;
}

static inline void mpib_budget_sent(struct mpib_budget *b, uint32_t n)
{
	assert(n <= b->sends);
	b->sends -= n;
}

/* False: until something that was sent completes there is no room. */
static inline bool mpib_budget_receive(struct mpib_budget *b, uint32_t n)
{
	if (n > b->size - b->sends - b->receives)
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
