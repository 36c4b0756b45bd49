/* SPDX-License-Identifier: Apache-2.0 */
/* What a process holds that it should have given up. */
#ifndef MPIB_TESTS_HOLDS_H
#define MPIB_TESTS_HOLDS_H

#include <sys/types.h>

/* How many sockets, files of memory and shared mappings, by the thread of most: one
 * that ends has none in the first, which waits for another. */
unsigned holds(pid_t pid);
/* Wait until it holds so many at most. */
void until_holds_at_most(pid_t pid, unsigned most);

#endif
