/* SPDX-License-Identifier: Apache-2.0 */
/* For a pointer into an array that is used often, the compiler tends to
 * recompute it from the index at each use, which in an array of structures of
 * 112 bytes is four instructions. mpib_kept() hides its origin, so that it
 * remains in a register. Any thread. */
#ifndef MPIB_ENGINE_KEPT_H
#define MPIB_ENGINE_KEPT_H

#define mpib_kept(pointer)                                                     \
	({                                                                     \
		__typeof__(pointer) kept_ = (pointer);                         \
		__asm__("" : "+r"(kept_));                                     \
		kept_;                                                         \
	})

#endif
