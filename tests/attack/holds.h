/* SPDX-License-Identifier: Apache-2.0 */
/* Count the resources that a process holds, to check that it has released
 * them. */
#ifndef MPIB_TESTS_HOLDS_H
#define MPIB_TESTS_HOLDS_H

#include <sys/types.h>

/* Return the number of sockets, memory files and shared mappings of the thread
 * that has the most. While a process exits, its first thread may have none
 * although another thread still has some. */
unsigned holds(pid_t pid);
/* Wait until the process holds at most this many. */
void until_holds_at_most(pid_t pid, unsigned most);

#endif
