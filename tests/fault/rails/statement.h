/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What mpibctl why says of a connection from node 0 to node 1, beside what its
 * next messages do. The caller plays all threads. What is wrong ends the program
 * with the state's name.
 */
#ifndef MPIB_TESTS_FAULT_STATEMENT_H
#define MPIB_TESTS_FAULT_STATEMENT_H

#include "engine/split/policy.h"
#include "traffic.h"

extern struct nodes nodes;
extern struct traffic traffic; /* one connection */

extern struct statement_state {
	const char *mode, *name;
	uint64_t since; /* before the latest change, ns */
	unsigned count; /* statements that were right */
} state;

/* What is done from here on makes another state. */
void change(const char *to);
void change_of(unsigned rail, const char *to);
/* Messages go on until is() says so. */
void until(bool (*is)(unsigned rail), unsigned rail);
/* Ask, have some messages sent, and compare: who says so, the share, which
 * sizes are left out, the age. */
void expect(enum mpib_split_source source);

#endif
