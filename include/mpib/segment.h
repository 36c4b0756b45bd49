/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory segments that the proxy shares with its clients. The proxy creates
 * and seals all of them.
 *
 *   status   one per node, mapped read-only by every client
 *   submit   one per client, written by the client: summary bitmap and rings
 *   reply    one per client, mapped read-only by it: ring heads, connection
 *            states, completions
 *
 * Staging pools and memory from mpib_mem_alloc() are further sealed memfds,
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
/* A connection that resumes needs a second index until its rank no longer uses
 * the first. */
#define MPIB_INDEXES_MAX (2 * MPIB_CONNS_MAX)
#define MPIB_RING_SLOTS 64

struct mpib_status_shard {
	/* Set by mpib_shard_sleeps(), read by mpib_summary_tell(). */
	_Alignas(MPIB_CACHELINE) _Atomic uint32_t sleeping;
	/* Turns of the shard; constant while the shard sleeps. This field has
	 * its own cache line, so that `sleeping`, which every push reads, stays
	 * in the clients' caches. */
	_Alignas(MPIB_CACHELINE) _Atomic uint64_t heartbeat;
};

struct mpib_status {
	uint64_t magic;
	uint32_t version;
	uint32_t pid; /* the proxy's pid, in the proxy's pid namespace */
	uint32_t shards;
	uint32_t rsvd;
	struct mpib_status_shard shard[MPIB_SHARDS_MAX];
};

/*
 * Which rings may have work. After a push into ring `i` the client sets bit `i`
 * % 64 of word[`i` / 64], then bit `i` / 64 of `top`. The shard reads and
 * clears `top`, then each word whose bit was set in `top`, by atomic exchanges
 * with 0. The shard then serves a ring until the ring is empty, or records in
 * private memory that the ring is not empty.
 */
struct mpib_summary {
	_Alignas(MPIB_CACHELINE) _Atomic uint64_t top;
	_Alignas(MPIB_CACHELINE) _Atomic uint64_t word[MPIB_INDEXES_MAX / 64];
};

/*
 * Wait-free. Set the bits of the ring after a push. Any thread of a client may
 * call this. If the result is true, the shard sleeps, and the caller has to
 * write to the doorbell eventfd.
 *
 * The shard sets `sleeping` and then reads `top` once more. The client sets
 * `top` and then reads `sleeping`. All four accesses are sequentially
 * consistent, so at least one of the two threads sees the other's write. With a
 * weaker order the shard could miss a push until the next push. Sequentially
 * consistent accesses need no separate fence for that. The write of the bit in
 * `word` is a release, too: the shard may read this word before this call sets
 * the bit in `top`, because another ring has set that bit.
 */
static inline bool mpib_summary_tell(_Atomic uint64_t *word, uint64_t word_bit,
				     _Atomic uint64_t *top, uint64_t top_bit,
				     const _Atomic uint32_t *sleeping)
{
	atomic_fetch_or(word, word_bit);
	atomic_fetch_or(top, top_bit);
	return atomic_load(sleeping) != 0;
}

/* Wait-free. Shard only. After this the shard must check the summaries of all
 * its clients once more before it sleeps. */
static inline void mpib_shard_sleeps(struct mpib_status_shard *shard)
{
	atomic_store(&shard->sleeping, 1);
}

static inline void mpib_shard_wakes(struct mpib_status_shard *shard)
{
	/* Relaxed: a client that sees this store late only writes to the
	 * doorbell without need. */
	atomic_store_explicit(&shard->sleeping, 0, memory_order_relaxed);
}

/* Wait-free. Shard only. Return whether any ring may have work. Also the last
 * check before the shard sleeps. */
static inline bool mpib_summary_any(const struct mpib_summary *sum)
{
	return atomic_load(&sum->top) != 0;
}

/* Counters of events that only the client sees. Client threads add to them
 * (relaxed) when they copy or have to wait. The proxy only displays them. */
struct mpib_client_counts {
	_Atomic uint64_t copies; /* parts copied through a staging window */
	_Atomic uint64_t copied_bytes;
	_Atomic uint64_t
		stalls_pool; /* waits for a staging window, or for room in it */
	_Atomic uint64_t stalls_ring; /* waits for a ring slot or request */
	uint64_t rsvd[2];
};

struct mpib_submit {
	uint64_t magic;
	uint32_t version;
	uint32_t conns; /* MPIB_INDEXES_MAX */
	struct mpib_client_counts counts; /* fills the rest of the cache line */
	struct mpib_summary summary;
	/* Since when mpib_isend() on the connection has found no free request:
	 * CLOCK_MONOTONIC, ns; 0: the last call found one. For tools, like
	 * `counts`. */
	_Atomic uint64_t refused[MPIB_INDEXES_MAX];
	struct mpib_ring_slot ring[MPIB_INDEXES_MAX][MPIB_RING_SLOTS];
};

/*
 * At a sending end: the tags of the oldest unanswered receive for which no send
 * has come. The shard writes these tags if none of its waiting sends fits that
 * receive. `word` is 16 * the ring index up to which the shard had read, plus
 * the number of tags. If the client has pushed nothing after that index, the
 * value is current, because the shard writes a new value only after it has read
 * more.
 */
struct mpib_want {
	_Atomic uint64_t word;
	_Atomic int32_t tag[MPIB_GROUP_MAX];
};

/* Wait-free. Shard only. */
static inline void mpib_want_tell(struct mpib_want *want, uint64_t index,
				  const int32_t *tag, unsigned n)
{
	uint64_t word = index << 4 | n;

	if (atomic_load_explicit(&want->word, memory_order_relaxed) == word)
		return;
	for (unsigned i = 0; i < n; i++)
		atomic_store_explicit(&want->tag[i], tag[i],
				      memory_order_relaxed);
	/* Release pairs with the acquire in mpib_want_read(). */
	atomic_store_explicit(&want->word, word, memory_order_release);
}

/* Wait-free. Connection's thread only. `index` is the index of the thread's
 * next push. Return the number of tags written to tag[]. */
static inline unsigned mpib_want_read(const struct mpib_want *want,
				      uint64_t index, int32_t *tag)
{
	/* Acquire pairs with the release in mpib_want_tell(). */
	uint64_t word = atomic_load_explicit(&want->word, memory_order_acquire);
	unsigned n = word & 15;

	if (word >> 4 != index << 4 >> 4 || n > MPIB_GROUP_MAX)
		return 0;
	for (unsigned i = 0; i < n; i++)
		tag[i] = atomic_load_explicit(&want->tag[i],
					      memory_order_relaxed);
	return n;
}

enum mpib_conn_state {
	/* unused; the ring of the next connection at this index continues at
	 * the published head */
	MPIB_CONN_FREE,
	MPIB_CONN_PENDING,
	MPIB_CONN_READY,
	MPIB_CONN_FAILED, /* `error` says why; closing frees the index */
	MPIB_CONN_CLOSING, /* becomes FREE when no peer can access its memory */
	/* nothing writes to the connection's memory any more. The client
	 * resumes the connection at another index by MPIB_CTL_CONNECT or
	 * MPIB_CTL_RESUME. Closing frees the index. */
	MPIB_CONN_LOST,
};

/* Value of `broken`: no completion word changes any more, and the connection
 * continues at another index. Stored with release, after the last completion
 * word. No failure sets this value. */
#define MPIB_BROKEN_LOST (-ESTALE)

struct mpib_reply_conn {
	/* Written by the proxy's control thread. */
	_Alignas(MPIB_CACHELINE) _Atomic uint32_t state;
	int32_t error; /* -errno, valid in FAILED */
	/* Written by the shard: 0, or -errno once no request of this connection
	 * can succeed any more, or MPIB_BROKEN_LOST. Every post reads this
	 * field, so it does not share a cache line with `head`, which changes
	 * all the time. */
	_Atomic int32_t broken;
	_Alignas(MPIB_CACHELINE) _Atomic uint64_t head; /* of the ring */
	/* Written by the shard: the number of completed MPIB_OP_FLUSH of the
	 * connection. They complete in the order pushed. */
	_Atomic uint32_t flushed;
	struct mpib_want want; /* sending ends; written by the shard */
};

/*
 * The receive that a send answers. The shard writes this word before the first
 * byte of the send can reach the peer. The word holds the generation of the
 * send's request and the receive's number at this index, modulo 2^31; receive 0
 * is the first receive after `base` of struct mpib_reply_end.
 * MPIB_ANSWER_REFUSED: the send is larger than its receive and was refused; its
 * completion has both sizes. The client reads the word only after the shard has
 * stopped writing.
 */
#define MPIB_ANSWER_REFUSED (1u << 31)

static inline uint64_t mpib_answer(uint32_t gen, bool refused, uint32_t receive)
{
	return (uint64_t)gen << 32 | (refused ? MPIB_ANSWER_REFUSED : 0) |
	       (receive & ~MPIB_ANSWER_REFUSED);
}

/* State of a connection that the rank needs after its proxy has ended. The
 * proxy's control thread writes this state before the connection becomes READY,
 * and for an accept even before the peer learns of the accept. */
struct mpib_reply_end {
	/* From struct mpib_ctl_connect; written last, see mpib_conn_learn(). */
	_Alignas(MPIB_CACHELINE) _Atomic uint64_t key;
	/* how often each end was requested: this end, and the peer's end */
	uint64_t number, peer_number;
	/* number of receives that had ended before the connection got this
	 * index */
	uint64_t base;
	uint8_t addr[16], second[16]; /* addresses of the peer's proxy */
	uint16_t port;
};

struct mpib_reply {
	uint64_t magic;
	uint32_t version;
	uint32_t conns;
	/* 1: the proxy ended the session; this client must not attach to
	 * another proxy. */
	_Atomic uint32_t ended;
	struct mpib_reply_conn conn[MPIB_INDEXES_MAX];
	struct mpib_reply_end end[MPIB_INDEXES_MAX];
	struct mpib_completion completion[MPIB_INDEXES_MAX][MPIB_REQUESTS];
	/* For requests with a report and more than MPIB_STAMPED_MAX buffers. */
	struct mpib_stamps group_at[MPIB_INDEXES_MAX][MPIB_REQUESTS];
	/* For sending ends: values of mpib_answer(). They do not share cache
	 * lines with words that clients poll. */
	_Alignas(MPIB_CACHELINE) _Atomic uint64_t
		answers[MPIB_INDEXES_MAX][MPIB_REQUESTS];
};

MPIB_ABI_ASSERT(sizeof(struct mpib_status) == 2112);
MPIB_ABI_ASSERT(sizeof(struct mpib_summary) == 320);
MPIB_ABI_ASSERT(sizeof(struct mpib_submit) == 384 + 16384 + 8388608);
MPIB_ABI_ASSERT(offsetof(struct mpib_submit, summary) == 64);
MPIB_ABI_ASSERT(sizeof(struct mpib_reply) ==
		64 + 262144 + 262144 + 4194304 + 2097152 + 524288);
MPIB_ABI_ASSERT(offsetof(struct mpib_reply_conn, head) == 64);
MPIB_ABI_ASSERT(offsetof(struct mpib_reply_conn, flushed) == 72);
MPIB_ABI_ASSERT(offsetof(struct mpib_reply_conn, want) == 80);
MPIB_ABI_ASSERT(sizeof(struct mpib_reply_conn) == 128);
MPIB_ABI_ASSERT(sizeof(struct mpib_reply_end) == 128);

#endif
