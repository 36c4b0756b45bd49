/* SPDX-License-Identifier: Apache-2.0 */
/* Sealed memfds replace dma-bufs. Count the descriptors of them that a proxy
 * holds. */
#ifndef TESTS_BUFFER_H
#define TESTS_BUFFER_H

#include <stdbool.h>

#include "node.h"

#define BUFFER_SIZE 65536u

/* Make a descriptor of BUFFER_SIZE bytes of zeros. The caller closes it. */
int buffer_make(const char *name);
/* Count the proxy's descriptors of memory with this name. */
unsigned buffer_held(const struct node *node, const char *name);
/* Wait until the proxy holds n. A thread closes descriptors that the proxy
 * refused. */
void buffer_until_held(const struct node *node, const char *name, unsigned n);
bool buffer_mapped(const struct node *node, const char *name);

#endif
