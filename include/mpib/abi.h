/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constants that every part of the shared-memory ABI uses. The ABI between
 * client and proxy is defined by MPIB_ABI_VERSION and by the assertions beside
 * each structure. Shared structures hold only fixed-width fields, ids and
 * offsets, never a pointer or a lock.
 */
#ifndef MPIB_ABI_H
#define MPIB_ABI_H

#include <stdint.h>

/* Raised when any shared structure or control message changes its layout. */
#define MPIB_ABI_VERSION 8u

#define MPIB_CACHELINE 64

#define MPIB_RAILS 2
#define MPIB_RAIL_SOUT 0
#define MPIB_RAIL_SUP 1

/* The maximum number of outstanding requests of a connection
 * (NCCL_NET_MAX_REQUESTS), of buffers in one grouped receive, and of slots that
 * an IMM distinguishes. The last is the product of the first two, because each
 * buffer uses one slot. */
#define MPIB_REQUESTS 32
#define MPIB_GROUP_MAX 8
#define MPIB_SLOTS 256

/* The largest request: a completion word carries the size in 31 bits. */
#define MPIB_SIZE_MAX 0x7fffffffu

/* Messages are split over rails, and into parts, only at multiples of this
 * number of bytes, because NCCL's LL128 protocol polls flags inside each
 * 128-byte line. */
#define MPIB_ALIGN 128u

#ifdef __cplusplus
#define MPIB_ABI_ASSERT(cond) static_assert(cond, #cond)
#else
#define MPIB_ABI_ASSERT(cond) _Static_assert(cond, #cond)
#endif

MPIB_ABI_ASSERT(MPIB_REQUESTS *MPIB_GROUP_MAX == MPIB_SLOTS);

#endif
