/* SPDX-License-Identifier: Apache-2.0 */
/* mpib_kept() hides the origin of a pointer into an array, so that the compiler
 * keeps the pointer in a register. Otherwise the compiler often recomputes the
 * pointer from the index at each use, which takes four instructions for
 * structures of 112 bytes. Any thread. */
#ifndef MPIB_ENGINE_KEPT_H
#define MPIB_ENGINE_KEPT_H

#define mpib_kept(pointer)                                                     \
	({                                                                     \
		__typeof__(pointer) kept_ = (pointer);                         \
		__asm__("" : "+r"(kept_));                                     \
		kept_;                                                         \
	})

#endif
