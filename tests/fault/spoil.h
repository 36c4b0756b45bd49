/* SPDX-License-Identifier: Apache-2.0 */
/* The ways in which a descriptor can be bad. */
#ifndef MPIB_TESTS_FAULT_SPOIL_H
#define MPIB_TESTS_FAULT_SPOIL_H

#include <mpib/ring.h>

/* Bytes of the memory that descriptors name, and of a valid message. */
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
	BAD_EMPTY, /* a part; a send may begin with nothing */
	BAD_MR,
	BAD_MR_FAR,
	BAD_OFF,
	BAD_END,
	BAD_WRAP,
	BAD_PART, /* of a request that did not begin */
	BAD_MEMBER, /* of a group that did not begin */
	BAD_NOP,
	SPOILS,
	/* What is bad beside the descriptor. */
	BAD_WAY = SPOILS, /* a send where receives go */
	BAD_TWICE, /* a request that is active */
	BAD_JUMP, /* no descriptor but an index */
	BADS,
};

/* Of a valid descriptor; more varies what it gets instead. */
void spoil(struct mpib_desc *d, enum spoil how, uint32_t more);

#endif
