/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The formats of the control data that two proxies exchange over the rails:
 * immediate data (IMM), clear-to-send (CTS), end-to-end acks and completion
 * records. Fields are little-endian, which is the native order of all supported
 * machines. The exception is the IMM: verbs require it to be big-endian on the
 * wire. The functions below use IMMs in host order.
 *
 * Bits of an IMM, from high to low:
 *   v1, for a lane with a single connection:
 *     size_q 31..10 | mask 9..8 | slot 7..0
 *   v2, for a lane that several connections share:
 *     connection 31..12 | epoch 11..10 | mask 9..8 | slot 7..0
 *
 * `slot` is the number of the slot, modulo 256. `size_q` is the number of bytes
 * of the slot in units of 128 bytes, rounded up. If the slot has a completion
 * record, all bits of `size_q` are 1. `mask` has the bit of each rail that
 * carries bytes of the slot. `epoch` counts the fences of the rail, modulo 4.
 * If `mask` is 0, the message is a replay: this rail carries stripes that were
 * lost on a fenced rail. The slot's completion record lists these stripes.
 */
#ifndef MPIB_WIRE_H
#define MPIB_WIRE_H

#include <mpib/abi.h>
#include <stdbool.h>
#include <stddef.h>

#define MPIB_IMM_V1 1u
#define MPIB_IMM_V2 2u

#define MPIB_IMM_SIZE_G 128u /* unit of `size_q` in bytes */
#define MPIB_IMM_SIZEQ_BITS 22
/* Value of `size_q` (all bits 1) if only the completion record has the size. */
#define MPIB_IMM_SIZEQ_SENTINEL ((1u << MPIB_IMM_SIZEQ_BITS) - 1)
/* The largest size in bytes that `size_q` can express: 256 bytes less than 512
 * MiB, because MPIB_IMM_SIZEQ_SENTINEL is reserved. */
#define MPIB_IMM_SIZEQ_MAX                                                     \
	((uint64_t)(MPIB_IMM_SIZEQ_SENTINEL - 1) * MPIB_IMM_SIZE_G)
/* Number of connections that an IMM of v2 can distinguish. */
#define MPIB_WIRE_CONNS_MAX (1u << 20)

/* Number of entries in a connection's CTS table and in its record table. At
 * most this number of slots are in use at once. If each receive has one buffer,
 * all outstanding receives have slots. If each receive has MPIB_GROUP_MAX
 * buffers, only MPIB_TABLE_SLOTS / MPIB_GROUP_MAX receives have slots, and the
 * others wait in the ring. */
#define MPIB_TABLE_SLOTS 64u

/* The smallest supported max_msg_sz of a port, in bytes. This is the size of a
 * CTS table, which is the longest WRITE without payload. */
#define MPIB_MSG_LEAST 4096u

/* Return the bit of a rail in a mask of rails. */
static inline uint8_t mpib_rail_bit(unsigned rail)
{
	return (uint8_t)(1u << rail);
}

static inline uint32_t mpib_imm_slot(uint32_t imm)
{
	return imm & 0xff;
}

static inline uint32_t mpib_imm_mask(uint32_t imm)
{
	return imm >> 8 & 3;
}

static inline uint32_t mpib_imm_v1(uint32_t slot, uint32_t mask,
				   uint32_t size_q)
{
	return slot | mask << 8 | size_q << 10;
}

static inline uint32_t mpib_imm_v1_size_q(uint32_t imm)
{
	return imm >> 10;
}

/* Return `size_q` for `size` bytes. If the size is larger than
 * MPIB_IMM_SIZEQ_MAX, return MPIB_IMM_SIZEQ_SENTINEL. */
static inline uint32_t mpib_size_q(uint64_t size)
{
	if (size > MPIB_IMM_SIZEQ_MAX)
		return MPIB_IMM_SIZEQ_SENTINEL;
	return (uint32_t)((size + MPIB_IMM_SIZE_G - 1) / MPIB_IMM_SIZE_G);
}

static inline uint32_t mpib_imm_v2(uint32_t slot, uint32_t mask, uint32_t epoch,
				   uint32_t conn)
{
	return slot | mask << 8 | (epoch & 3) << 10 | conn << 12;
}

static inline uint32_t mpib_imm_v2_epoch(uint32_t imm)
{
	return imm >> 10 & 3;
}

static inline uint32_t mpib_imm_v2_conn(uint32_t imm)
{
	return imm >> 12;
}

/*
 * A CTS. The receiver writes it into the sender's CTS table by RDMA WRITE. In a
 * table with m entries, the CTS has entry (`seq` - 1) % m. `seq` is the slot's
 * 64-bit sequence number plus 1, so the sender can distinguish the CTS from an
 * older CTS in the same entry. `seq` is the last field, so the HCA writes it
 * last.
 *
 * A receive of `n` buffers uses `n` consecutive entries. A receive in parts
 * uses one entry per part. The entries of its parts have the same `msg` and
 * `total`, and increasing `pos`. If the message is shorter than the receive,
 * the sender skips the remaining entries of the receive.
 *
 * `ended` is the receiver's end-to-end ack: all bytes and IMMs of the slots
 * with sequence numbers below `ended` have arrived. `ended` is 0 on lanes
 * without end-to-end acks. If the receiver has an ack to send but no CTS, it
 * writes the ack into struct mpib_e2e_ack.
 */
struct mpib_cts {
	uint64_t addr; /* address of this part at the receiver */
	uint32_t rkey[MPIB_RAILS]; /* for each rail */
	uint32_t len; /* bytes of this part */
	uint32_t pos; /* position of this part in the message */
	uint32_t total; /* posted size of the whole buffer */
	/* number of receives posted before this one, modulo 2^32 */
	uint32_t msg;
	int32_t tag;
	/* number of buffers of the receive, and index of this buffer */
	uint16_t n, idx;
	uint64_t ended;
	uint32_t rsvd[2];
	uint64_t seq;
};

/*
 * End-to-end acks. This structure follows the CTS table in the sender's memory.
 * ended[i] is the latest ack that the receiver wrote over rail i, by an 8-byte
 * WRITE on the rail's first QP. Acks never decrease, so the sender uses the
 * largest ack that it has read here or in a CTS.
 */
struct mpib_e2e_ack {
	uint64_t ended[MPIB_RAILS];
	uint64_t rsvd[6];
};

/*
 * A completion record. The sender writes it into the slot's entry of the
 * receiver's record table by RDMA WRITE. The sender posts this WRITE before the
 * WRITE_WITH_IMM of the leader rail, on the same QP. The leader rail is SOUT if
 * SOUT carries bytes of the message, else SUP. The record is valid when its
 * `seq` equals `seq` of the CTS.
 *
 * Without a record, the receiver computes the size from `byte_len` of the
 * slot's completions. The sender writes a record only in these cases:
 *   - for a grouped receive
 *   - for a part that is sent in several WRITEs
 *   - if the message ends exactly at the end of a part, and the receive has
 *     further parts
 *   - on lanes with IMM v1: for a part larger than MPIB_IMM_SIZEQ_MAX
 *   - for errors and replays
 */
struct mpib_record {
	uint64_t seq; /* copied from the CTS */
	int32_t status; /* 0; -EMSGSIZE: no payload was written */
	uint8_t n; /* number of buffers of the receive */
	/* `expected` and `ends` are masks of stripes, used only in replays. A
	 * stripe has the bit of the rail that carried the stripe first. */
	uint8_t expected; /* stripes that must arrive before the slot ends */
	uint8_t ends; /* stripes that are complete when this IMM arrives */
	uint8_t rsvd;
	/* bytes of each buffer; if `n` is 1, bytes of the message */
	uint32_t size[MPIB_GROUP_MAX];
	/* Bytes that each rail carries for this slot. In a group, this is the
	 * sum over all buffers: up to 8 * 2 GiB. */
	uint64_t rail[MPIB_RAILS];
};

MPIB_ABI_ASSERT(sizeof(struct mpib_cts) == 64);
MPIB_ABI_ASSERT(offsetof(struct mpib_cts, rkey) == 8);
MPIB_ABI_ASSERT(offsetof(struct mpib_cts, len) == 16);
MPIB_ABI_ASSERT(offsetof(struct mpib_cts, tag) == 32);
MPIB_ABI_ASSERT(offsetof(struct mpib_cts, ended) == 40);
MPIB_ABI_ASSERT(offsetof(struct mpib_cts, seq) == 56);
MPIB_ABI_ASSERT(sizeof(struct mpib_e2e_ack) == 64);
MPIB_ABI_ASSERT(sizeof(struct mpib_record) == 64);
MPIB_ABI_ASSERT(offsetof(struct mpib_record, status) == 8);
MPIB_ABI_ASSERT(offsetof(struct mpib_record, n) == 12);
MPIB_ABI_ASSERT(offsetof(struct mpib_record, expected) == 13);
MPIB_ABI_ASSERT(offsetof(struct mpib_record, ends) == 14);
MPIB_ABI_ASSERT(offsetof(struct mpib_record, size) == 16);
MPIB_ABI_ASSERT(offsetof(struct mpib_record, rail) == 48);
MPIB_ABI_ASSERT(MPIB_TABLE_SLOTS * sizeof(struct mpib_cts) == MPIB_MSG_LEAST);
/* The 8 bits of `slot` in an IMM must distinguish all slots in use. */
MPIB_ABI_ASSERT(MPIB_TABLE_SLOTS <= MPIB_SLOTS);
/* The number of entries must divide 2^64. Then consecutive sequence numbers
 * have consecutive entries even when the sequence number wraps to 0. */
MPIB_ABI_ASSERT((MPIB_TABLE_SLOTS & (MPIB_TABLE_SLOTS - 1)) == 0);
MPIB_ABI_ASSERT(MPIB_TABLE_SLOTS >= MPIB_REQUESTS + MPIB_GROUP_MAX);

#endif
