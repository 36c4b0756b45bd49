/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a connection remembers: of its requests, at the sending end of what is
 * queued and in flight, at the receiving end of its slots. The shard thread's,
 * as all of conn.h.
 */
#ifndef MPIB_ENGINE_ENDS_H
#define MPIB_ENGINE_ENDS_H

#include <mpib/ring.h>
#include <mpib/wire.h>

#include "engine/conn/flush.h"
#include "engine/conn/send_op.h"

#define SEND_RANGES 64
/* The client got bytes of the slot back before the receiver's end-to-end ack:
 * if a fence finds that they were lost, they cannot be replayed. */
#define MPIB_ENDED_RELEASED (1u << 2 * MPIB_RAILS)

/* A request of the client, either direction. */
struct engine_request {
	uint32_t gen; /* generation of the last request with this index */
	bool active;
	/* In parts, or MPIB_OP_AT_ONCE: the client waits for progress words. */
	bool multipart;
	bool posted; /* some of the request was posted to a rail */
	bool report; /* MPIB_OP_REPORT */
	bool refused; /* send: too large, as its receiver is being told */
	uint8_t n;
	uint32_t msg; /* receive: message number in its CTS */
	uint32_t total; /* size sent, or posted */
	uint32_t fed; /* bytes the client described so far */
	uint32_t done; /* bytes in order */
	uint64_t since; /* shard->now when the first descriptor came */
	/* With report only: the chains of the request that are in flight. What
	 * the client is told of each rail is in its completion alone. */
	uint16_t chains[MPIB_RAILS];
};

struct send_range {
	uint8_t req;
	int32_t tag;
	struct mpib_mr *mr; /* NULL when len is 0 */
	uint64_t addr;
	uint32_t len, pos;
};

/* The grouped receive that the sender is answering. */
struct mpib_group {
	uint8_t n; /* buffers; 0: no group is being answered */
	/* A bit per buffer. matched: a send fills it; whole: all bytes of that
	 * send are posted or held; held: its range waits in range for the group's
	 * last chain. */
	uint8_t matched, whole, held;
	uint8_t mask; /* rails on which bytes of the group were posted */
	bool refused; /* a send was larger than its buffer */
	uint8_t req[MPIB_GROUP_MAX]; /* by buffer: the send that fills it */
	uint64_t rail[MPIB_RAILS]; /* bytes of the group posted so far */
	uint32_t size[MPIB_GROUP_MAX];
	struct send_range range[MPIB_GROUP_MAX];
	struct mpib_cts cts[MPIB_GROUP_MAX];
};

struct mpib_sender {
	struct send_range range[SEND_RANGES];
	uint32_t range_head, range_tail; /* free-running */
	struct send_op op[SEND_OPS];
	uint32_t op_head, op_tail;
	struct op_range share[SEND_SHARES];
	uint32_t share_head, share_tail; /* free-running */
	uint32_t lost; /* send ops with stripes to be replayed */
	uint64_t cts_next; /* first slot not answered */
	uint64_t cts_seen; /* CTS before this were read for end-to-end acks */
	uint64_t acked; /* the largest end-to-end ack that the peer wrote */
	/* match.c: no range before looked fits the receive whose first slot is
	 * looked_for. */
	uint64_t looked_for;
	uint32_t looked;
	uint32_t msg; /* number of the receive being answered */
	uint32_t pos; /* bytes of the message posted */
	uint8_t req; /* request of the message, while pos is set */
	/* Of the slot being filled. */
	uint8_t mask; /* rails on which bytes were posted */
	uint8_t spread; /* rails with bytes on more than one QP */
	bool released; /* the client has bytes of the slot back */
	uint64_t rail[MPIB_RAILS]; /* bytes posted */
	struct mpib_group group;
	/* By slot, engine_conn.slots of them, for those that may not have ended:
	 * 2 bits for the stripes whose IMM was posted, 2 for the rail that
	 * carries each of these IMMs, then MPIB_ENDED_RELEASED. */
	uint8_t ended[];
};

enum mpib_slot_state {
	MPIB_SLOT_FREE,
	MPIB_SLOT_POSTED,
	MPIB_SLOT_MEMBER, /* buffer of a group, but not its first */
	MPIB_SLOT_ARRIVED,
	MPIB_SLOT_CANCELLED, /* the message ended in an earlier slot */
};

struct mpib_slot {
	uint8_t state; /* enum mpib_slot_state */
	uint8_t req;
	uint8_t n, idx;
	uint8_t expected, seen; /* rails whose IMM is awaited, has come */
	uint32_t size_q; /* v1: from the IMM that told expected */
	uint64_t posted; /* when the slot's CTS was posted */
	uint32_t pos, len;
	uint32_t rail[MPIB_RAILS]; /* byte_len of the IMMs */
	struct mpib_mr *mr;
};

/* Value of acked when the sender may have no end-to-end ack at all: a fence may
 * have lost those that were written. */
#define MPIB_NOT_ACKED UINT64_MAX

struct mpib_receiver {
	uint64_t next; /* next slot to hand out */
	uint64_t cts_posted; /* CTS before this one are posted */
	uint64_t cts_again; /* post again from here to cts_posted (fence) */
	uint64_t tail; /* oldest slot that has not ended */
	uint64_t freed; /* the peer has read the CTS before this one */
	uint64_t acked; /* tail in the last end-to-end ack; MPIB_NOT_ACKED */
	uint64_t ack_since; /* when tail passed acked */
	uint32_t msg; /* receives begun: number of the next one */
	uint8_t group_got; /* descriptors of an unfinished group */
	struct mpib_desc group[MPIB_GROUP_MAX];
	struct mpib_flushes flush;
	struct mpib_slot slot[]; /* engine_conn.slots */
};

#endif
