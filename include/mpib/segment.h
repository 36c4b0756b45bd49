/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory segments that the proxy shares with its clients. The proxy creates
 * and seals all segments.
 *
 *   status   one per node, mapped read-only by every client
 *   submit   one per client, written by the client: summary bitmap and rings
 *   reply    one per client, mapped read-only by the client: ring heads,
 *            connection states, completions
 *
 * Staging windows and memory from mpib_mem_alloc() are separate sealed memfds.
 * They contain only payload.
 */
#ifndef MPIB_SEGMENT_H
#define MPIB_SEGMENT_H

#include <mpib/abi.h>
#include <mpib/completion.h>
#include <mpib/ring.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define MPIB_SHARDS_MAX 16 /* maximum number of shards of a proxy */
/* Maximum number of connections of one client. */
#define MPIB_CONNS_MAX 1024
/* Maximum number of connection indices of one client. A connection that resumes
 * has two indices until its rank no longer uses the old index. */
#define MPIB_INDEXES_MAX (2 * MPIB_CONNS_MAX)
#define MPIB_RING_SLOTS 64 /* slots in the ring of a connection */

struct mpib_status_shard {
	/* 1 while the shard sleeps or is about to sleep, else 0. */
	_Alignas(MPIB_CACHELINE) _Atomic uint32_t sleeping;
};

struct mpib_status {
	struct mpib_status_shard shard[MPIB_SHARDS_MAX];
};

/*
 * A bitmap of the client's rings that may contain descriptors. After a push
 * into ring i the client sets bit i % 64 of word[i / 64], then bit i / 64 of
 * `top`. The shard reads and clears `top` by an atomic exchange with 0. For
 * each bit that was set in `top`, the shard reads and clears the word of that
 * bit in the same way. Then the shard empties each ring whose bit was set. If
 * the shard stops before a ring is empty, it records in private memory that the
 * ring is not empty.
 */
struct mpib_summary {
	_Alignas(MPIB_CACHELINE) _Atomic uint64_t top;
	_Alignas(MPIB_CACHELINE) _Atomic uint64_t word[MPIB_INDEXES_MAX / 64];
};

/*
 * Set the ring's bits in the summary after a push. Return true if the shard
 * sleeps: then the caller must write to the doorbell eventfd. Wait-free. Any
 * thread of the client.
 *
 * Before the shard sleeps, it sets `sleeping` and then reads `top` once more.
 * The client sets `top` and then reads `sleeping`. All four accesses are
 * sequentially consistent, so at least one of the two threads sees the other's
 * write. With a weaker order, the shard could miss a push and sleep until the
 * next push.
 *
 * The write of `word` must also be a release, because the shard may read `word`
 * before this call writes `top`. This happens if a push to another ring has
 * already set the bit in `top`.
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

/* Announce that the shard is awake. Wait-free. Shard only. */
static inline void mpib_shard_wakes(struct mpib_status_shard *shard)
{
	/* Relaxed: a client that sees this store late only makes an unneeded
	 * write to the doorbell. */
	atomic_store_explicit(&shard->sleeping, 0, memory_order_relaxed);
}

/* Return whether any ring of the client may contain descriptors. Wait-free.
 * Shard only. */
static inline bool mpib_summary_any(const struct mpib_summary *sum)
{
	return atomic_load(&sum->top) != 0;
}

/* Counters of events that only the client sees. The client's threads increment
 * them with relaxed order. The proxy only displays them. */
struct mpib_client_counts {
	_Atomic uint64_t copies; /* parts copied through a staging window */
	_Atomic uint64_t copied_bytes;
	/* times that a request waited for a staging window or for room in it */
	_Atomic uint64_t stalls_pool;
	/* times that a call found no ring slot or no unused request */
	_Atomic uint64_t stalls_ring;
	uint64_t rsvd[2];
};

struct mpib_submit {
	struct mpib_client_counts counts;
	struct mpib_summary summary;
	/* For each connection: when mpib_isend() first found no unused request,
	 * as a time of CLOCK_MONOTONIC in ns. 0: the latest call found one. The
	 * proxy only displays these times. */
	_Atomic uint64_t refused[MPIB_INDEXES_MAX];
	struct mpib_ring_slot ring[MPIB_INDEXES_MAX][MPIB_RING_SLOTS];
};

/*
 * In a sending end: the tags of the sends that the oldest unmatched receive
 * still needs. The shard writes the tags when none of the waiting sends that it
 * has read matches this receive. `word` is 16 * i + the number of tags, where i
 * is the index of the next descriptor that the shard will read. The shard
 * changes the tags only after it has read a descriptor, so the tags are current
 * until the client pushes descriptor i.
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
	/* `error` and `why` of the reply segment have the reason; closing frees
	 * the index. */
	MPIB_CONN_FAILED,
	/* The client closed the connection. The index becomes FREE when no peer
	 * can access the connection's memory any more. */
	MPIB_CONN_CLOSING,
	/* The connection was interrupted, and can resume at another index.
	 * Neither the proxy nor a peer writes to the connection's memory any
	 * more. To resume, the client sends MPIB_CTL_CONNECT or MPIB_CTL_RESUME
	 * with the other index. Closing frees this index. */
	MPIB_CONN_LOST,
};

/* Value of `broken` for a connection that is lost and can resume at another
 * index. The shard stores this value, with release, after its last write of a
 * completion word of this index. Failed connections never have this value. */
#define MPIB_BROKEN_LOST (-ESTALE)

struct mpib_reply_conn {
	/* enum mpib_conn_state; written by the proxy's control thread */
	_Alignas(MPIB_CACHELINE) _Atomic uint32_t state;
	int32_t error; /* -errno, valid if `state` is MPIB_CONN_FAILED */
	/* Written by the shard. 0: requests can succeed. MPIB_BROKEN_LOST: see
	 * above. Another -errno: no request of this connection can succeed any
	 * more. Every post reads this field, so it does not share a cache line
	 * with `head`, which changes often. */
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
 * An answer word says which receive a send was matched with. The shard writes
 * the word before the first byte of the send can reach the peer. The high 32
 * bits are the generation of the send's request. The low 31 bits are the number
 * of the receive, modulo 2^31. Receive 0 is the first receive of the connection
 * at this index; `base` of struct mpib_reply_end counts earlier receives. If
 * the bit MPIB_ANSWER_REFUSED is set, the send was refused because it is larger
 * than its receive. The send's completion has both sizes. The client reads
 * answer words only to resume the connection, when the shard no longer writes
 * them.
 */
#define MPIB_ANSWER_REFUSED (1u << 31)

/* Return an answer word. */
static inline uint64_t mpib_answer(uint32_t gen, bool refused, uint32_t receive)
{
	return (uint64_t)gen << 32 | (refused ? MPIB_ANSWER_REFUSED : 0) |
	       (receive & ~MPIB_ANSWER_REFUSED);
}

/* Data that the rank needs to resume the connection after the proxy has ended.
 * The proxy's control thread writes this structure before the connection
 * becomes READY. For an ACCEPT, the thread writes the structure before it tells
 * the peer that the connection was accepted. */
struct mpib_reply_end {
	/* `key` of struct mpib_ctl_connect. The proxy writes this field last.
	 * Until then mpib_conn_learn() ignores the other fields. */
	_Alignas(MPIB_CACHELINE) _Atomic uint64_t key;
	/* number of CONNECT, ACCEPT and RESUME requests so far, for this end
	 * and for the peer's end */
	uint64_t number, peer_number;
	/* number of receives that had ended before the connection got this
	 * index */
	uint64_t base;
	uint8_t addr[16], second[16]; /* addresses of the peer's proxy */
	uint16_t port; /* TCP port of both addresses, host order */
};

struct mpib_reply {
	/* 1: the proxy ended this client's session. The client must not attach
	 * to another proxy. */
	_Atomic uint32_t ended;
	/* The arrays below are indexed by connection index. */
	struct mpib_reply_conn conn[MPIB_INDEXES_MAX];
	struct mpib_reply_end end[MPIB_INDEXES_MAX];
	struct mpib_completion completion[MPIB_INDEXES_MAX][MPIB_REQUESTS];
	/* Stamps of requests that have a report and more than MPIB_STAMPED_MAX
	 * buffers. */
	struct mpib_stamps group_at[MPIB_INDEXES_MAX][MPIB_REQUESTS];
	/* Answer words of the requests of sending ends. The array shares no
	 * cache line with words that clients poll. */
	_Alignas(MPIB_CACHELINE) _Atomic uint64_t
		answers[MPIB_INDEXES_MAX][MPIB_REQUESTS];
	/* Why the connection failed; valid if its state is MPIB_CONN_FAILED.
	 * The control thread writes this text before the state. */
	char why[MPIB_INDEXES_MAX][240];
};

MPIB_ABI_ASSERT(sizeof(struct mpib_status) == 1024);
MPIB_ABI_ASSERT(sizeof(struct mpib_summary) == 320);
MPIB_ABI_ASSERT(sizeof(struct mpib_submit) == 384 + 16384 + 8388608);
MPIB_ABI_ASSERT(offsetof(struct mpib_submit, summary) == 64);
MPIB_ABI_ASSERT(sizeof(struct mpib_reply) ==
		64 + 262144 + 262144 + 4194304 + 2097152 + 524288 + 491520);
MPIB_ABI_ASSERT(offsetof(struct mpib_reply_conn, head) == 64);
MPIB_ABI_ASSERT(offsetof(struct mpib_reply_conn, flushed) == 72);
MPIB_ABI_ASSERT(offsetof(struct mpib_reply_conn, want) == 80);
MPIB_ABI_ASSERT(sizeof(struct mpib_reply_conn) == 128);
MPIB_ABI_ASSERT(sizeof(struct mpib_reply_end) == 128);

#endif
