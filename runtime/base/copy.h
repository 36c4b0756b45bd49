/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy into memory that somebody polls while it is written: upwards, in
 * stores of 8 bytes or more, each seen after all before it. Any thread.
 */
#ifndef MPIB_BASE_COPY_H
#define MPIB_BASE_COPY_H

#include <stddef.h>

void mpib_copy_up(void *to, const void *from, size_t len);

#endif
