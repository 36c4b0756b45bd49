/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated kernel that is correct but difficult. Its sockets have little
 * space, its sends and receives move fewer bytes than requested, and its
 * connections break. This is for programs linked with mpib_unkind(), see
 * CMakeLists.txt. It does not see calls through io_uring. For these only the
 * small space and the breaks have an effect.
 */
#ifndef UNKIND_H
#define UNKIND_H

#include <stdbool.h>
#include <stdint.h>

struct unkind {
	uint64_t rng;
	unsigned cut; /* percentage of calls that move fewer bytes */
	int room; /* space of later sockets; 0 means the system's default */
	unsigned no_memory; /* percentage of sends that find no space */
};
extern struct unkind unkind;

/* Break one of this process's TCP connections in one of several ways. Return
 * false if there is none. */
bool unkind_break(void);
#endif
