/* SPDX-License-Identifier: Apache-2.0 */
/* Make sealed memfds, which stand for dma-bufs, and count how many descriptors
 * of them a proxy holds. */
#ifndef TESTS_BUFFER_H
#define TESTS_BUFFER_H

#include <stdbool.h>

#include "node.h"

#define BUFFER_SIZE 65536u

/* Return the descriptor of a buffer with BUFFER_SIZE zero bytes. The caller
 * closes it. */
int buffer_make(const char *name);
/* Count the proxy's descriptors of buffers with this name. */
unsigned buffer_held(const struct node *node, const char *name);
/* Wait until the proxy holds `n` such descriptors. This takes a moment, since
 * another thread of the proxy closes the descriptors that the proxy refused. */
void buffer_until_held(const struct node *node, const char *name, unsigned n);
bool buffer_mapped(const struct node *node, const char *name);

#endif
