/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The completion of one request, in the reply segment. The shard writes the
 * completion, and the client reads it.
 *
 * `word` has the request's generation in the high 32 bits and the result (bytes
 * or -errno) in the low 32 bits. While `word` has another generation, the
 * request is pending. So the shard need not clear `word` for a new request.
 *
 * `progress` also has the generation in the high 32 bits. The low 32 bits are
 * the number of bytes, from the start of the message to the first gap, that
 * have left the sender's memory or arrived in the receiver's memory. When this
 * number grows, a sending client may reuse the space of these bytes in its
 * staging window. A receiving client may copy these bytes out of its staging
 * window.
 *
 * For a request with a report, rail[] says what each rail did, and the stamps
 * in `at` say when. rail[] and `at` contain no generation. Both are valid when
 * `progress` has the request's generation, because the shard clears both before
 * it writes `progress`. The stamps share memory with the last entries of
 * size[]. So a request with more than MPIB_STAMPED_MAX buffers has its stamps
 * in `group_at` of struct mpib_reply (segment.h).
 */
#ifndef MPIB_COMPLETION_H
#define MPIB_COMPLETION_H

#include <mpib/abi.h>
#include <mpib/report.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Number of entries of size[] that do not share memory with the stamps. */
#define MPIB_STAMPED_MAX 3

#define MPIB_REPORT_BYTES_BITS 38
#define MPIB_REPORT_BYTES_MASK ((1ull << MPIB_REPORT_BYTES_BITS) - 1)

/* Times of a request's steps, in the format of mpib_stamp_of(). 0: the step has
 * not happened, or its time is unknown. */
struct mpib_stamps {
	/* not a time: shares memory with the first entries of size[] */
	uint32_t of_sizes[MPIB_STAMPED_MAX];
	_Atomic uint32_t over; /* the shard completed the request */
	/* For each rail: `posted` is when the first WRs (send) or the CTS
	 * (receive) were posted. `done` is when the rail's last bytes completed
	 * (send) or arrived (receive). */
	_Atomic uint32_t posted[MPIB_RAILS], done[MPIB_RAILS];
};

struct mpib_completion {
	_Alignas(MPIB_CACHELINE) _Atomic uint64_t word;
	_Atomic uint64_t progress;
	union {
		/* Bytes received in each buffer. If the result is -EMSGSIZE,
		 * size[0] is the size of the send and size[1] the size of the
		 * posted buffer. Valid when `word` has the request's
		 * generation. */
		uint32_t size[MPIB_GROUP_MAX];
		/* Only for requests with a report (MPIB_OP_REPORT). */
		struct mpib_stamps at;
	};
	/* Only for requests with a report. mpib_completion_report() describes
	 * the bits. */
	_Atomic uint64_t rail[MPIB_RAILS];
};

/* Complete the request of generation `gen`. `result` is the number of bytes, or
 * -errno. Call this once per generation, after size[] is written. Wait-free.
 * Shard only. */
static inline void mpib_completion_finish(struct mpib_completion *c,
					  uint32_t gen, int32_t result)
{
	/* Release pairs with the acquire in mpib_completion_poll(): sizes and
	 * data are in place before the client sees the new word. */
	atomic_store_explicit(&c->word, (uint64_t)gen << 32 | (uint32_t)result,
			      memory_order_release);
}

/* Set `progress` to `bytes`, which must not decrease within one generation.
 * Wait-free. Shard only. */
static inline void mpib_completion_advance(struct mpib_completion *c,
					   uint32_t gen, uint32_t bytes)
{
	/* Release pairs with the acquire in mpib_completion_progress(). */
	atomic_store_explicit(&c->progress, (uint64_t)gen << 32 | bytes,
			      memory_order_release);
}

/* If the request of generation `gen` is complete, set *result and return true.
 * Wait-free. Any thread of the client. */
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

/* Return how many bytes of the message have left the sender's memory or arrived
 * in the receiver's memory. Wait-free. Any thread of the client. */
static inline uint32_t mpib_completion_progress(const struct mpib_completion *c,
						uint32_t gen)
{
	/* Acquire pairs with the release in mpib_completion_advance(). */
	uint64_t word =
		atomic_load_explicit(&c->progress, memory_order_acquire);

	return (uint32_t)(word >> 32) == gen ? (uint32_t)word : 0;
}

/* Set all stamps to 0. Wait-free. Shard only, before the first report on the
 * request. */
static inline void mpib_stamps_clear(struct mpib_stamps *at)
{
	for (unsigned rail = 0; rail < MPIB_RAILS; rail++) {
		atomic_store_explicit(&at->posted[rail], 0,
				      memory_order_relaxed);
		atomic_store_explicit(&at->done[rail], 0, memory_order_relaxed);
	}
	atomic_store_explicit(&at->over, 0, memory_order_relaxed);
}

/* Clear the reports and stamps of a request with a report. Call this before the
 * first report and before any other write to the request's completion.
 * Wait-free. Shard only. */
static inline void mpib_completion_watch(struct mpib_completion *c,
					 uint32_t gen)
{
	for (unsigned rail = 0; rail < MPIB_RAILS; rail++)
		atomic_store_explicit(&c->rail[rail], 0, memory_order_relaxed);
	mpib_stamps_clear(&c->at);
	/* The release in mpib_completion_advance() pairs with the acquire in
	 * mpib_completion_reported(): a client that sees this generation sees
	 * no report of an older generation. */
	mpib_completion_advance(c, gen, 0);
}

/* Replace the report of one rail. From high to low bits, the word in rail[]
 * contains the state (2 bits), the QP number (24 bits) and the number of bytes
 * (38 bits). The 8 buffers of a group have less than 2^34 bytes. Wait-free.
 * Shard only. */
static inline void mpib_completion_report(struct mpib_completion *c,
					  unsigned rail,
					  const struct mpib_rail_report *r)
{
	/* Relaxed: this word depends on no other memory. */
	atomic_store_explicit(&c->rail[rail],
			      (uint64_t)r->state << 62 |
				      (uint64_t)(r->qpn & 0xffffff)
					      << MPIB_REPORT_BYTES_BITS |
				      (r->bytes & MPIB_REPORT_BYTES_MASK),
			      memory_order_relaxed);
}

/* Return whether `progress` has the generation `gen`. If it has, the reports
 * and stamps belong to this generation. Also call this before a request is
 * posted: if the result is true, `progress` is left from a request 2^32
 * generations earlier, and the new request must use another generation.
 * Wait-free. Any thread of the client. */
static inline bool mpib_completion_reported(const struct mpib_completion *c,
					    uint32_t gen)
{
	/* Acquire pairs with the release in mpib_completion_watch(). */
	return atomic_load_explicit(&c->progress, memory_order_acquire) >> 32 ==
	       gen;
}

/* Return the report of one rail. If there is no report yet, return the state
 * MPIB_RAIL_IDLE. Wait-free. Any thread of the client. */
static inline struct mpib_rail_report
mpib_completion_rail(const struct mpib_completion *c, unsigned rail,
		     uint32_t gen)
{
	struct mpib_rail_report r = { MPIB_RAIL_IDLE, 0, 0 };
	uint64_t word;

	if (!mpib_completion_reported(c, gen))
		return r;
	/* Relaxed: this word depends on no other memory. */
	word = atomic_load_explicit(&c->rail[rail], memory_order_relaxed);
	r.state = (enum mpib_rail_state)(word >> 62);
	r.qpn = (uint32_t)(word >> MPIB_REPORT_BYTES_BITS) & 0xffffff;
	r.bytes = word & MPIB_REPORT_BYTES_MASK;
	return r;
}

/* Convert `ns`, a time of CLOCK_MONOTONIC, to a stamp: a time in units of 64
 * ns, modulo 2^32 units (274 s). A stamp is never 0. */
static inline uint32_t mpib_stamp_of(uint64_t ns)
{
	uint32_t stamp = (uint32_t)(ns >> 6);

	return stamp ? stamp : 1;
}

/* Convert a stamp to a time of CLOCK_MONOTONIC in ns. The stamp must be at most
 * 137 s older than `now`. Return 0 if the stamp is 0. */
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

/* Set a stamp of a request with a report to the time `ns`. Wait-free. Shard
 * only. */
static inline void mpib_completion_stamp(_Atomic uint32_t *stamp, uint64_t ns)
{
	/* Relaxed: the release of `word` publishes `over`. The order of the
	 * other stamps does not matter: a reader that finds 0 reads the stamp
	 * again later. */
	atomic_store_explicit(stamp, mpib_stamp_of(ns), memory_order_relaxed);
}

/* Return the time of a stamp in ns, or 0 if the stamp is not set. Call this
 * only if `progress` has the request's generation. Wait-free. Any thread of the
 * client. */
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
