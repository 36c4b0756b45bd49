/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel that is in its rights and yet unkind: sockets with little room, sends
 * and receives that move less than they were asked to, connections that break.
 * For programs linked with mpib_unkind(), see CMakeLists.txt; of the calls that
 * go through io_uring it sees none, so there the room and the breaks must do.
 */
#ifndef UNKIND_H
#define UNKIND_H

#include <stdbool.h>
#include <stdint.h>

struct unkind {
	uint64_t rng;
	unsigned cut; /* so many of a hundred calls move less */
	int room; /* of a socket from now on, 0: as the system has it */
	unsigned no_memory; /* so many sends find none */
};
extern struct unkind unkind;

/* Break one of this process's TCP connections, in one of several ways; false:
 * there is none. */
bool unkind_break(void);
#endif
