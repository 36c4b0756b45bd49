// SPDX-License-Identifier: Apache-2.0
// NCCL's kernel on the CPU. It does what a GPU does with the arguments of a
// launch, and uses the structures of NCCL's headers.
#ifndef KERNEL_HPP
#define KERNEL_HPP

namespace kernel
{

// Do all of the launch's work with one thread per channel. Return when the work
// is done, or when the communicator is aborted. `args` points to a struct
// ncclDevKernelArgs, which is followed by its batches. Unsupported work ends
// the process with a message.
void run(const void *args);

} // namespace kernel

#endif
