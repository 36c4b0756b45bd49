/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a pointer into an array is used often, the compiler tends to compute it
 * anew from the index at each use, which in an array of structures of 112 bytes
 * is four instructions. mpib_kept() hides where it comes from, so that it stays
 * in a register. Any thread.
 */
#ifndef MPIB_ENGINE_KEPT_H
#define MPIB_ENGINE_KEPT_H

#define mpib_kept(pointer)                                                     \
	({                                                                     \
		__typeof__(pointer) kept_ = (pointer);                         \
		__asm__("" : "+r"(kept_));                                     \
		kept_;                                                         \
	})

#endif
