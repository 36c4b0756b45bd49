// SPDX-License-Identifier: Apache-2.0
// A GPU waits without CPU time and sees a word as soon as it is written. Here a
// waiting thread sleeps. NCCL's proxy thread writes most of the words. So
// whenever it yields, it checks the words of all sleeping threads and wakes
// those whose words are ready.
#ifndef KERNEL_WATCH_HPP
#define KERNEL_WATCH_HPP

#include <functional>

namespace kernel
{

// Wait until ready() returns true, or for a limited time, which grows with
// `naps`. The caller calls this again, because another process may have written
// the word. Any thread may call ready(), but only one at a time.
void watch(const std::function<bool()> &ready, unsigned int naps);

} // namespace kernel

#endif
