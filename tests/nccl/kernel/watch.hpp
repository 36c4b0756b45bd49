// SPDX-License-Identifier: Apache-2.0
// A GPU waits without CPU time and sees a word as soon as it is written. Here a
// waiting thread sleeps, and NCCL's proxy thread, which writes most of these
// words, checks for all sleepers whenever it yields.
#ifndef KERNEL_WATCH_HPP
#define KERNEL_WATCH_HPP

#include <functional>

namespace kernel
{

// Wait until ready(), or for a while. Words written by other processes are
// checked between naps, which become longer with the number `naps`. Any thread
// may call ready(), one at a time.
void watch(const std::function<bool()> &ready, unsigned int naps);

} // namespace kernel

#endif
