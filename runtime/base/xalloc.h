/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for what cannot be refused: the message that takes something down.
 * Such steps are small and rare, and none of their callers could go back.
 */
#ifndef MPIB_BASE_XALLOC_H
#define MPIB_BASE_XALLOC_H

#include <stddef.h>

/* Zeroed, to be given to free(); never NULL. Any thread, not the hot path:
 * without memory it waits up to a second for some, then ends the process. */
void *mpib_xcalloc(size_t size);
/* Likewise, with the first used bytes of p, which is freed and may be NULL. */
void *mpib_xrealloc(void *p, size_t used, size_t size);

#endif
