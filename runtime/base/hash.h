/* SPDX-License-Identifier: Apache-2.0 */
/* Include uthash so that it waits for memory. A table may grow at any
 * insertion, and uthash ends the process if it gets no memory. With this header
 * uthash waits for memory, as mpib_xcalloc() does. */
#ifndef MPIB_BASE_HASH_H
#define MPIB_BASE_HASH_H

#include "base/xalloc.h"

#define uthash_malloc(size) mpib_xcalloc(size)

#include <uthash.h>

#endif
