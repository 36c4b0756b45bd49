/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for steps that can neither fail nor be undone, such as sending the
 * message that closes a connection. These steps are small and rare. */
#ifndef MPIB_BASE_XALLOC_H
#define MPIB_BASE_XALLOC_H

#include <stddef.h>

/* Return zeroed memory, never NULL; release it by free(). Any thread, but not
 * on a hot path: if memory is short the call waits up to a second, then ends
 * the process. */
void *mpib_xcalloc(size_t size);
/* Resize like realloc(), which moves a large block without a copy. New bytes
 * are not zeroed. If memory is short, do the same as mpib_xcalloc(). */
void *mpib_xrealloc(void *p, size_t size);

/* Return the object of this type whose member `ptr` points to. */
#define container_of(ptr, type, member)                                        \
	((type *)((char *)(ptr)-offsetof(type, member)))

#endif
