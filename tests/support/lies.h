/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which messages liar.c corrupts, and how. LIAR_DOES is a list such as
 * "drop@7,swap@12": the corruption and the number of the message, counted from
 * 0 on each receiving connection.
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
	LIE_SHORT, /* all data, with a size one less */
	LIE_LONG, /* all data, with a size one more */
	LIE_DOUBLE, /* deliver the previous message instead */
	LIE_SWAP, /* exchange this message and the next */
	LIE_KINDS
};

/* Read LIAR_DOES. Returns false if the text is invalid or has too many
 * entries. */
bool lies_take(void);
bool lies_does(enum lie_kind kind, uint64_t number);
/* Write a line to LIAR_LOG: the corruption was done. */
void lies_note(enum lie_kind kind, uint64_t number);

#endif
