// SPDX-License-Identifier: Apache-2.0
// A GPU waits without CPU time and sees a word as soon as it is written. Here a
// waiting thread sleeps. NCCL's proxy thread writes most of these words, so
// whenever it yields, it checks for all sleeping threads.
#ifndef KERNEL_WATCH_HPP
#define KERNEL_WATCH_HPP

#include <functional>

namespace kernel
{

// Wait until ready(), or for a limited time. Words that other processes write
// are checked between naps. The naps become longer with the number `naps`. Any
// thread may call ready(), but only one at a time.
void watch(const std::function<bool()> &ready, unsigned int naps);

} // namespace kernel

#endif
