// SPDX-License-Identifier: Apache-2.0
// NCCL's kernel on the CPU: what a GPU would do with the arguments of a launch,
// by the structures of NCCL's own headers.
#ifndef KERNEL_HPP
#define KERNEL_HPP

namespace kernel
{

// All of the launch's work, a thread a channel. Returns when it is done, or when
// the communicator is aborted. args: struct ncclDevKernelArgs and its batches.
// Work that it cannot do ends the process, with a word on what it was.
void run(const void *args);

} // namespace kernel

#endif
