/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers that tell fragments apart which arrive in any order over many QPs:
 * 24 bits, 0 to 0xfffffe in turn. The receiver keeps a window beyond the next
 * one it waits for; what is behind it, or was seen already, is late, is counted
 * and dropped, also when the numbers have gone round.
 *
 * The sender keeps within that window: from the oldest number that is not
 * answered to the newest one there are never more than half of it, however long
 * one QP stands still while others go on. The other half is for what has arrived
 * and the receiver has not polled: of two devices one may be behind. So a number
 * beyond the window is a fault of the sender's and never of the network's.
 * Owner thread.
 */
#ifndef MPIB_VQP_SEQ_H
#define MPIB_VQP_SEQ_H

#include <stdbool.h>
#include <stdint.h>

#define MPIB_SEQ_MOD 0xffffffu
#define MPIB_SEQ_WINDOW 16384u /* a power of two */
/* Numbers on their way, from the oldest without an answer to the newest. */
#define MPIB_SEQ_SPAN (MPIB_SEQ_WINDOW / 2)
/* WRs in flight: as many receives complete at most before they are polled, and
 * those of another device meanwhile. */
#define MPIB_SEQ_INFLIGHT (MPIB_SEQ_SPAN / 4)

static inline uint32_t mpib_seq_next(uint32_t seq)
{
	return seq + 1 == MPIB_SEQ_MOD ? 0 : seq + 1;
}

struct mpib_seq_entry {
	uint32_t bytes;
	uint8_t parts; /* seen, a bit each */
	uint8_t all; /* of these; 0: none seen yet */
	bool last; /* of its message */
};

struct mpib_seq {
	uint32_t next; /* the first that is not complete */
	uint32_t at; /* its place in the window */
	uint64_t late; /* dropped: behind, or twice */
	struct mpib_seq_entry window[MPIB_SEQ_WINDOW];
};

/*
 * Part of the parts in all of number seq came, with so many bytes; a number is
 * complete with all its parts. 1: taken; 0: late, so it was dropped; -EPROTO: no
 * sound sender gives such a number, and others may be lost.
 */
int mpib_seq_arrived(struct mpib_seq *s, uint32_t seq, uint8_t part,
		     uint8_t all, bool last, uint32_t bytes);

/* Take the next number, if it is complete. */
bool mpib_seq_take(struct mpib_seq *s, bool *last, uint32_t *bytes);

/* The sender's side: which numbers are on their way. */
struct mpib_seq_sent {
	uint32_t next; /* to be given */
	uint32_t oldest; /* without an answer; next: none */
	uint32_t at; /* its place */
	uint64_t answered[MPIB_SEQ_SPAN / 64]; /* a bit each, from at on */
};

/* Whether the next number is within the span. */
static inline bool mpib_seq_may_send(const struct mpib_seq_sent *s)
{
	return (s->next + MPIB_SEQ_MOD - s->oldest) % MPIB_SEQ_MOD <
	       MPIB_SEQ_SPAN;
}

/* Number seq, one of those on their way, is answered. */
void mpib_seq_answered(struct mpib_seq_sent *s, uint32_t seq);

#endif
