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
 *
 * rail says what each rail did, of a request that asks for it. Such words have
 * no generation: they are the request's once progress has its generation, for
 * the shard clears them before that.
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
	/* For requests with MPIB_OP_REPORT alone, see
	 * mpib_completion_report(). */
	_Atomic uint64_t rail[MPIB_RAILS];
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
	uint64_t word =
		atomic_load_explicit(&c->progress, memory_order_acquire);

	return (uint32_t)(word >> 32) == gen ? (uint32_t)word : 0;
}

/* Wait-free. Any thread of the client. True when the progress word is of this
 * generation: a send that began with a question has its receive. Before the
 * request is posted it means that what is left of another request, all
 * generations ago, would be taken for its own. */
static inline bool mpib_completion_marked(const struct mpib_completion *c,
					  uint32_t gen)
{
	/* Relaxed: nothing is read by it. */
	return atomic_load_explicit(&c->progress, memory_order_relaxed) >> 32 ==
	       gen;
}

/*
 * A rail's part in a request: 0 6 | state 2 | QP number 24 | bytes 32. bytes is
 * what was posted or has arrived.
 */
enum mpib_rail_state {
	MPIB_RAIL_IDLE, /* nothing of it went there */
	MPIB_RAIL_POSTED, /* something is under way, or announced */
	MPIB_RAIL_DONE, /* all that was posted so far is over */
};

struct mpib_rail_report {
	enum mpib_rail_state state;
	uint32_t qpn; /* that it last used */
	uint32_t bytes;
};

/* Wait-free. Shard only, of a request that asks for reports, before the first
 * of them and anything else about it. */
static inline void mpib_completion_watch(struct mpib_completion *c,
					 uint32_t gen)
{
	for (unsigned rail = 0; rail < MPIB_RAILS; rail++)
		atomic_store_explicit(&c->rail[rail], 0, memory_order_relaxed);
	/* Its release pairs with the acquire in mpib_completion_rail(): who
	 * sees the generation sees no older report. */
	mpib_completion_advance(c, gen, 0);
}

/* Wait-free. Shard only. */
static inline void mpib_completion_report(struct mpib_completion *c,
					  unsigned rail,
					  const struct mpib_rail_report *r)
{
	/* Relaxed: a word stands for itself. */
	atomic_store_explicit(&c->rail[rail],
			      (uint64_t)r->state << 56 |
				      (uint64_t)(r->qpn & 0xffffff) << 32 |
				      r->bytes,
			      memory_order_relaxed);
}

/* Wait-free. Any thread of the client. */
static inline struct mpib_rail_report
mpib_completion_rail(const struct mpib_completion *c, unsigned rail,
		     uint32_t gen)
{
	struct mpib_rail_report r = { MPIB_RAIL_IDLE, 0, 0 };
	uint64_t word;

	/* Acquire pairs with the release in mpib_completion_watch(). */
	if (atomic_load_explicit(&c->progress, memory_order_acquire) >> 32 !=
	    gen)
		return r;
	/* Relaxed: a word stands for itself. */
	word = atomic_load_explicit(&c->rail[rail], memory_order_relaxed);
	r.state = (enum mpib_rail_state)(word >> 56 & 3);
	r.qpn = (uint32_t)(word >> 32) & 0xffffff;
	r.bytes = (uint32_t)word;
	return r;
}

MPIB_ABI_ASSERT(sizeof(struct mpib_completion) == 64);

#endif
