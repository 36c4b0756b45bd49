/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sequence numbers of fragments (or messages), which arrive in any order over
 * many QPs. They have 24 bits and go from 0 to 0xfffffe, then from 0 again. The
 * receiver has a window that starts at the first number that is not complete. A
 * number is late if it is before the window or has already arrived. Late
 * numbers are counted and dropped, also after the numbers have wrapped.
 *
 * The sender stays within the receiver's window. The sender's newest number is
 * at most half a window after its oldest incomplete number, even if one QP
 * stalls while the others continue. The other half of the window is for
 * completions that the receiver has not polled yet, because the receiver may
 * poll one device later than the other. So only a faulty sender, and never the
 * network, causes a number beyond the window. Called by the thread that owns
 * the virtual QP.
 */
#ifndef MPIB_VQP_SEQ_H
#define MPIB_VQP_SEQ_H

#include <stdbool.h>
#include <stdint.h>

#define MPIB_SEQ_MOD 0xffffffu
#define MPIB_SEQ_WINDOW 16384u /* a power of two */
/* At the sender, the newest number minus the oldest incomplete number is less
 * than MPIB_SEQ_SPAN. */
#define MPIB_SEQ_SPAN (MPIB_SEQ_WINDOW / 2)
/* Limit of WRs in flight. At most this number of receives can complete on each
 * device before the receiver polls that device. */
#define MPIB_SEQ_INFLIGHT (MPIB_SEQ_SPAN / 4)

static inline uint32_t mpib_seq_next(uint32_t seq)
{
	return seq + 1 == MPIB_SEQ_MOD ? 0 : seq + 1;
}

struct mpib_seq_entry {
	uint32_t bytes;
	uint8_t parts; /* mask of the parts seen */
	uint8_t all; /* mask of all parts of the number; 0: none seen yet */
	bool last; /* the number is that of a message's last fragment */
};

struct mpib_seq {
	uint32_t next; /* the first number that is not complete */
	uint32_t at; /* index of the entry of `next` in `window` */
	/* count of late numbers, which were dropped */
	uint64_t late;
	struct mpib_seq_entry window[MPIB_SEQ_WINDOW];
};

/* Record that one part of the message with number `seq` arrived, with `bytes`
 * bytes of payload. `all` is the mask of the message's parts, and `part` is one
 * bit of `all`. The number is complete when all parts have arrived. Return 1:
 * accepted; 0: late and dropped; -EPROTO: a correct sender would not use this
 * number, so other numbers may be lost. */
int mpib_seq_arrived(struct mpib_seq *s, uint32_t seq, uint8_t part,
		     uint8_t all, bool last, uint32_t bytes);

/* Take the next number in order, and return its values. Return false if that
 * number is not complete yet. */
bool mpib_seq_take(struct mpib_seq *s, bool *last, uint32_t *bytes);

/* The sender's record of numbers in flight. */
struct mpib_seq_sent {
	uint32_t next; /* next number to use */
	/* oldest incomplete number, or `next` if there is none */
	uint32_t oldest;
	uint32_t at; /* index of the bit of `oldest` in `answered` */
	/* ring with one bit per number; the first bit is that of `oldest` */
	uint64_t answered[MPIB_SEQ_SPAN / 64];
};

/* Return whether the sender may use the number `next`, that is, whether `next`
 * is within the span. */
static inline bool mpib_seq_may_send(const struct mpib_seq_sent *s)
{
	return (s->next + MPIB_SEQ_MOD - s->oldest) % MPIB_SEQ_MOD <
	       MPIB_SEQ_SPAN;
}

/* Record that the number `seq` is complete. `seq` must have been in flight:
 * oldest <= seq < next. */
void mpib_seq_answered(struct mpib_seq_sent *s, uint32_t seq);

#endif
