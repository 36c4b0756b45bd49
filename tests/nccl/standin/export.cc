// SPDX-License-Identifier: Apache-2.0
// A dma-buf of device memory is an fd whose byte 0 is the first byte of the
// range. For a whole allocation, the fd is the memfd of the allocation. For a
// part of an allocation, it is a new memfd, which gets the contents of that
// part and is mapped over it. The page behind the allocation lists the parts,
// for processes that open it later.
#include "page.hpp"
#include "standin.hpp"

#include <cstdio>
#include <fcntl.h>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

using standin::page;
using standin::Parts;
using standin::Range;

namespace
{

std::mutex lock; // protects all pages behind allocations

int part_memfd(const void *from, size_t size)
{
	int fd = memfd_create("gpu part", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -1;
	if (ftruncate(fd, (off_t)size) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0 ||
	    pwrite(fd, from, size, 0) != (ssize_t)size) {
		close(fd);
		return -1;
	}
	return fd;
}

// Return the fd of the part. If the part has none, make one. On failure, print
// a message and return -1.
int part_fd(Parts *parts, const Range &range, uint64_t offset, uint64_t size)
{
	void *address = (void *)(range.begin + offset);

	for (uint32_t i = 0; i < parts->count; i++) {
		const standin::Part &part = parts->part[i];

		if (part.offset == offset && part.size >= size)
			return part.fd;
		if (part.offset < offset + size &&
		    offset < part.offset + part.size)
			standin::not_done("exporting overlapping parts");
	}
	if (parts->opened)
		standin::not_done("exporting a part of what a process opened");
	if (offset % page ||
	    parts->count == sizeof(parts->part) / sizeof(parts->part[0]))
		return -1;
	int fd = part_memfd(address, size);
	if (fd < 0)
		return -1;
	if (mmap(address, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		 fd, 0) == MAP_FAILED) {
		close(fd);
		return -1;
	}
	parts->part[parts->count++] = { offset, size, fd, 0 };
	return fd;
}

} // namespace

Parts *standin::parts_map(int fd, size_t size)
{
	void *memory = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED,
			    fd, (off_t)size);

	return memory == MAP_FAILED ? nullptr : (Parts *)memory;
}

void standin::parts_unmap(Parts *parts)
{
	munmap(parts, page);
}

CUresult standin::export_range(int *fd, CUdeviceptr begin, size_t size)
{
	Range range;
	int of = -1;

	if (!memory_find((void *)begin, &range) || range.kind != Kind::device ||
	    begin + size > range.begin + range.size)
		return CUDA_ERROR_INVALID_VALUE;
	if (begin == range.begin && size == range.size) {
		of = range.fd;
	} else {
		std::lock_guard<std::mutex> guard(lock);
		Parts *parts = parts_map(range.fd, range.size);

		if (!parts)
			return CUDA_ERROR_OUT_OF_MEMORY;
		size = (size + page - 1) & ~(page - 1);
		// If an allocation has no other parts, its first part may be
		// the memfd itself.
		of = begin == range.begin && !parts->count
			     ? range.fd
			     : part_fd(parts, range, begin - range.begin, size);
		parts_unmap(parts);
	}
	*fd = of < 0 ? -1 : fcntl(of, F_DUPFD_CLOEXEC, 0);
	return *fd < 0 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

void standin::export_forget(const Range &range)
{
	Parts *parts = parts_map(range.fd, range.size);

	if (!parts)
		return;
	for (uint32_t i = 0; i < parts->count; i++)
		close(parts->part[i].fd);
	parts_unmap(parts);
}
