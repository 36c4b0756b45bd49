/* SPDX-License-Identifier: Apache-2.0 */
/* uthash with another allocator. A table may grow at any insertion, and by
 * default uthash ends the process if it gets no memory. Here it waits for
 * memory, as mpib_xcalloc() does. */
#ifndef MPIB_BASE_HASH_H
#define MPIB_BASE_HASH_H

#include "base/xalloc.h"

#define uthash_malloc(size) mpib_xcalloc(size)

#include <uthash.h>

#endif
