/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of bad descriptors. */
#ifndef MPIB_TESTS_FAULT_SPOIL_H
#define MPIB_TESTS_FAULT_SPOIL_H

#include <mpib/ring.h>

/* Sizes in bytes of the memory that descriptors name, and of a valid
 * message. */
#define SPOIL_MEM 65536u
#define SPOIL_LEN 64u

enum spoil {
	BAD_OP,
	BAD_REQ,
	BAD_GEN,
	BAD_N_NONE,
	BAD_N,
	BAD_IDX,
	BAD_TOTAL,
	BAD_POS,
	BAD_LEN,
	/* an empty part after the first one (the first may be empty) */
	BAD_EMPTY,
	BAD_MR,
	BAD_MR_FAR,
	BAD_OFF,
	BAD_END,
	BAD_WRAP,
	BAD_PART, /* a part of a request that has no first part */
	BAD_MEMBER, /* a member of a group that has no first member */
	SPOILS,
	/* Errors that are not in the descriptor itself. */
	BAD_WAY = SPOILS, /* a send in a ring for receives */
	BAD_TWICE, /* a request that is already active */
	BAD_JUMP, /* a jump of the index */
	BADS,
};

/* Make a valid descriptor bad. `more` is a random number that selects the bad
 * value. */
void spoil(struct mpib_desc *d, enum spoil how, uint32_t more);

#endif
