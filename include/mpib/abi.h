/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every part of the shared-memory ABI rests on. The ABI is this version
 * number plus the literal asserts beside each structure: fixed-width fields,
 * ids and offsets, never a pointer or a lock.
 */
#ifndef MPIB_ABI_H
#define MPIB_ABI_H

#include <stdint.h>

/* Raised when any shared structure or control message changes its layout. */
#define MPIB_ABI_VERSION 1u

#define MPIB_CACHELINE 64

#define MPIB_RAILS 2
#define MPIB_RAIL_SOUT 0
#define MPIB_RAIL_SUP 1

/* Requests a connection may have outstanding (NCCL_NET_MAX_REQUESTS) and
 * buffers one grouped receive may name; their product is the slot table. */
#define MPIB_REQUESTS 32
#define MPIB_GROUP_MAX 8
#define MPIB_SLOTS 256

/* A completion word carries the size in 31 bits. */
#define MPIB_SIZE_MAX 0x7fffffffu

/* Splits over rails and parts of a message fall on this boundary, because
 * NCCL's LL128 protocol polls flags inside each 128-byte line. */
#define MPIB_ALIGN 128u

#ifdef __cplusplus
#define MPIB_ABI_ASSERT(cond) static_assert(cond, #cond)
#else
#define MPIB_ABI_ASSERT(cond) _Static_assert(cond, #cond)
#endif

MPIB_ABI_ASSERT(MPIB_REQUESTS *MPIB_GROUP_MAX == MPIB_SLOTS);

#endif
