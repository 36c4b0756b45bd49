/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory segments that the proxy shares with its clients. The proxy creates
 * and seals all segments.
 *
 *   status   one per node, mapped read-only by every client
 *   submit   one per client, written by this client: summary bitmap and rings
 *   reply    one per client, mapped read-only by this client: ring heads,
 *            connection states, completions
 *
 * Staging windows and memory from mpib_mem_alloc() are other sealed memfds,
 * which hold only payload.
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

#define MPIB_SHARDS_MAX 16 /* maximum number of shards of a proxy */
/* Maximum number of connections of one client. */
#define MPIB_CONNS_MAX 1024
/* Maximum number of connection indices of one client. A connection that resumes
 * has two indices until its rank no longer uses the first. */
#define MPIB_INDEXES_MAX (2 * MPIB_CONNS_MAX)
#define MPIB_RING_SLOTS 64 /* slots in the ring of a connection */

struct mpib_status_shard {
	/* 1 while the shard sleeps or is about to sleep, else 0. */
	_Alignas(MPIB_CACHELINE) _Atomic uint32_t sleeping;
	/* Number of turns of the shard so far. A sleeping shard has no turns.
	 * This field has its own cache line, so that `sleeping`, which every
	 * push reads, stays in the clients' caches. */
	_Alignas(MPIB_CACHELINE) _Atomic uint64_t heartbeat;
};

struct mpib_status {
	uint64_t magic;
	uint32_t version;
	uint32_t pid; /* the proxy's pid, in the proxy's pid namespace */
	uint32_t shards; /* number of entries of `shard` in use */
	uint32_t rsvd;
	struct mpib_status_shard shard[MPIB_SHARDS_MAX];
};

/*
 * A bitmap of the client's rings that may have descriptors. After a push into
 * ring i the client sets bit i % 64 of word[i / 64], then bit i / 64 of `top`.
 * The shard reads and clears `top` by an atomic exchange with 0. In the same
 * way it reads and clears each word whose bit was set in `top`. Then the shard
 * serves the rings whose bits were set, each until it is empty. If the shard
 * stops earlier, it records in private memory that the ring is not empty.
 */
struct mpib_summary {
	_Alignas(MPIB_CACHELINE) _Atomic uint64_t top;
	_Alignas(MPIB_CACHELINE) _Atomic uint64_t word[MPIB_INDEXES_MAX / 64];
};

/*
 * Set the ring's bits in the summary after a push. Return true if the shard
 * sleeps: in this case the caller must write to the doorbell eventfd.
 * Wait-free. Any thread of the client.
 *
 * Before it sleeps, the shard sets `sleeping` and then reads `top` once more.
 * The client sets `top` and then reads `sleeping`. All four accesses are
 * sequentially consistent, so at least one of the two threads sees the other's
 * write. With a weaker order the shard could miss a push until the next push.
 *
 * The write of `word` must also be a release. If a push to another
 * ring has already set the bit in `top`, the shard may read `word` before this
 * call writes `top`.
 */
static inline bool mpib_summary_tell(_Atomic uint64_t *word, uint64_t word_bit,
				     _Atomic uint64_t *top, uint64_t top_bit,
				     const _Atomic uint32_t *sleeping)
{
	atomic_fetch_or(word, word_bit);
	atomic_fetch_or(top, top_bit);
	return atomic_load(sleeping) != 0;
}

/* Announce that the shard is about to sleep. After this call the shard must
 * check the summaries of all its clients once more before it sleeps. Wait-free.
 * Shard only. */
static inline void mpib_shard_sleeps(struct mpib_status_shard *shard)
{
	atomic_store(&shard->sleeping, 1);
}

/* Announce that the shard does not sleep. Wait-free. Shard only. */
static inline void mpib_shard_wakes(struct mpib_status_shard *shard)
{
	/* Relaxed: if a client sees this store late, the client only writes to
	 * the doorbell without need. */
	atomic_store_explicit(&shard->sleeping, 0, memory_order_relaxed);
}

/* Return whether any ring of the client may have descriptors. Wait-free. Shard
 * only. */
static inline bool mpib_summary_any(const struct mpib_summary *sum)
{
	return atomic_load(&sum->top) != 0;
}

/* Counters of events that only the client sees. The client's threads increase
 * them, with relaxed order. The proxy only displays them. */
struct mpib_client_counts {
	_Atomic uint64_t copies; /* parts copied through a staging window */
	_Atomic uint64_t copied_bytes;
	/* waits for a staging window, or for room in a staging window */
	_Atomic uint64_t stalls_pool;
	/* waits for a ring slot, or for an unused request */
	_Atomic uint64_t stalls_ring;
	uint64_t rsvd[2];
};

struct mpib_submit {
	uint64_t magic;
	uint32_t version;
	uint32_t conns; /* MPIB_INDEXES_MAX */
	struct mpib_client_counts counts; /* fills the rest of the cache line */
	struct mpib_summary summary;
	/* For each connection, since when mpib_isend() has found no unused
	 * request: a time of CLOCK_MONOTONIC in ns. 0: the latest call found
	 * one. The proxy only displays these times. */
	_Atomic uint64_t refused[MPIB_INDEXES_MAX];
	struct mpib_ring_slot ring[MPIB_INDEXES_MAX][MPIB_RING_SLOTS];
};

/*
 * In a sending end: the tags for which the oldest unanswered receive still
 * lacks a send. The shard writes them if none of the waiting sends that it has
 * read fits this receive. `word` is 16 * i + the number of tags, where i is the
 * index of the next descriptor that the shard will read. The shard changes the
 * tags only after it has read a descriptor, so they are current until the
 * client pushes descriptor i.
 */
struct mpib_want {
	_Atomic uint64_t word;
	_Atomic int32_t tag[MPIB_GROUP_MAX];
};

/* Publish `n` tags. `index` is the index of the next descriptor that the shard
 * will read. Wait-free. Shard only. */
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

/* Copy the tags to tag[], and return their number. If the shard published the
 * tags before it had read all pushed descriptors, return 0. `index` is the
 * index of the next descriptor to push. Wait-free. Connection's thread only. */
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
	/* The index is unused. The next connection at this index continues the
	 * ring at the published head. */
	MPIB_CONN_FREE,
	MPIB_CONN_PENDING, /* the two ends are not connected yet */
	MPIB_CONN_READY,
	MPIB_CONN_FAILED, /* `error` says why; closing frees the index */
	/* The client closed the connection. The index becomes FREE when no peer
	 * can access the connection's memory. */
	MPIB_CONN_CLOSING,
	/* The connection ended, and can resume. Neither the proxy nor a peer
	 * writes to its memory any more. The client resumes the connection at
	 * another index by MPIB_CTL_CONNECT or MPIB_CTL_RESUME. Closing frees
	 * this index. */
	MPIB_CONN_LOST,
};

/* Value of `broken` of a lost connection, which can resume at another index. No
 * completion word of this index changes any more. The shard stores the value
 * with release, after the last completion word. Failed connections never have
 * this value. */
#define MPIB_BROKEN_LOST (-ESTALE)

struct mpib_reply_conn {
	/* enum mpib_conn_state; written by the proxy's control thread */
	_Alignas(MPIB_CACHELINE) _Atomic uint32_t state;
	int32_t error; /* -errno, valid if `state` is MPIB_CONN_FAILED */
	/* Written by the shard. 0: requests can succeed; -errno: no request of
	 * this connection can succeed any more; or MPIB_BROKEN_LOST. Every post
	 * reads this field. So it does not share a cache line with `head`,
	 * which changes all the time. */
	_Atomic int32_t broken;
	/* Written by the shard: the head of the connection's ring (ring.h). */
	_Alignas(MPIB_CACHELINE) _Atomic uint64_t head;
	/* Written by the shard: the number of completed flushes (MPIB_OP_FLUSH)
	 * of the connection. Flushes complete in the order pushed. */
	_Atomic uint32_t flushed;
	/* Written by the shard, only in sending ends. */
	struct mpib_want want;
};

/*
 * An answer word tells which receive a send has matched. The shard writes the
 * word before the first byte of the send can reach the peer. The high 32 bits
 * are the generation of the send's request. The low 31 bits are the number of
 * the receive, modulo 2^31. Receive 0 is the first receive of the connection at
 * this index; `base` of struct mpib_reply_end counts earlier receives. The bit
 * MPIB_ANSWER_REFUSED means that the send was refused, because it is larger
 * than its receive; its completion has both sizes. The client reads the word
 * only after the shard has stopped writing.
 */
#define MPIB_ANSWER_REFUSED (1u << 31)

/* Return an answer word. */
static inline uint64_t mpib_answer(uint32_t gen, bool refused, uint32_t receive)
{
	return (uint64_t)gen << 32 | (refused ? MPIB_ANSWER_REFUSED : 0) |
	       (receive & ~MPIB_ANSWER_REFUSED);
}

/* Data that the rank needs to resume a connection after its proxy has ended.
 * The proxy's control thread writes this structure before the connection
 * becomes READY. For an ACCEPT, the thread writes it even before the peer
 * learns that the connection was accepted. */
struct mpib_reply_end {
	/* `key` of struct mpib_ctl_connect. The proxy writes this field last.
	 * Until then mpib_conn_learn() ignores the other fields. */
	_Alignas(MPIB_CACHELINE) _Atomic uint64_t key;
	/* number of requests so far for this end, and for the peer's end */
	uint64_t number, peer_number;
	/* number of receives that had ended before the connection got this
	 * index */
	uint64_t base;
	uint8_t addr[16], second[16]; /* addresses of the peer's proxy */
	uint16_t port; /* TCP port of both addresses, host order */
};

struct mpib_reply {
	uint64_t magic;
	uint32_t version;
	uint32_t conns; /* MPIB_INDEXES_MAX */
	/* 1: the proxy ended the session of this client, which must not attach
	 * to another proxy. */
	_Atomic uint32_t ended;
	/* The arrays below are indexed by connection index. */
	struct mpib_reply_conn conn[MPIB_INDEXES_MAX];
	struct mpib_reply_end end[MPIB_INDEXES_MAX];
	struct mpib_completion completion[MPIB_INDEXES_MAX][MPIB_REQUESTS];
	/* Stamps of requests with a report and more than MPIB_STAMPED_MAX
	 * buffers. */
	struct mpib_stamps group_at[MPIB_INDEXES_MAX][MPIB_REQUESTS];
	/* Answer words of the requests of sending ends. They do not share cache
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
