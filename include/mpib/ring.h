/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The submission ring: one single-producer single-consumer queue per
 * connection, in the client's submit segment. Client pushes, shard pops.
 *
 * The slot carries its own sequence word in the cache line of its descriptor,
 * so one line moves per message. Slot i of lap k is free for the producer when
 * its index is less than `size` ahead of the consumer's published head, and
 * full for the consumer when seq == index + 1. Indices are 64 bits and run
 * freely; seq is written by the producer alone, the head by the consumer
 * alone, in a segment the client can only read.
 *
 * Neither side trusts the other: each keeps its geometry and its own index in
 * private memory. A client that writes nonsense into seq garbles its own
 * descriptors, which are copied out once and then checked, or is found out by
 * mpib_ring_jumped(); it cannot make the consumer read outside the ring or
 * loop. A head that runs ahead of the producer's own index is refused with
 * -EPROTO.
 */
#ifndef MPIB_RING_H
#define MPIB_RING_H

#include <errno.h>
#include <mpib/abi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum mpib_op {
	MPIB_OP_SEND = 1,
	MPIB_OP_RECV = 2,
	/* Sending ends only, n 1, all else 0: the shard completes it in the
	 * turn that takes it. What the way there and back costs. */
	MPIB_OP_NOP = 3,
};

/* Or'ed to op, of a request's first descriptor: the shard tells in the
 * completion what each rail does for it. Only where the reply segment has
 * MPIB_FEATURE_REPORT. */
#define MPIB_OP_REPORT 0x80u
#define MPIB_OP_MASK 0x7fu

/*
 * One part of a request. A request of ordinary memory is fed part by part
 * through the staging window, in ascending pos; a request of registered memory
 * is one part with pos 0 and len == total. A grouped receive is n descriptors
 * in a row, idx 0..n-1, each with pos 0 and len == total.
 * Parts of one request are never mixed with those of the next on a connection,
 * but for sends that begin with a question: a descriptor with the total and no
 * bytes. When such a send has its receive, its progress word gets its generation;
 * only then do its parts come, from pos 0, and they may be mixed with others'.
 * Only where the reply segment has MPIB_FEATURE_ASK.
 */
struct mpib_desc {
	uint8_t op; /* enum mpib_op, with MPIB_OP_REPORT or not */
	uint8_t req; /* request index, < MPIB_REQUESTS */
	uint8_t idx; /* buffer of a grouped receive */
	uint8_t n; /* buffers of the receive, 1 for a send */
	uint32_t gen; /* request generation, never 0, comes back in the
			 completion word */
	uint32_t mr; /* region handle, ignored when len is 0 */
	int32_t tag;
	uint64_t off; /* of the part's first byte in the region */
	uint32_t len; /* bytes of this part */
	uint32_t pos; /* of this part in the message */
	uint32_t total; /* bytes of the send, or of the posted buffer */
	uint32_t rsvd[5];
};

struct mpib_ring_slot {
	_Alignas(MPIB_CACHELINE) _Atomic uint64_t seq; /* producer writes */
	struct mpib_desc desc;
};

/* Client's private side. */
struct mpib_producer {
	struct mpib_ring_slot *slot;
	const _Atomic uint64_t *head; /* consumer's, in the reply segment */
	uint64_t tail, head_seen;
	uint64_t mask; /* slots - 1, of a power of two */
};

/* Shard's private side. */
struct mpib_consumer {
	struct mpib_ring_slot *slot;
	_Atomic uint64_t *head;
	uint64_t next;
	uint32_t size;
};

/*
 * Wait-free. Producer thread only. Slots free for push; reads the consumer's
 * line only when the private copy says fewer than want are free.
 * -EPROTO when the published head cannot be right.
 */
static inline int mpib_ring_room(struct mpib_producer *p, uint32_t want)
{
	if (p->mask + 1 - (p->tail - p->head_seen) < want) {
		/* Acquire pairs with the release in mpib_ring_publish(): the
		 * consumer has copied a slot before we write it again. */
		uint64_t head =
			atomic_load_explicit(p->head, memory_order_acquire);

		if (p->tail - head > p->mask + 1)
			return -EPROTO;
		p->head_seen = head;
	}
	return (int)(p->mask + 1 - (p->tail - p->head_seen));
}

/*
 * Wait-free. Producer thread only, and only after mpib_ring_room() > 0. The
 * slot to fill in place; nobody reads it before mpib_ring_commit(). What is
 * left out of it keeps what an older descriptor had.
 */
static inline struct mpib_desc *mpib_ring_next(struct mpib_producer *p)
{
	return &p->slot[p->tail & p->mask].desc;
}

/* Wait-free. Producer thread only. Hands over d, which mpib_ring_next() gave. */
static inline void mpib_ring_commit(struct mpib_producer *p,
				    struct mpib_desc *d)
{
	struct mpib_ring_slot *s =
		(struct mpib_ring_slot *)((char *)d -
					  offsetof(struct mpib_ring_slot,
						   desc));

	/* Release pairs with the acquire in mpib_ring_pop(): the descriptor is
	 * whole before its sequence can be seen. */
	atomic_store_explicit(&s->seq, ++p->tail, memory_order_release);
}

/* Wait-free. Producer thread only, and only after mpib_ring_room() > 0. */
static inline void mpib_ring_push(struct mpib_producer *p,
				  const struct mpib_desc *desc)
{
	struct mpib_desc *d = mpib_ring_next(p);

	*d = *desc;
	mpib_ring_commit(p, d);
}

/*
 * Wait-free. Consumer thread only. Copies the oldest descriptor into *desc;
 * false when there is none. Call mpib_ring_publish() once per batch.
 */
static inline bool mpib_ring_pop(struct mpib_consumer *c,
				 struct mpib_desc *desc)
{
	struct mpib_ring_slot *s = &c->slot[c->next & (c->size - 1)];

	/* Acquire pairs with the release in mpib_ring_push(). */
	if (atomic_load_explicit(&s->seq, memory_order_acquire) != c->next + 1)
		return false;
	*desc = s->desc;
	/* The copy is what is checked and used: the compiler may not look at
	 * the slot again in its place. */
	atomic_signal_fence(memory_order_seq_cst);
	c->next++;
	return true;
}

/*
 * Wait-free. Consumer thread only, when mpib_ring_pop() found nothing. True
 * when the slot has a sequence that no producer writes: neither that of the
 * lap before, nor 0, which an unused or taken back slot has.
 */
static inline bool mpib_ring_jumped(const struct mpib_consumer *c)
{
	/* Relaxed: only compared. */
	uint64_t seq = atomic_load_explicit(
		&c->slot[c->next & (c->size - 1)].seq, memory_order_relaxed);

	return seq != 0 && seq != c->next + 1 && seq != c->next + 1 - c->size;
}

/* Wait-free. Consumer thread only. Gives the popped slots back. */
static inline void mpib_ring_publish(struct mpib_consumer *c)
{
	/* Release pairs with the acquire in mpib_ring_room(): our copies out
	 * are done before the producer may write the slots again. */
	atomic_store_explicit(c->head, c->next, memory_order_release);
}

MPIB_ABI_ASSERT(sizeof(struct mpib_desc) == 56);
MPIB_ABI_ASSERT(sizeof(struct mpib_ring_slot) == 64);
MPIB_ABI_ASSERT(ATOMIC_LLONG_LOCK_FREE == 2);

#endif
