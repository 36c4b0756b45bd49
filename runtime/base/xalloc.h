/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for steps that cannot be refused and cannot be undone, such as the
 * message that takes something down. Such steps are small and rare.
 */
#ifndef MPIB_BASE_XALLOC_H
#define MPIB_BASE_XALLOC_H

#include <stddef.h>

/* Zeroed memory, never NULL, to be freed with free(). Any thread, but not on a
 * hot path: without memory it waits up to a second, then ends the process. */
void *mpib_xcalloc(size_t size);
/* As realloc(): a large block moves without a copy. What is new of it is not
 * zeroed. In all else like mpib_xcalloc(). */
void *mpib_xrealloc(void *p, size_t size);

/* The object of this type whose member ptr points to. */
#define container_of(ptr, type, member)                                        \
	((type *)((char *)(ptr)-offsetof(type, member)))

#endif
