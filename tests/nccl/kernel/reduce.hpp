// SPDX-License-Identifier: Apache-2.0
// Reductions: what NCCL's operations do to elements of each type.
#ifndef KERNEL_REDUCE_HPP
#define KERNEL_REDUCE_HPP

#include <cstddef>
#include <cstdint>

namespace kernel
{

// Element by element; out may be a or b. arg: as in ncclDevWorkColl.redOpArg,
// where that is no pointer.
struct Reduction {
	size_t element; // bytes
	// out = a (op) b
	void (*reduce)(void *out, const void *a, const void *b, size_t n,
		       uint64_t arg);
	// What is done to this rank's own elements first, and to the result
	// last; NULL: nothing.
	void (*before)(void *out, const void *in, size_t n, uint64_t arg);
	void (*after)(void *out, const void *in, size_t n, uint64_t arg);
	uint64_t arg;
};

// Of an ncclDevRedOp_t and an ncclDataType_t; false if there is none here.
bool reduction_find(int op, int type, Reduction *reduction);
// That of what only moves bytes.
Reduction reduction_none();
// Bytes of an argument that lies in memory; see redOpArgIsPtr.
uint64_t reduction_load_arg(const void *pointer, size_t element);

} // namespace kernel

#endif
