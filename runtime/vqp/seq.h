/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers that tell fragments apart which arrive in any order over many QPs:
 * 24 bits, 0 to 0xfffffe in turn. The receiver keeps a window beyond the next
 * one it waits for; what is behind it, or was seen already, is late, is counted
 * and dropped, also when the numbers have gone round. Owner thread.
 */
#ifndef MPIB_VQP_SEQ_H
#define MPIB_VQP_SEQ_H

#include <stdbool.h>
#include <stdint.h>

#define MPIB_SEQ_MOD 0xffffffu
#define MPIB_SEQ_WINDOW 16384u /* fragments in flight, a power of two */

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
	uint64_t late; /* dropped: behind, beyond, twice, or of other parts */
	struct mpib_seq_entry window[MPIB_SEQ_WINDOW];
};

/*
 * Part of the parts in all of number seq came, with so many bytes; a number is
 * complete with all its parts. False: it was dropped.
 */
bool mpib_seq_arrived(struct mpib_seq *s, uint32_t seq, uint8_t part,
		      uint8_t all, bool last, uint32_t bytes);

/* Take the next number, if it is complete. */
bool mpib_seq_take(struct mpib_seq *s, bool *last, uint32_t *bytes);

#endif
