/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The submission ring: one single-producer single-consumer queue per
 * connection, in the client's submit segment. The client is the producer, the
 * shard thread the consumer.
 *
 * A slot carries its sequence word in the cache line of its descriptor, so one
 * line moves per message. An index has 64 bits and only grows. Its slot is
 * index % slots. The producer may fill the slot of an index only if index -
 * head < slots, where head is the consumer's published head. A slot is full if
 * its `seq` is index + 1. Only the producer writes `seq`. Only the consumer
 * writes the head, in the reply segment, which the client cannot write.
 *
 * Neither side trusts the other: each keeps the ring's geometry and its own
 * index in private memory. A client that writes an invalid `seq` either garbles
 * its own descriptors, which the shard copies once and then checks, or is
 * detected by mpib_ring_jumped(). The client cannot make the shard read outside
 * the ring or loop forever. A producer that sees a head ahead of its own index
 * reports -EPROTO.
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
	/* Sending ends only, `n` is 1, all other fields are 0. The shard
	 * completes the request in the turn in which it reads the descriptor.
	 * Clients use it to measure a round trip through the ring. */
	MPIB_OP_NOP = 3,
	/* Receiving ends only: make the bytes received so far into the dma-buf
	 * region `mr` visible to the device that owns the memory. `n`, `total`
	 * and `len` are 1, `off` names any byte of the region, and `gen` counts
	 * the flushes of the connection from 1; all other fields are 0. A flush
	 * is not a request: when it is complete, the shard sets `flushed` in
	 * the reply segment to `gen`. */
	MPIB_OP_FLUSH = 4,
};

/* Flag in `op` of a request's first descriptor: the shard reports in the
 * completion what each rail does for the request. */
#define MPIB_OP_REPORT 0x80u
/* Flag in `op` of a send's first descriptor: other sends wait for this send's
 * bytes to leave the staging window. So the shard posts the send as soon as its
 * receive is known, and does not hold it back for the other sends of a
 * group. */
#define MPIB_OP_AT_ONCE 0x40u
#define MPIB_OP_MASK 0x3fu

/*
 * One part of a request. A request of ordinary memory passes through the
 * staging window part by part, in the order of `pos`. A request of memory from
 * mpib_mem_alloc() or mpib_reg_fd() is one part with `pos` 0 and `len` equal to
 * `total`. A grouped receive is `n` descriptors in a row, with `idx` 0 to `n` -
 * 1, each with `pos` 0 and `len` equal to `total`.
 *
 * On one connection all parts of a receive precede those of the next receive.
 * Parts of different sends may be mixed. The first parts of the sends of one
 * tag come in the order posted.
 */
struct mpib_desc {
	uint8_t op; /* enum mpib_op, perhaps with MPIB_OP_REPORT */
	uint8_t req; /* request index, < MPIB_REQUESTS */
	uint8_t idx; /* index of the buffer in a grouped receive */
	uint8_t n; /* buffers of the receive, 1 for a send */
	uint32_t gen; /* request generation, never 0; the completion word
			 repeats it */
	uint32_t mr; /* region handle, ignored if `len` is 0 */
	int32_t tag;
	uint64_t off; /* offset of the part's first byte in the region */
	uint32_t len; /* bytes of this part */
	uint32_t pos; /* position of this part in the message */
	uint32_t total; /* bytes of the send, or of the posted buffer */
	uint32_t rsvd[5];
};

struct mpib_ring_slot {
	_Alignas(MPIB_CACHELINE) _Atomic uint64_t seq; /* set by producer */
	struct mpib_desc desc;
};

/* Private state of the client. */
struct mpib_producer {
	struct mpib_ring_slot *slot;
	/* the consumer's head, in the reply segment */
	const _Atomic uint64_t *head;
	uint64_t tail, head_seen;
	uint64_t mask; /* slots - 1; the number of slots is a power of two */
};

/* Private state of the shard. */
struct mpib_consumer {
	struct mpib_ring_slot *slot;
	_Atomic uint64_t *head;
	uint64_t next;
	uint32_t size;
};

/*
 * Wait-free. Producer thread only. Returns how many slots may be pushed. Reads
 * the consumer's cache line only if the private copy of the head shows fewer
 * than `want` free slots. -EPROTO: the published head is impossible.
 */
static inline int mpib_ring_room(struct mpib_producer *p, uint32_t want)
{
	if (p->mask + 1 - (p->tail - p->head_seen) < want) {
		/* Acquire pairs with the release in mpib_ring_publish(): the
		 * consumer has copied a slot before the producer writes it
		 * again. */
		uint64_t head =
			atomic_load_explicit(p->head, memory_order_acquire);

		if (p->tail - head > p->mask + 1)
			return -EPROTO;
		p->head_seen = head;
	}
	return (int)(p->mask + 1 - (p->tail - p->head_seen));
}

/*
 * Wait-free. Producer thread only, and only after mpib_ring_room() > 0. Returns
 * the descriptor to fill in place; the consumer does not read it before
 * mpib_ring_commit(). Fields not written keep the values of an older
 * descriptor.
 */
static inline struct mpib_desc *mpib_ring_next(struct mpib_producer *p)
{
	return &p->slot[p->tail & p->mask].desc;
}

/* Wait-free. Producer thread only. Passes `d`, from mpib_ring_next(), to the
 * consumer. */
static inline void mpib_ring_commit(struct mpib_producer *p,
				    struct mpib_desc *d)
{
	struct mpib_ring_slot *s =
		(struct mpib_ring_slot *)((char *)d -
					  offsetof(struct mpib_ring_slot,
						   desc));

	/* Release pairs with the acquire in mpib_ring_pop(): a consumer that
	 * sees this sequence sees the whole descriptor. */
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
 * Wait-free. Consumer thread only. Copies the descriptor with that index into
 * *desc. The index is `next` or one of the `size` - 1 indices after it. False:
 * the slot is empty.
 */
static inline bool mpib_ring_look(const struct mpib_consumer *c, uint64_t index,
				  struct mpib_desc *desc)
{
	const struct mpib_ring_slot *s = &c->slot[index & (c->size - 1)];

	/* Acquire pairs with the release in mpib_ring_commit(). */
	if (atomic_load_explicit(&s->seq, memory_order_acquire) != index + 1)
		return false;
	*desc = s->desc;
	/* The client can change the slot, so the shard checks and uses only the
	 * copy: the fence keeps the compiler from reading the slot a second
	 * time. */
	atomic_signal_fence(memory_order_seq_cst);
	return true;
}

/*
 * Wait-free. Consumer thread only. Copies the oldest descriptor into *desc.
 * False: the ring is empty. Call mpib_ring_publish() once per batch.
 */
static inline bool mpib_ring_pop(struct mpib_consumer *c,
				 struct mpib_desc *desc)
{
	bool there = mpib_ring_look(c, c->next, desc);

	c->next += there;
	return there;
}

/*
 * Wait-free. Consumer thread only, after mpib_ring_pop() found nothing. True if
 * the slot holds a sequence number that a correct client never writes there.
 * Correct values are the slot's number in the previous lap, and 0 in an unused
 * or withdrawn slot.
 */
static inline bool mpib_ring_jumped(const struct mpib_consumer *c)
{
	/* Relaxed: only compared. */
	uint64_t seq = atomic_load_explicit(
		&c->slot[c->next & (c->size - 1)].seq, memory_order_relaxed);

	return seq != 0 && seq != c->next + 1 && seq != c->next + 1 - c->size;
}

/* Wait-free. Consumer thread only. Returns the popped slots to the producer. */
static inline void mpib_ring_publish(struct mpib_consumer *c)
{
	/* Release pairs with the acquire in mpib_ring_room(): the consumer's
	 * copies are done before the producer may write the slots again. */
	atomic_store_explicit(c->head, c->next, memory_order_release);
}

MPIB_ABI_ASSERT(sizeof(struct mpib_desc) == 56);
MPIB_ABI_ASSERT(sizeof(struct mpib_ring_slot) == 64);
MPIB_ABI_ASSERT(ATOMIC_LLONG_LOCK_FREE == 2);

#endif
