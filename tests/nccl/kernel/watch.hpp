// SPDX-License-Identifier: Apache-2.0
// Waiting as a GPU does, which takes no CPU for it and sees a word as soon as it
// is written. Here who waits sleeps, and NCCL's proxy thread, which writes most of
// what is waited for, looks after all that sleep whenever it yields.
#ifndef KERNEL_WATCH_HPP
#define KERNEL_WATCH_HPP

#include <functional>

namespace kernel
{

// Until ready(), or for a while: what other processes write is looked for between
// naps, which are the longer the longer `naps` of them have been taken. ready()
// may be called by any thread, by one at a time.
void watch(const std::function<bool()> &ready, unsigned int naps);

} // namespace kernel

#endif
