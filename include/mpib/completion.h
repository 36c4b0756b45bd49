/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion of one request: the shard writes it, the client reads it.
 *
 * word = generation in the high half, result (bytes or -errno) in the low
 * half. A word whose generation is not the request's own is still pending, so
 * nobody ever clears a word. progress has the same form and counts bytes of
 * the message, from its start and without a gap, that have left (send) or
 * arrived in (receive) the region; the client then reuses or empties that part
 * of its staging window.
 */
#ifndef MPIB_COMPLETION_H
#define MPIB_COMPLETION_H

#include <mpib/abi.h>
#include <stdatomic.h>
#include <stdbool.h>

struct mpib_completion {
	_Alignas(MPIB_CACHELINE) _Atomic uint64_t word;
	_Atomic uint64_t progress;
	/* Of each buffer of a receive; with -EMSGSIZE size[0] is what was sent
	 * and size[1] what was posted. Valid once word is the request's. */
	uint32_t size[MPIB_GROUP_MAX];
	uint64_t rsvd[2];
};

/* Wait-free. Shard only, once per generation, after filling size[]. */
static inline void mpib_completion_finish(struct mpib_completion *c,
					  uint32_t gen, int32_t result)
{
	/* Release pairs with the acquire in mpib_completion_poll(): sizes and
	 * data are in place before the word turns. */
	atomic_store_explicit(&c->word, (uint64_t)gen << 32 | (uint32_t)result,
			      memory_order_release);
}

/* Wait-free. Shard only. bytes never falls within one generation. */
static inline void mpib_completion_advance(struct mpib_completion *c,
					   uint32_t gen, uint32_t bytes)
{
	/* Release pairs with the acquire in mpib_completion_progress(). */
	atomic_store_explicit(&c->progress, (uint64_t)gen << 32 | bytes,
			      memory_order_release);
}

/* Wait-free. Any thread of the client. True once the request is done. */
static inline bool mpib_completion_poll(const struct mpib_completion *c,
					uint32_t gen, int32_t *result)
{
	/* Acquire pairs with the release in mpib_completion_finish(). */
	uint64_t word = atomic_load_explicit(&c->word, memory_order_acquire);

	if ((uint32_t)(word >> 32) != gen)
		return false;
	*result = (int32_t)(uint32_t)word;
	return true;
}

/* Wait-free. Any thread of the client. 0 until something moved. */
static inline uint32_t mpib_completion_progress(const struct mpib_completion *c,
						uint32_t gen)
{
	/* Acquire pairs with the release in mpib_completion_advance(). */
	uint64_t word = atomic_load_explicit(&c->progress,
					     memory_order_acquire);

	return (uint32_t)(word >> 32) == gen ? (uint32_t)word : 0;
}

MPIB_ABI_ASSERT(sizeof(struct mpib_completion) == 64);

#endif
