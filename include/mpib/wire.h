/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What travels between two proxies on the rails: the immediate value, the
 * clear-to-send (CTS) and the completion record. Native byte order is
 * little-endian on every supported machine; imm travels big-endian as verbs
 * has it (htobe32() around these values).
 *
 * v1 (lane of one connection): slot[7:0] | active_mask[9:8] | size_q[31:10]
 * v2 (lane shared):  slot[7:0] | active_mask[9:8] | epoch[11:10] | connection[31:12]
 *
 * epoch is the rail's: it is raised each time the rail's QPs are fenced.
 * active_mask 0 is a replay: chunks that a fenced rail lost come over another
 * one, and the slot's record says which (size_q is all ones then).
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
/* All ones: the size is in the completion record. */
#define MPIB_IMM_SIZEQ_SENTINEL ((1u << MPIB_IMM_SIZEQ_BITS) - 1)
/* 256 bytes short of 512 MiB, since all ones is taken. */
#define MPIB_IMM_SIZEQ_MAX                                                     \
	((uint64_t)(MPIB_IMM_SIZEQ_SENTINEL - 1) * MPIB_IMM_SIZE_G)
#define MPIB_WIRE_CONNS_MAX (1u << 20)

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

/* Sentinel for a size that does not fit. */
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
 * Receiver to sender, by RDMA WRITE into entry (seq - 1) % 256 of the
 * connection's CTS table. seq is last, so that it is the last to be placed;
 * it is 1 + the slot's 64-bit sequence number and names the lap as well.
 * A receive of n buffers takes n entries in a row. A receive in parts takes an
 * entry per part: same msg, pos ascending, total the posted size. The sender
 * skips the entries of a message that ended earlier.
 * ended is the receiver's delivery word as of this CTS, where the lane has such
 * words, and 0 elsewhere: every slot below it has ended, that is, all its bytes
 * and IMMs are in. A word alone is written behind the table, see
 * struct mpib_e2e_ack.
 */
struct mpib_cts {
	uint64_t addr;
	uint32_t rkey[MPIB_RAILS];
	uint32_t len; /* of this part */
	uint32_t pos; /* of this part in the message */
	uint32_t total; /* posted size of the buffer */
	uint32_t msg; /* receives posted before this one, modulo 2^32 */
	int32_t tag;
	uint16_t n, idx; /* buffers of the receive, and which one this is */
	uint64_t ended;
	uint32_t rsvd[2];
	uint64_t seq;
};

/*
 * Behind the sender's CTS table: the delivery word as each rail's first QP wrote
 * it last, 8 bytes at a time. It only grows, so the largest that the sender ever
 * saw holds, here or in a CTS.
 */
struct mpib_e2e_ack {
	uint64_t ended[MPIB_RAILS];
	uint64_t rsvd[6];
};

/*
 * Sender to receiver, by RDMA WRITE into entry slot of the connection's record
 * table, on the leader rail (SOUT if active, else SUP), ahead of that rail's
 * WRITE_WITH_IMM on the same QP. Needed where the sum of byte_len does not say
 * it all: grouped receives, a part sent in several writes, a message that
 * ends exactly at the end of a part that is not its last, v1's sentinel,
 * errors and replays. Valid when seq is the CTS's own.
 */
struct mpib_record {
	uint64_t seq;
	int32_t status; /* 0, or -EMSGSIZE: nothing was written */
	uint32_t n;
	uint32_t size[MPIB_GROUP_MAX]; /* n == 1: bytes of the whole message */
	uint32_t rail[MPIB_RAILS]; /* bytes of this slot by rail */
	uint32_t expected; /* of a replay: chunks that end the slot, */
	uint32_t ends; /* and those that this IMM ends */
};

MPIB_ABI_ASSERT(sizeof(struct mpib_cts) == 64);
MPIB_ABI_ASSERT(offsetof(struct mpib_cts, ended) == 40);
MPIB_ABI_ASSERT(offsetof(struct mpib_cts, seq) == 56);
MPIB_ABI_ASSERT(sizeof(struct mpib_e2e_ack) == 64);
MPIB_ABI_ASSERT(sizeof(struct mpib_record) == 64);

#endif
