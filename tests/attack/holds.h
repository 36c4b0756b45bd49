/* SPDX-License-Identifier: Apache-2.0 */
/* The resources that a process should have released. */
#ifndef MPIB_TESTS_HOLDS_H
#define MPIB_TESTS_HOLDS_H

#include <sys/types.h>

/* Count the sockets, memory files and shared mappings of the thread that has
 * the most. In a process that ends, the first thread has none while it waits
 * for another thread. */
unsigned holds(pid_t pid);
/* Wait until the process holds at most this many. */
void until_holds_at_most(pid_t pid, unsigned most);

#endif
