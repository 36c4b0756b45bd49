/* SPDX-License-Identifier: Apache-2.0 */
/* Count the resources that a process holds, to check that it has released
 * them. */
#ifndef MPIB_TESTS_HOLDS_H
#define MPIB_TESTS_HOLDS_H

#include <sys/types.h>

/* Count the sockets, memory files and shared mappings of each thread, and
 * return the highest count. While a process exits, its first thread may already
 * have released them while another thread still holds them. */
unsigned holds(pid_t pid);
/* Wait until holds() returns at most `most`. */
void until_holds_at_most(pid_t pid, unsigned most);

#endif
