// SPDX-License-Identifier: Apache-2.0
// The page behind a device allocation, which tells processes that open the
// allocation which parts of it are in separate memfds.
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

// Written by the allocating process, except for opened; read by processes that
// open it. NCCL exports before it passes a handle on, so both never happen at
// the same time.
struct Parts {
	uint32_t count;
	uint32_t opened; // times that another process mapped it
	Part part[160];
};
static_assert(sizeof(Parts) <= page, "one page");

// Map the page of the allocation behind this fd; NULL on failure.
Parts *parts_map(int fd, size_t size);
void parts_unmap(Parts *parts);

// export.cc: close the fds of parts in a freed range.
void export_forget(const Range &range);

} // namespace standin

#endif
