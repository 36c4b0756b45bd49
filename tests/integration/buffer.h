/* SPDX-License-Identifier: Apache-2.0 */
/* Sealed memfds in the place of dma-bufs, and what a proxy holds of them. */
#ifndef TESTS_BUFFER_H
#define TESTS_BUFFER_H

#include <stdbool.h>

#include "node.h"

#define BUFFER_SIZE 65536u

/* A descriptor of BUFFER_SIZE bytes of zeros, the caller's. */
int buffer_make(const char *name);
/* Descriptors of the node's proxy on memory of this name. */
unsigned buffer_held(const struct node *node, const char *name);
/* Wait until they are n: a thread closes what the proxy refused. */
void buffer_until_held(const struct node *node, const char *name, unsigned n);
bool buffer_mapped(const struct node *node, const char *name);

#endif
