/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MPIB_BASE_CONTAINER_H
#define MPIB_BASE_CONTAINER_H

#include <stddef.h>

/* The object of this type whose member ptr points to. */
#define container_of(ptr, type, member)                                        \
	((type *)((char *)(ptr)-offsetof(type, member)))

#endif
