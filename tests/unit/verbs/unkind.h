/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel that is correct but difficult: sockets with little space, sends and
 * receives that move less than asked, connections that break. For programs
 * linked with mpib_unkind(), see CMakeLists.txt. It does not see calls through
 * io_uring, where only the small space and the breaks have an effect.
 */
#ifndef UNKIND_H
#define UNKIND_H

#include <stdbool.h>
#include <stdint.h>

struct unkind {
	uint64_t rng;
	unsigned cut; /* percentage of calls that move less */
	int room; /* space of later sockets; 0: the system's default */
	unsigned no_memory; /* percentage of sends that find no space */
};
extern struct unkind unkind;

/* Break one of this process's TCP connections, in one of several ways; false:
 * there is none. */
bool unkind_break(void);
#endif
