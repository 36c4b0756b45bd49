/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The completion of one request, in the reply segment: the shard writes it, the
 * client reads it.
 *
 * `word` has the request's generation in the high half and the result (bytes or
 * -errno) in the low half. A word with another generation means that the
 * request is still pending, so a word never needs to be cleared. `progress` has
 * the same form. Its low half counts the message's bytes that have left the
 * region (send) or arrived in it (receive), from the start and without gaps. As
 * `progress` grows the client reuses (send) or empties (receive) that part of
 * its staging window.
 *
 * For a request with a report, rail[] says what each rail did, and the stamps
 * say when. Neither has a generation. Both are valid once `progress` has the
 * request's generation, because the shard clears both before it writes
 * `progress`. The stamps share memory with the last entries of size[]. So a
 * request of more than MPIB_STAMPED_MAX buffers has its stamps in group_at of
 * struct mpib_reply (segment.h).
 */
#ifndef MPIB_COMPLETION_H
#define MPIB_COMPLETION_H

#include <mpib/abi.h>
#include <mpib/report.h>
#include <stdatomic.h>
#include <stdbool.h>

#define MPIB_STAMPED_MAX 3

#define MPIB_REPORT_BYTES_BITS 38
#define MPIB_REPORT_BYTES_MASK ((1ull << MPIB_REPORT_BYTES_BITS) - 1)

/* Time of the first event of each kind, from mpib_stamp_of(); 0: not yet, or
 * unknown. */
struct mpib_stamps {
	uint32_t of_sizes[MPIB_STAMPED_MAX];
	_Atomic uint32_t over; /* time when `word` was written */
	_Atomic uint32_t posted[MPIB_RAILS], done[MPIB_RAILS];
};

struct mpib_completion {
	_Alignas(MPIB_CACHELINE) _Atomic uint64_t word;
	_Atomic uint64_t progress;
	union {
		/* Bytes per buffer of a receive. With -EMSGSIZE size[0] is the
		 * size sent and size[1] the size posted. Valid once `word` has
		 * the request's generation. */
		uint32_t size[MPIB_GROUP_MAX];
		/* For requests with MPIB_OP_REPORT. */
		struct mpib_stamps at;
	};
	/* Only for requests with MPIB_OP_REPORT, see
	 * mpib_completion_report(). */
	_Atomic uint64_t rail[MPIB_RAILS];
};

/* Wait-free. Shard only, once per generation, after size[] is filled. */
static inline void mpib_completion_finish(struct mpib_completion *c,
					  uint32_t gen, int32_t result)
{
	/* Release pairs with the acquire in mpib_completion_poll(): sizes and
	 * data are in place before the client sees the new word. */
	atomic_store_explicit(&c->word, (uint64_t)gen << 32 | (uint32_t)result,
			      memory_order_release);
}

/* Wait-free. Shard only. Within one generation `bytes` never decreases. */
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

/* Wait-free. Any thread of the client. Return how many bytes of the message
 * have moved. */
static inline uint32_t mpib_completion_progress(const struct mpib_completion *c,
						uint32_t gen)
{
	/* Acquire pairs with the release in mpib_completion_advance(). */
	uint64_t word =
		atomic_load_explicit(&c->progress, memory_order_acquire);

	return (uint32_t)(word >> 32) == gen ? (uint32_t)word : 0;
}

/* Wait-free. Shard only, before the first report on the request. */
static inline void mpib_stamps_clear(struct mpib_stamps *at)
{
	for (unsigned rail = 0; rail < MPIB_RAILS; rail++) {
		atomic_store_explicit(&at->posted[rail], 0,
				      memory_order_relaxed);
		atomic_store_explicit(&at->done[rail], 0, memory_order_relaxed);
	}
	atomic_store_explicit(&at->over, 0, memory_order_relaxed);
}

/* Wait-free. Shard only. Clear the reports of a request with MPIB_OP_REPORT.
 * Called before the first report and before any other write to the request's
 * completion. */
static inline void mpib_completion_watch(struct mpib_completion *c,
					 uint32_t gen)
{
	for (unsigned rail = 0; rail < MPIB_RAILS; rail++)
		atomic_store_explicit(&c->rail[rail], 0, memory_order_relaxed);
	mpib_stamps_clear(&c->at);
	/* The release in mpib_completion_advance() pairs with the acquire in
	 * mpib_completion_reported(): a client that sees this generation sees
	 * no older report. */
	mpib_completion_advance(c, gen, 0);
}

/* Wait-free. Shard only. Replaces the report of one rail. The word holds: state
 * (2 bits) | QP number (24) | bytes (38; a group of 8 has less than 2^34). */
static inline void mpib_completion_report(struct mpib_completion *c,
					  unsigned rail,
					  const struct mpib_rail_report *r)
{
	/* Relaxed: each word is complete in itself. */
	atomic_store_explicit(&c->rail[rail],
			      (uint64_t)r->state << 62 |
				      (uint64_t)(r->qpn & 0xffffff)
					      << MPIB_REPORT_BYTES_BITS |
				      (r->bytes & MPIB_REPORT_BYTES_MASK),
			      memory_order_relaxed);
}

/* Wait-free. Any thread of the client. True when the progress word, and with it
 * the reports and stamps, has this generation. If this is true before a request
 * is posted, the word is left from a request 2^32 generations ago, and the new
 * request must use another generation. */
static inline bool mpib_completion_reported(const struct mpib_completion *c,
					    uint32_t gen)
{
	/* Acquire pairs with the release in mpib_completion_watch(). */
	return atomic_load_explicit(&c->progress, memory_order_acquire) >> 32 ==
	       gen;
}

/* Wait-free. Any thread of the client. Return the report of one rail,
 * MPIB_RAIL_IDLE if there is none. */
static inline struct mpib_rail_report
mpib_completion_rail(const struct mpib_completion *c, unsigned rail,
		     uint32_t gen)
{
	struct mpib_rail_report r = { MPIB_RAIL_IDLE, 0, 0 };
	uint64_t word;

	if (!mpib_completion_reported(c, gen))
		return r;
	/* Relaxed: each word is complete in itself. */
	word = atomic_load_explicit(&c->rail[rail], memory_order_relaxed);
	r.state = (enum mpib_rail_state)(word >> 62);
	r.qpn = (uint32_t)(word >> MPIB_REPORT_BYTES_BITS) & 0xffffff;
	r.bytes = word & MPIB_REPORT_BYTES_MASK;
	return r;
}

/* Return a time of CLOCK_MONOTONIC in units of 64 ns, modulo 2^32 (274 s). */
static inline uint32_t mpib_stamp_of(uint64_t ns)
{
	uint32_t stamp = (uint32_t)(ns >> 6);

	return stamp ? stamp : 1;
}

/* Return the time of a stamp made in the 137 s before `now`; 0 for stamp 0. */
static inline uint64_t mpib_stamp_ns(uint32_t stamp, uint64_t now)
{
	uint32_t age = (uint32_t)(now >> 6) - stamp;

	if (!stamp)
		return 0;
	/* The stamp is newer than `now`. */
	if (age >> 31)
		return now;
	return ((now >> 6) - age) << 6;
}

/* Wait-free. Shard only, for a request with a report. */
static inline void mpib_completion_stamp(_Atomic uint32_t *stamp, uint64_t ns)
{
	/* Relaxed: the release of `word` publishes `over`. The other stamps
	 * publish nothing, and a reader that finds 0 reads again. */
	atomic_store_explicit(stamp, mpib_stamp_of(ns), memory_order_relaxed);
}

/* Wait-free. Any thread of the client, once `progress` has the request's
 * generation. */
static inline uint64_t mpib_completion_time(const _Atomic uint32_t *stamp,
					    uint64_t now)
{
	/* Relaxed: see mpib_completion_stamp(). */
	return mpib_stamp_ns(atomic_load_explicit(stamp, memory_order_relaxed),
			     now);
}

MPIB_ABI_ASSERT(sizeof(struct mpib_completion) == 64);
MPIB_ABI_ASSERT(sizeof(struct mpib_stamps) == 32);

#endif
