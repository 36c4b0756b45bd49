// SPDX-License-Identifier: Apache-2.0
// The header of this folder, which is a CUDA runtime and driver without a GPU:
// device memory is host memory, a stream is a queue with a thread, and a kernel
// is code of the CPU (kernel/kernel.hpp).
//
// Any thread may call any function. Locks are taken in this order: the lock of
// all streams, the lock of a stream, the lock of the memory.
#ifndef STANDIN_HPP
#define STANDIN_HPP

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <cuda.h>
#include <cuda_runtime.h>

// The library hides its symbols, as NCCL does. These functions are the API.
#define STANDIN_API extern "C" __attribute__((visibility("default")))

namespace standin
{

// error.cc: set the result of this thread's cudaGetLastError() and return it.
cudaError_t fail(cudaError_t error);
// Print which unsupported function NCCL has called, and end the process, so
// that no test passes because a function is missing.
[[noreturn]] void not_done(const std::string &what);

// device.cc: the devices of this process, in the order of STANDIN_GPUS.
int device_count();
int device_current();
// Return the PCI address of a device in the form 0000:10:00.0.
const std::string &device_bus(int device);
// Return the value of a device attribute. The runtime and the driver use the
// same numbers for attributes.
int device_attribute(int attribute);

// memory.cc
enum class Kind {
	device,
	host,
	registered,
	opened
};

struct Range {
	uintptr_t begin;
	size_t size;
	Kind kind;
	int device;
	int fd; // fd of the memfd of device memory, or -1
};

// Return the range that contains the address.
bool memory_find(const void *address, Range *range);
void memory_add(const Range &range);
cudaError_t memory_free(void *begin);

// stream.cc: the work of a stream runs in order, one item after the other.
// Quick work is work that never waits. If the stream is idle, it runs
// immediately in the caller.
void stream_add(cudaStream_t stream, std::function<void()> work,
		bool quick = false);
// Wait until all work of a stream, or of all streams, is done.
void stream_drain(cudaStream_t stream);
void stream_drain_all();

// event.cc: mark the event as complete, without work on a stream.
void event_happened(cudaEvent_t event);

// driver.cc: return a driver function by its name, or NULL.
void *driver_function(const std::string &name);

// export.cc: cuMemGetHandleForAddressRange().
CUresult export_range(int *fd, CUdeviceptr begin, size_t size);

} // namespace standin

#endif
