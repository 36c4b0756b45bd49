/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The submission ring: one single-producer single-consumer queue per
 * connection, in the client's submit segment. The client is the producer, and
 * the shard thread is the consumer.
 *
 * A slot holds a descriptor and a sequence word in one cache line, so each
 * message moves only one cache line between CPUs. Descriptors have 64-bit
 * indices, which only grow. The descriptor with index i uses slot i % n, where
 * n is the number of slots. The consumer publishes the head, which is the index
 * of the next descriptor that it will read. The producer may fill the slot of
 * index i only if i - head < n. If `seq` of a slot is i + 1, the slot contains
 * descriptor i. Only the producer writes `seq`. Only the consumer writes the
 * head. The head is in the reply segment, which the client cannot write.
 *
 * Neither side trusts the other. Each side keeps the ring's address, the ring's
 * size and its own index in private memory. If a client writes an invalid
 * `seq`, either mpib_ring_jumped() detects it, or the shard reads a garbled
 * descriptor. The shard copies each descriptor once and checks the copy. So a
 * client cannot make the shard read outside the ring or loop forever. If the
 * published head is ahead of the producer's own index, mpib_ring_room() returns
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
	/* Make the bytes that were received in the dma-buf region `mr` visible
	 * to the device that owns the memory. Only in receiving ends. `n`,
	 * `total` and `len` are 1. `off` is the offset of any byte of the
	 * region. `gen` numbers the flushes of the connection, from 1. All
	 * other fields are 0. A flush is not a request and has no completion:
	 * when the flush is complete, the shard sets `flushed` in the reply
	 * segment to `gen`. */
	MPIB_OP_FLUSH = 4,
};

/* Flag in `op` of a request's first descriptor: the shard reports in the
 * completion what each rail does for the request. */
#define MPIB_OP_REPORT 0x80u
/* Flag in `op` of a send's first descriptor: other sends wait until this send
 * frees its space in the staging window. So the shard posts this send as soon
 * as its receive is known, even if a grouped receive still lacks other
 * sends. */
#define MPIB_OP_AT_ONCE 0x40u
#define MPIB_OP_MASK 0x3fu /* bits of enum mpib_op in `op` */

/*
 * The descriptor of one part of a request. A request for ordinary memory is
 * divided into parts, which pass through the staging window in the order of
 * `pos`. A request for memory from mpib_mem_alloc() or mpib_reg_fd() is one
 * part with `pos` 0 and `len` equal to `total`. A grouped receive has `n`
 * consecutive descriptors, with `idx` 0 to `n` - 1, each with `pos` 0 and `len`
 * equal to `total`.
 *
 * In a connection's ring all parts of a receive precede those of the next
 * receive. Parts of different sends may alternate. The first parts of sends
 * with the same tag are in the order in which the sends were posted.
 */
struct mpib_desc {
	/* enum mpib_op, plus MPIB_OP_REPORT and MPIB_OP_AT_ONCE */
	uint8_t op;
	uint8_t req; /* index of the request's completion, < MPIB_REQUESTS */
	uint8_t idx; /* index of the buffer in a grouped receive */
	uint8_t n; /* number of buffers of the receive; 1 for a send */
	/* The request's generation, not 0. The shard copies it to the
	 * completion word. */
	uint32_t gen;
	/* `mr` of the region's struct mpib_ctl_region; ignored if `len` is
	 * 0 */
	uint32_t mr;
	int32_t tag;
	uint64_t off; /* offset of the part's first byte in the region */
	uint32_t len; /* bytes of this part */
	uint32_t pos; /* position of this part in the message */
	uint32_t total; /* bytes of the send, or of the posted buffer */
	uint32_t rsvd[5];
};

struct mpib_ring_slot {
	/* index of `desc`, plus 1; written by the producer */
	_Alignas(MPIB_CACHELINE) _Atomic uint64_t seq;
	struct mpib_desc desc;
};

/* Private state of the client. */
struct mpib_producer {
	struct mpib_ring_slot *slot; /* the ring */
	/* the consumer's head, in the reply segment */
	const _Atomic uint64_t *head;
	/* `tail` is the index of the next descriptor to push. `head_seen` is
	 * the last value read from *head. */
	uint64_t tail, head_seen;
	/* number of slots - 1; the number of slots is a power of two */
	uint64_t mask;
};

/* Private state of the shard. */
struct mpib_consumer {
	struct mpib_ring_slot *slot; /* the ring */
	_Atomic uint64_t *head; /* published head, in the reply segment */
	uint64_t next; /* index of the next descriptor to read */
	uint32_t size; /* number of slots, a power of two */
};

/*
 * Return how many descriptors may be pushed. -EPROTO: the published head is
 * impossible. If the private copy of the head shows at least `want` free slots,
 * do not read the consumer's cache line. Wait-free. Producer thread only.
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
 * Return the next descriptor, which the caller fills in place. The consumer
 * does not read the descriptor before mpib_ring_commit(). Fields that the
 * caller does not write keep the values of an older descriptor. Wait-free.
 * Producer thread only, and only if mpib_ring_room() has returned more than 0.
 */
static inline struct mpib_desc *mpib_ring_next(struct mpib_producer *p)
{
	return &p->slot[p->tail & p->mask].desc;
}

/* Pass the descriptor `d`, from mpib_ring_next(), to the consumer. Wait-free.
 * Producer thread only. */
static inline void mpib_ring_commit(struct mpib_producer *p,
				    struct mpib_desc *d)
{
	struct mpib_ring_slot *s =
		(struct mpib_ring_slot *)((char *)d -
					  offsetof(struct mpib_ring_slot,
						   desc));

	/* Release pairs with the acquire in mpib_ring_look(): a consumer that
	 * sees this value of `seq` also sees the whole descriptor. */
	atomic_store_explicit(&s->seq, ++p->tail, memory_order_release);
}

/* Copy *desc to the ring and pass it to the consumer. Wait-free. Producer
 * thread only, and only if mpib_ring_room() has returned more than 0. */
static inline void mpib_ring_push(struct mpib_producer *p,
				  const struct mpib_desc *desc)
{
	struct mpib_desc *d = mpib_ring_next(p);

	*d = *desc;
	mpib_ring_commit(p, d);
}

/*
 * Copy the descriptor with index `index` to *desc. `index` must be `next`, or
 * one of the `size` - 1 indices after `next`. Return false if the producer has
 * not pushed this descriptor yet. Wait-free. Consumer thread only.
 */
static inline bool mpib_ring_look(const struct mpib_consumer *c, uint64_t index,
				  struct mpib_desc *desc)
{
	const struct mpib_ring_slot *s = &c->slot[index & (c->size - 1)];

	/* Acquire pairs with the release in mpib_ring_commit(). */
	if (atomic_load_explicit(&s->seq, memory_order_acquire) != index + 1)
		return false;
	*desc = s->desc;
	/* The client can change the slot at any time. So the shard checks and
	 * uses only the copy. The fence prevents the compiler from reading the
	 * slot again. */
	atomic_signal_fence(memory_order_seq_cst);
	return true;
}

/*
 * Take the oldest descriptor from the ring and copy it to *desc. Return false
 * if the ring is empty. After one or more calls, call mpib_ring_publish().
 * Wait-free. Consumer thread only.
 */
static inline bool mpib_ring_pop(struct mpib_consumer *c,
				 struct mpib_desc *desc)
{
	bool there = mpib_ring_look(c, c->next, desc);

	c->next += there;
	return there;
}

/*
 * Return true if `seq` of the next slot has a value that a correct client never
 * writes there. Correct values are `next` + 1 for the next descriptor, `next` -
 * `size` + 1 for the slot's previous descriptor, and 0 for an unused or
 * withdrawn slot. Call this after mpib_ring_pop() has returned false.
 * Wait-free. Consumer thread only.
 */
static inline bool mpib_ring_jumped(const struct mpib_consumer *c)
{
	/* Relaxed: the value is only compared. */
	uint64_t seq = atomic_load_explicit(
		&c->slot[c->next & (c->size - 1)].seq, memory_order_relaxed);

	return seq != 0 && seq != c->next + 1 && seq != c->next + 1 - c->size;
}

/* Publish the head, so that the producer may reuse the slots of all popped
 * descriptors. Wait-free. Consumer thread only. */
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
