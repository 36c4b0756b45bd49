/* SPDX-License-Identifier: Apache-2.0 */
/* The resources of a process that it should have released. */
#ifndef MPIB_TESTS_HOLDS_H
#define MPIB_TESTS_HOLDS_H

#include <sys/types.h>

/* Count sockets, memory files and shared mappings of the thread with the most:
 * in a process that ends, the first thread has none while it waits for
 * another. */
unsigned holds(pid_t pid);
/* Wait until it holds at most this many. */
void until_holds_at_most(pid_t pid, unsigned most);

#endif
