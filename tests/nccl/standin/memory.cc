// SPDX-License-Identifier: Apache-2.0
// Memory. Device memory is a sealed memfd. Other processes can open it
// (ipc.cc), and network devices accept it as a dma-buf (export.cc). A page
// behind each allocation lists the parts that were exported, see export.cc.
#include "page.hpp"
#include "standin.hpp"

#include <fcntl.h>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

namespace
{

std::mutex lock;

// All ranges, sorted by start address. The list is never destroyed, since
// threads of NCCL outlive main().
std::map<uintptr_t, standin::Range> &ranges()
{
	static auto *all = new std::map<uintptr_t, standin::Range>;

	return *all;
}

size_t pages(size_t size)
{
	return ((size ? size : 1) + standin::page - 1) & ~(standin::page - 1);
}

int device_memfd(size_t size)
{
	int fd = memfd_create("gpu", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -1;
	if (ftruncate(fd, (off_t)(size + standin::page)) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

cudaError_t allocate(void **address, size_t asked, standin::Kind kind)
{
	size_t size = pages(asked);
	int fd = -1, flags = MAP_PRIVATE | MAP_ANONYMOUS;

	if (kind == standin::Kind::device) {
		fd = device_memfd(size);
		flags = MAP_SHARED;
		if (fd < 0)
			return standin::fail(cudaErrorMemoryAllocation);
	}
	void *memory =
		mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (memory == MAP_FAILED) {
		if (fd >= 0)
			close(fd);
		return standin::fail(cudaErrorMemoryAllocation);
	}
	standin::memory_add({ (uintptr_t)memory, size, kind,
			      standin::device_current(), fd });
	*address = memory;
	return cudaSuccess;
}

} // namespace

bool standin::memory_find(const void *address, Range *range)
{
	std::lock_guard<std::mutex> guard(lock);
	auto next = ranges().upper_bound((uintptr_t)address);

	if (next == ranges().begin())
		return false;
	const Range &found = std::prev(next)->second;
	if ((uintptr_t)address - found.begin >= found.size)
		return false;
	*range = found;
	return true;
}

void standin::memory_add(const Range &range)
{
	std::lock_guard<std::mutex> guard(lock);

	ranges()[range.begin] = range;
}

cudaError_t standin::memory_free(void *begin)
{
	Range range;

	if (!begin)
		return cudaSuccess;
	{
		std::lock_guard<std::mutex> guard(lock);
		auto found = ranges().find((uintptr_t)begin);

		if (found == ranges().end())
			return fail(cudaErrorInvalidValue);
		range = found->second;
		ranges().erase(found);
	}
	if (range.kind == Kind::device)
		export_forget(range);
	if (range.kind != Kind::registered)
		munmap(begin, range.size);
	if (range.fd >= 0)
		close(range.fd);
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaMalloc(void **device, size_t size)
{
	return allocate(device, size, standin::Kind::device);
}

// Managed memory is like device memory here: the host can read both.
STANDIN_API cudaError_t cudaMallocManaged(void **device, size_t size,
					  unsigned int)
{
	return cudaMalloc(device, size);
}

// Wait for the device first, like the real function.
STANDIN_API cudaError_t cudaFree(void *device)
{
	if (device)
		standin::stream_drain_all();
	return standin::memory_free(device);
}

STANDIN_API cudaError_t cudaHostAlloc(void **host, size_t size, unsigned int)
{
	return allocate(host, size, standin::Kind::host);
}

STANDIN_API cudaError_t cudaFreeHost(void *host)
{
	return standin::memory_free(host);
}

STANDIN_API cudaError_t cudaHostRegister(void *host, size_t size, unsigned int)
{
	standin::memory_add({ (uintptr_t)host, size, standin::Kind::registered,
			      standin::device_current(), -1 });
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaHostUnregister(void *host)
{
	return standin::memory_free(host);
}

STANDIN_API cudaError_t cudaHostGetDevicePointer(void **device, void *host,
						 unsigned int)
{
	*device = host;
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaPointerGetAttributes(
	struct cudaPointerAttributes *attr, const void *pointer)
{
	standin::Range range;

	*attr = {};
	attr->device = -2; // the value of cudaInvalidDeviceId
	attr->hostPointer = (void *)pointer;
	if (!standin::memory_find(pointer, &range))
		return cudaSuccess;
	attr->device = range.device;
	attr->devicePointer = (void *)pointer;
	attr->type = cudaMemoryTypeHost;
	if (range.kind == standin::Kind::device ||
	    range.kind == standin::Kind::opened) {
		attr->type = cudaMemoryTypeDevice;
		attr->hostPointer = nullptr;
	}
	return cudaSuccess;
}
