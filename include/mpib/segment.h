/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared segments. The proxy creates and seals them all.
 *
 *   status   one for the node, every client maps it read-only
 *   submit   one per client, the client writes: summary bitmap and rings
 *   reply    one per client, the client can only read: ring heads,
 *            connection states, completions
 *
 * Staging pools and memory from mpib_mem_alloc() are further sealed memfds
 * without any structure.
 */
#ifndef MPIB_SEGMENT_H
#define MPIB_SEGMENT_H

#include <mpib/abi.h>
#include <mpib/completion.h>
#include <mpib/ring.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define MPIB_STATUS_MAGIC 0x5350424d4950424dull
#define MPIB_SUBMIT_MAGIC 0x4253424d4950424dull
#define MPIB_REPLY_MAGIC 0x5052424d4950424dull

#define MPIB_SHARDS_MAX 16
#define MPIB_CONNS_MAX 1024 /* connections of one client */
#define MPIB_RING_SLOTS 64

struct mpib_status_shard {
	/* mpib_summary_tell() against mpib_shard_sleeps(). */
	_Alignas(MPIB_CACHELINE) _Atomic uint32_t sleeping;
	/* One up per turn, still while asleep. On a line of its own: every push
	 * reads sleeping, which should stay in the pushers' caches. */
	_Alignas(MPIB_CACHELINE) _Atomic uint64_t heartbeat;
};

struct mpib_status {
	uint64_t magic;
	uint32_t version;
	uint32_t pid; /* proxy's, in its own pid namespace */
	uint32_t shards;
	uint32_t rsvd;
	struct mpib_status_shard shard[MPIB_SHARDS_MAX];
};

/*
 * Which rings may have work. The client pushes, sets bit i % 64 of
 * word[i / 64], then bit i / 64 of top; the shard takes top, then the words it
 * names, both by exchange with 0, and serves a ring until it is empty or until
 * it remembers privately that it is not.
 */
struct mpib_summary {
	_Alignas(MPIB_CACHELINE) _Atomic uint64_t top;
	_Alignas(MPIB_CACHELINE) _Atomic uint64_t word[MPIB_CONNS_MAX / 64];
};

/*
 * Wait-free. Any thread of a client, after a push: the bits of its ring. True
 * when the shard sleeps, and the doorbell eventfd has to be written.
 *
 * The shard says that it sleeps and then looks at top a last time; here top is
 * set, and then comes the look whether it sleeps. These four accesses are
 * sequentially consistent, so one of the two sees the other; with less a push may
 * lie there until the next. A read-modify-write and a load cost no fence of
 * their own. The word's is released to the shard that takes it: by another
 * ring's bit of top it may take this one before top has it.
 */
static inline bool mpib_summary_tell(_Atomic uint64_t *word, uint64_t word_bit,
				     _Atomic uint64_t *top, uint64_t top_bit,
				     const _Atomic uint32_t *sleeping)
{
	atomic_fetch_or(word, word_bit);
	atomic_fetch_or(top, top_bit);
	return atomic_load(sleeping) != 0;
}

/* Wait-free. Shard only. It looks at all summaries before it sleeps. */
static inline void mpib_shard_sleeps(struct mpib_status_shard *shard)
{
	atomic_store(&shard->sleeping, 1);
}

static inline void mpib_shard_wakes(struct mpib_status_shard *shard)
{
	/* Relaxed: who sees it late rings for nothing. */
	atomic_store_explicit(&shard->sleeping, 0, memory_order_relaxed);
}

/* Wait-free. Shard only. Whether any ring has work; the last look, too. */
static inline bool mpib_summary_any(const struct mpib_summary *sum)
{
	return atomic_load(&sum->top) != 0;
}

/*
 * What only the client knows. Its threads add, relaxed, where they copy or have
 * to wait; the proxy shows it and trusts it with nothing.
 */
struct mpib_client_counts {
	_Atomic uint64_t copies; /* parts through a staging window */
	_Atomic uint64_t copied_bytes;
	_Atomic uint64_t stalls_pool; /* the staging window was full */
	_Atomic uint64_t stalls_ring; /* the ring was, or 32 requests wait */
	uint64_t rsvd[2];
};

struct mpib_submit {
	uint64_t magic;
	uint32_t version;
	uint32_t conns; /* MPIB_CONNS_MAX */
	struct mpib_client_counts counts; /* in what was padding */
	struct mpib_summary summary;
	struct mpib_ring_slot ring[MPIB_CONNS_MAX][MPIB_RING_SLOTS];
};

enum mpib_conn_state {
	MPIB_CONN_FREE, /* index may be used for connect or accept; the ring
			   goes on at the published head */
	MPIB_CONN_PENDING,
	MPIB_CONN_READY,
	MPIB_CONN_FAILED, /* error says why; close it to free the index */
	MPIB_CONN_CLOSING, /* becomes FREE when nothing can touch memory */
};

struct mpib_reply_conn {
	/* Control thread writes. */
	_Alignas(MPIB_CACHELINE) _Atomic uint32_t state;
	int32_t error; /* -errno, valid in FAILED */
	/* Shard writes: 0, or -errno: no request succeeds again. Every post
	 * reads it, so it is kept apart from the busy head. */
	_Atomic int32_t broken;
	_Alignas(MPIB_CACHELINE) _Atomic uint64_t head; /* ring's consumer */
};

#define MPIB_FEATURE_ASK 2u /* a send may begin with a question, see ring.h */
#define MPIB_FEATURE_REPORT 4u /* MPIB_OP_REPORT may be used */

struct mpib_reply {
	uint64_t magic;
	uint32_t version;
	uint32_t conns;
	uint32_t features; /* MPIB_FEATURE_*, 0 of a proxy that knows none */
	struct mpib_reply_conn conn[MPIB_CONNS_MAX];
	struct mpib_completion completion[MPIB_CONNS_MAX][MPIB_REQUESTS];
};

MPIB_ABI_ASSERT(sizeof(struct mpib_status) == 2112);
MPIB_ABI_ASSERT(sizeof(struct mpib_summary) == 192);
MPIB_ABI_ASSERT(sizeof(struct mpib_submit) == 256 + 4194304);
MPIB_ABI_ASSERT(offsetof(struct mpib_submit, summary) == 64);
MPIB_ABI_ASSERT(sizeof(struct mpib_reply) == 64 + 131072 + 2097152);
MPIB_ABI_ASSERT(offsetof(struct mpib_reply_conn, head) == 64);

#endif
