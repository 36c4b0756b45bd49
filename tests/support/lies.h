/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which messages liar.c delivers wrongly, and how: LIAR_DOES is a list,
 * "drop@7,swap@12", of which message of each receiving connection, counted from 0.
 */
#ifndef MPIB_TESTS_LIES_H
#define MPIB_TESTS_LIES_H

#include <stdbool.h>
#include <stdint.h>

enum lie_kind {
	LIE_FIRST, /* flip a bit of the first byte */
	LIE_MIDDLE, /* flip a bit of a byte in the middle */
	LIE_LAST, /* flip a bit of the last byte */
	LIE_DROP, /* report it complete, with nothing written */
	LIE_TAIL, /* the same, with the second half missing */
	LIE_SHORT, /* all data, but a size less by one */
	LIE_LONG, /* all data, but a size more by one */
	LIE_DOUBLE, /* deliver the message before instead */
	LIE_SWAP, /* exchange this message and the next */
	LIE_KINDS
};

/* Read LIAR_DOES. False: it is not understood, or has too many. */
bool lies_take(void);
bool lies_does(enum lie_kind kind, uint64_t number);
/* A line in LIAR_LOG: it was done. */
void lies_note(enum lie_kind kind, uint64_t number);

#endif
