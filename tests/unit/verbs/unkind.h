/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulate a kernel that is correct but difficult, for programs that are linked
 * with mpib_unkind() (see CMakeLists.txt). Sockets have small buffers, sends
 * and receives move fewer bytes than requested, and connections break. With
 * io_uring, only the small buffers and the broken connections have an effect.
 */
#ifndef UNKIND_H
#define UNKIND_H

#include <stdbool.h>
#include <stdint.h>

struct unkind {
	uint64_t rng;
	unsigned cut; /* percentage of calls that move fewer bytes */
	int room; /* buffer size of new sockets; 0: the system's default */
	/* number of the next sends that fail for lack of memory */
	unsigned no_memory;
};
extern struct unkind unkind;

/* Break a random TCP connection of this process in a random way. Return false
 * if there is no connection. */
bool unkind_break(void);
#endif
