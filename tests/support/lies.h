/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of corruption of liar.c, and the list of messages to corrupt.
 * LIAR_DOES is a list of corruptions, each with the number of a message, such
 * as "drop@7,swap@12". Each receiving connection counts its messages from 0.
 */
#ifndef MPIB_TESTS_LIES_H
#define MPIB_TESTS_LIES_H

#include <stdbool.h>
#include <stdint.h>

enum lie_kind {
	LIE_FIRST, /* flip a bit of the first byte */
	LIE_MIDDLE, /* flip a bit of a byte in the middle */
	LIE_LAST, /* flip a bit of the last byte */
	LIE_DROP, /* report the message as complete without its bytes */
	LIE_TAIL, /* report it as complete without its second half */
	LIE_SHORT, /* deliver all data, but report a size that is one less */
	LIE_LONG, /* deliver all data, but report a size that is one more */
	LIE_DOUBLE, /* deliver the previous message instead */
	LIE_SWAP, /* exchange this message with the next one */
	LIE_KINDS
};

/* Read LIAR_DOES. Return false if the text is invalid or has too many
 * entries. */
bool lies_take(void);
bool lies_does(enum lie_kind kind, uint64_t number);
/* Write to LIAR_LOG that message `number` was corrupted. */
void lies_note(enum lie_kind kind, uint64_t number);

#endif
