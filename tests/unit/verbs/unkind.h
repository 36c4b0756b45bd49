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
#include <stddef.h>
#include <stdint.h>

struct unkind {
	uint64_t rng;
	unsigned cut; /* so many of a hundred calls move less */
	int room; /* of a socket from now on, 0: as the system has it */
	/* Of the sends that move more than that, the next moves so many bytes,
	 * and those after it none; 0: never. unkind_go_on() ends it. */
	size_t stop_at;
	uint32_t only; /* stop_at is for whoever sends from this IPv4; 0: all */
	unsigned no_memory; /* so many sends find none */
	unsigned no_files; /* so many calls find no descriptor to accept with */
};
extern struct unkind unkind;

/* Sockets that were stopped are writable again. */
void unkind_go_on(void);
/* Break one of this process's TCP connections, in one of several ways; false:
 * there is none. */
bool unkind_break(void);
/* The socket at the IPv4 address forgets its connection, as by a cable that was
 * out, and the other end hears nothing of it. False: there is none, or it did. Skips
 * the test where this user cannot make it deaf. */
bool unkind_forget(uint32_t at);

#endif
