// SPDX-License-Identifier: Apache-2.0
// What a batch of work asks for, and who does it.
#ifndef KERNEL_FUNCTIONS_HPP
#define KERNEL_FUNCTIONS_HPP

#include <string>

#include "block.hpp"

namespace kernel
{

struct Function {
	int coll, op, type, algo, protocol;
};

// The function of an ID in a batch; NULL if none of those that are done here.
const Function *function_find(int id);
std::string function_name(const Function &function);

// A collective's work on one channel, whose elements are so many bytes: ring.cc.
void ring(Block &block, struct ncclDevWorkColl *work, const Function &function,
	  size_t element);

// pair.cc: one send and one receive, at once; each may have nothing to do.
void pair(Block &block, const struct ncclDevWorkP2p &work);

} // namespace kernel

#endif
