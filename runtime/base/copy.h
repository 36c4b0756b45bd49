/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing to memory that others use at the same time. Any thread, wait-free.
 */
#ifndef MPIB_BASE_COPY_H
#define MPIB_BASE_COPY_H

#include <stddef.h>

/* A copy into memory that somebody polls while it is written: upwards, in stores
 * of 8 bytes or more, each seen after all before it. */
void mpib_copy_up(void *to, const void *from, size_t len);
/* Zeroes, words of 8 bytes each at once, where the next to write is a thread that
 * hears of this memory from another node: that order no compiler and no checker
 * of races can see. to and len are whole words. */
void mpib_zero_words(void *to, size_t len);

#endif
