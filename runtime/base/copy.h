/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing to memory that other threads or processes read at the same time. Any
 * thread, wait-free.
 */
#ifndef MPIB_BASE_COPY_H
#define MPIB_BASE_COPY_H

#include <stddef.h>

/* Copy into memory that a GPU kernel or another thread polls meanwhile: in
 * ascending order, with stores of 8 bytes or more where alignment allows, each
 * visible only after all stores below it. */
void mpib_copy_up(void *to, const void *from, size_t len);
/* Zero memory in atomic stores of 8 bytes. For memory that another thread will
 * write once a remote node has told it of the memory: neither the compiler nor
 * a race checker can see that order. to and len are multiples of 8. */
void mpib_zero_words(void *to, size_t len);

#endif
