/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uthash, whose table grows at any insertion and which ends the process where
 * it cannot. Here it waits for memory, as mpib_xcalloc() does.
 */
#ifndef MPIB_BASE_HASH_H
#define MPIB_BASE_HASH_H

#include "base/xalloc.h"

#define uthash_malloc(size) mpib_xcalloc(size)

#include <uthash.h>

#endif
