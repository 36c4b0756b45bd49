// SPDX-License-Identifier: Apache-2.0
// Device memory in another process of this node, opened through /proc.
#include "page.hpp"
#include "standin.hpp"

#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace
{

struct Handle {
	int32_t pid, fd;
	uint64_t size;
};
static_assert(sizeof(Handle) <= sizeof(cudaIpcMemHandle_t), "it fits");

int open_fd_of(int pid, int fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
	return open(path, O_RDWR | O_CLOEXEC);
}

// Map the parts that have separate memfds over the allocation.
bool map_parts(char *memory, const Handle &handle, int fd)
{
	standin::Parts *parts = standin::parts_map(fd, handle.size);
	bool ok = parts != nullptr;

	for (uint32_t i = 0; ok && i < parts->count; i++) {
		const standin::Part &part = parts->part[i];
		int own = open_fd_of(handle.pid, part.fd);

		ok = own >= 0 &&
		     mmap(memory + part.offset, part.size,
			  PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, own,
			  0) != MAP_FAILED;
		if (own >= 0)
			close(own);
	}
	if (parts) {
		parts->opened++;
		standin::parts_unmap(parts);
	}
	return ok;
}

} // namespace

STANDIN_API cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *out,
					    void *device)
{
	standin::Range range;
	Handle handle = {};

	if (!standin::memory_find(device, &range) || range.fd < 0)
		return standin::fail(cudaErrorInvalidValue);
	handle.pid = getpid();
	handle.fd = range.fd;
	handle.size = range.size;
	memset(out, 0, sizeof(*out));
	memcpy(out, &handle, sizeof(handle));
	return cudaSuccess;
}

// Like the real function, this maps the whole allocation.
STANDIN_API cudaError_t cudaIpcOpenMemHandle(void **device,
					     cudaIpcMemHandle_t in,
					     unsigned int)
{
	Handle handle;

	memcpy(&handle, &in, sizeof(handle));
	int fd = open_fd_of(handle.pid, handle.fd);
	if (fd < 0)
		return standin::fail(cudaErrorInvalidResourceHandle);
	void *memory = mmap(nullptr, handle.size, PROT_READ | PROT_WRITE,
			    MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED) {
		close(fd);
		return standin::fail(cudaErrorMapBufferObjectFailed);
	}
	if (!map_parts((char *)memory, handle, fd)) {
		munmap(memory, handle.size);
		close(fd);
		return standin::fail(cudaErrorMapBufferObjectFailed);
	}
	standin::memory_add({ (uintptr_t)memory, handle.size,
			      standin::Kind::opened, standin::device_current(),
			      fd });
	*device = memory;
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaIpcCloseMemHandle(void *device)
{
	return standin::memory_free(device);
}
