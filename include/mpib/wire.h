/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What travels between two proxies on the rails: immediate data (IMM),
 * clear-to-send (CTS), end-to-end acks and completion records. All fields are
 * little-endian, the native order of every supported machine. Only the IMM is
 * big-endian, as verbs requires: apply htobe32() to these values.
 *
 * IMM, bits high to low:
 *   v1, lane of one connection:  size_q 31..10 | mask 9..8 | slot 7..0
 *   v2, shared lane:  connection 31..12 | epoch 11..10 | mask 9..8 | slot 7..0
 *
 * `mask` has a bit for each rail that carries the message. `epoch` belongs to
 * the rail and increases each time the rail's QPs are fenced. A `mask` of 0
 * marks a replay: another rail carries stripes that a fenced rail lost, and the
 * slot's record says which. In a replay all bits of `size_q` are 1.
 */
#ifndef MPIB_WIRE_H
#define MPIB_WIRE_H

#include <mpib/abi.h>
#include <stdbool.h>
#include <stddef.h>

#define MPIB_IMM_V1 1u
#define MPIB_IMM_V2 2u

#define MPIB_IMM_SIZE_G 128u
#define MPIB_IMM_SIZEQ_BITS 22
/* All bits of `size_q` are 1: the size is in the completion record. */
#define MPIB_IMM_SIZEQ_SENTINEL ((1u << MPIB_IMM_SIZEQ_BITS) - 1)
/* The largest size that `size_q` can hold: 256 bytes less than 512 MiB, because
 * the value above is reserved. */
#define MPIB_IMM_SIZEQ_MAX                                                     \
	((uint64_t)(MPIB_IMM_SIZEQ_SENTINEL - 1) * MPIB_IMM_SIZE_G)
#define MPIB_WIRE_CONNS_MAX (1u << 20)

/* Number of entries in the CTS table and in the record table of a connection,
 * and maximum number of slots in use at once. A table holds all requests if
 * each has one buffer, or MPIB_TABLE_SLOTS / MPIB_GROUP_MAX groups; further
 * groups wait in the ring. */
#define MPIB_TABLE_SLOTS 64u

/* The smallest supported max_msg_sz of a port. It is the size of the longest
 * WRITE other than payload: a whole table of CTS. */
#define MPIB_MSG_LEAST 4096u

/* Return the rail's bit in a mask of a lane's rails. */
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

/* Return `size` in units of 128 bytes, rounded up, or the sentinel if `size` is
 * too large. */
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
 * A CTS: written by the receiver with RDMA WRITE into entry (`seq` - 1) %
 * entries of the sender's CTS table. `seq` is the last field, so the HCA writes
 * it last. `seq` is 1 + the slot's 64-bit sequence number, so it also
 * identifies the lap. A receive of `n` buffers uses `n` consecutive entries. A
 * receive in parts uses one entry per part. These entries have the same `msg`,
 * increasing `pos`, and the posted size in `total`. If a message ends early,
 * the sender skips its remaining entries.
 *
 * `ended` is the receiver's end-to-end ack at the time of this CTS, or 0 on
 * lanes without end-to-end acks. Every slot below `ended` has ended: all its
 * bytes and IMMs have arrived. An end-to-end ack without a CTS is written
 * behind the table, see struct mpib_e2e_ack.
 */
struct mpib_cts {
	uint64_t addr;
	uint32_t rkey[MPIB_RAILS];
	uint32_t len; /* bytes of this part */
	uint32_t pos; /* position of this part in the message */
	uint32_t total; /* posted size of the whole buffer */
	uint32_t msg; /* receives posted before this one, modulo 2^32 */
	int32_t tag;
	uint16_t n, idx; /* buffers of the receive; index of this buffer */
	uint64_t ended;
	uint32_t rsvd[2];
	uint64_t seq;
};

/*
 * End-to-end acks behind the sender's CTS table. The entry of a rail is the
 * last ack that the receiver wrote, by one 8-byte WRITE, through the rail's
 * first QP. Acks only grow, so the sender uses the largest one that it has
 * seen, from here or from a CTS.
 */
struct mpib_e2e_ack {
	uint64_t ended[MPIB_RAILS];
	uint64_t rsvd[6];
};

/*
 * A completion record. The sender writes it with RDMA WRITE into the slot's
 * entry of the receiver's record table, before the WRITE_WITH_IMM of the leader
 * rail and on the same QP. The leader rail is SOUT if SOUT carries bytes of the
 * message, else SUP. A record is written where the sum of byte_len is not
 * enough: grouped receives, a part sent in several writes, a message that ends
 * exactly at the end of a part that is not the receive's last, v1's sentinel,
 * errors and replays. The record is valid when its `seq` equals that of the
 * CTS.
 */
struct mpib_record {
	uint64_t seq;
	int32_t status; /* 0; -EMSGSIZE: no payload was written */
	uint8_t n;
	/* Replays only. A stripe has the bit of the rail that first carried
	 * it. */
	uint8_t expected; /* rails whose stripes must arrive to end the slot */
	uint8_t ends; /* rails whose stripes are complete with this IMM */
	uint8_t rsvd;
	/* bytes of each buffer, or of the message if `n` is 1 */
	uint32_t size[MPIB_GROUP_MAX];
	/* Bytes of this slot per rail: for a group up to 8 times 2 GiB. */
	uint64_t rail[MPIB_RAILS];
};

MPIB_ABI_ASSERT(sizeof(struct mpib_cts) == 64);
MPIB_ABI_ASSERT(offsetof(struct mpib_cts, ended) == 40);
MPIB_ABI_ASSERT(offsetof(struct mpib_cts, seq) == 56);
MPIB_ABI_ASSERT(sizeof(struct mpib_e2e_ack) == 64);
MPIB_ABI_ASSERT(sizeof(struct mpib_record) == 64);
MPIB_ABI_ASSERT(MPIB_TABLE_SLOTS * sizeof(struct mpib_cts) == MPIB_MSG_LEAST);
/* 8 bits of an IMM distinguish all slots in use, and the 2^64 sequence numbers
 * are a whole number of laps. */
MPIB_ABI_ASSERT(MPIB_TABLE_SLOTS <= MPIB_SLOTS);
MPIB_ABI_ASSERT((MPIB_TABLE_SLOTS & (MPIB_TABLE_SLOTS - 1)) == 0);
MPIB_ABI_ASSERT(MPIB_TABLE_SLOTS >= MPIB_REQUESTS + MPIB_GROUP_MAX);

#endif
