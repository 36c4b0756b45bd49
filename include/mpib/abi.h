/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constants that every part of the shared-memory ABI uses. MPIB_ABI_VERSION
 * identifies the ABI between client and proxy. The assertions at the end of
 * each header check the layout. Structures in shared memory have only
 * fixed-width fields, with ids and offsets instead of pointers. They contain no
 * locks.
 */
#ifndef MPIB_ABI_H
#define MPIB_ABI_H

#include <stdint.h>

/* Increase this number when the layout of a shared structure or of a control
 * message changes. */
#define MPIB_ABI_VERSION 10u

#define MPIB_CACHELINE 64 /* bytes */

#define MPIB_RAILS 2
#define MPIB_RAIL_SOUT 0
#define MPIB_RAIL_SUP 1

/* The maximum number of a connection's requests that are outstanding in the
 * proxy. Equal to NCCL_NET_MAX_REQUESTS. */
#define MPIB_REQUESTS 32
/* The maximum number of buffers in one grouped receive. */
#define MPIB_GROUP_MAX 8
/* The number of slots that an IMM can distinguish. A slot is a receive buffer,
 * or a part of one, that was announced to the sender. */
#define MPIB_SLOTS 256

/* The maximum size of a buffer in bytes. A completion word has 31 bits for the
 * size. */
#define MPIB_SIZE_MAX 0x7fffffffu

/* Messages are divided between rails, and into parts, only at multiples of this
 * number of bytes, because NCCL's LL128 protocol polls a flag in each 128-byte
 * line. */
#define MPIB_ALIGN 128u

#ifdef __cplusplus
#define MPIB_ABI_ASSERT(cond) static_assert(cond, #cond)
#else
#define MPIB_ABI_ASSERT(cond) _Static_assert(cond, #cond)
#endif

MPIB_ABI_ASSERT(MPIB_REQUESTS *MPIB_GROUP_MAX == MPIB_SLOTS);

#endif
