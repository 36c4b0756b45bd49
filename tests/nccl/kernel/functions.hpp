// SPDX-License-Identifier: Apache-2.0
// The functions of a batch of work, and their implementations.
#ifndef KERNEL_FUNCTIONS_HPP
#define KERNEL_FUNCTIONS_HPP

#include <string>

#include "block.hpp"

namespace kernel
{

struct Function {
	int coll, op, type, algo, protocol;
};

// Return the function of an ID in a batch, or NULL if it is not implemented
// here.
const Function *function_find(int id);
std::string function_name(const Function &function);

// ring.cc: do a collective's work on one channel. `element` is the size of an
// element in bytes.
void ring(Block &block, struct ncclDevWorkColl *work, const Function &function,
	  size_t element);

// pair.cc: do one send and one receive concurrently. Either may be empty.
void pair(Block &block, const struct ncclDevWorkP2p &work);

} // namespace kernel

#endif
