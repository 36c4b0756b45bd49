// SPDX-License-Identifier: Apache-2.0
// The page behind a device allocation, which says to processes that open the
// allocation which parts of it lie in memfds of their own.
#ifndef STANDIN_PAGE_HPP
#define STANDIN_PAGE_HPP

#include "standin.hpp"

namespace standin
{

constexpr size_t page = 4096;

struct Part {
	uint64_t offset, size; // in the allocation, whole pages
	int32_t fd; // in the process that allocated
	int32_t pad;
};

// Written by the process that allocated, but for opened; read by those that
// open. NCCL exports before it passes a handle on, so they never do it at once.
struct Parts {
	uint32_t count;
	uint32_t opened; // times that another process mapped it
	Part part[160];
};
static_assert(sizeof(Parts) <= page, "one page");

// Maps the page of the allocation behind this fd; NULL if it cannot.
Parts *parts_map(int fd, size_t size);
void parts_unmap(Parts *parts);

// export.cc: fds of parts of a range that goes away.
void export_forget(const Range &range);

} // namespace standin

#endif
