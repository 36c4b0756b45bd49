/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sequence numbers of fragments (or messages) that arrive in any order over
 * many QPs: 24 bits, 0 to 0xfffffe in turn. The receiver has a window that
 * starts at the next number that it waits for. A number before the window, or
 * one that it has already seen, is late: it is counted and dropped, also after
 * the numbers have wrapped.
 *
 * The sender stays within that window: from its oldest unanswered number to its
 * newest are never more than half a window, however long one QP stalls while
 * the others continue. The other half covers completions that the receiver has
 * not polled yet: one of its two devices may be behind. So only a faulty
 * sender, and never the network, makes a number beyond the window. Called by
 * the thread that owns the virtual QP.
 */
#ifndef MPIB_VQP_SEQ_H
#define MPIB_VQP_SEQ_H

#include <stdbool.h>
#include <stdint.h>

#define MPIB_SEQ_MOD 0xffffffu
#define MPIB_SEQ_WINDOW 16384u /* a power of two */
/* Sender: most numbers from the oldest unanswered to the newest. */
#define MPIB_SEQ_SPAN (MPIB_SEQ_WINDOW / 2)
/* Most WRs in flight: at most this many receives complete before the receiver
 * polls them, and as many on the other device meanwhile. */
#define MPIB_SEQ_INFLIGHT (MPIB_SEQ_SPAN / 4)

static inline uint32_t mpib_seq_next(uint32_t seq)
{
	return seq + 1 == MPIB_SEQ_MOD ? 0 : seq + 1;
}

struct mpib_seq_entry {
	uint32_t bytes;
	uint8_t parts; /* parts seen, one bit each */
	uint8_t all; /* parts that the number consists of; 0: none seen yet */
	bool last; /* last fragment of its message */
};

struct mpib_seq {
	uint32_t next; /* the first number that is not complete */
	uint32_t at; /* index in window of the entry of next */
	uint64_t late; /* numbers dropped: before the window, or duplicates */
	struct mpib_seq_entry window[MPIB_SEQ_WINDOW];
};

/* Note that a part of number seq arrived with bytes of payload. part is one bit
 * of all, the mask of its parts; seq is complete when all parts have arrived.
 * 1: accepted; 0: late and dropped; -EPROTO: a correct sender uses no such
 * number, so other numbers may be lost. */
int mpib_seq_arrived(struct mpib_seq *s, uint32_t seq, uint8_t part,
		     uint8_t all, bool last, uint32_t bytes);

/* Take the next number in order; false: it is not complete yet. */
bool mpib_seq_take(struct mpib_seq *s, bool *last, uint32_t *bytes);

/* The sender's side: the numbers in flight. */
struct mpib_seq_sent {
	uint32_t next; /* next number to use */
	uint32_t oldest; /* oldest unanswered number; next if there is none */
	uint32_t at; /* bit index in answered of oldest */
	uint64_t answered[MPIB_SEQ_SPAN / 64]; /* ring of bits from at on */
};

/* Return whether the sender may use number next, which must be within the
 * span. */
static inline bool mpib_seq_may_send(const struct mpib_seq_sent *s)
{
	return (s->next + MPIB_SEQ_MOD - s->oldest) % MPIB_SEQ_MOD <
	       MPIB_SEQ_SPAN;
}

/* Number seq, which is in flight (oldest <= seq < next), is answered. */
void mpib_seq_answered(struct mpib_seq_sent *s, uint32_t seq);

#endif
