// SPDX-License-Identifier: Apache-2.0
// The page behind a device allocation. Processes that open the allocation read
// from it which parts are in separate memfds.
#ifndef STANDIN_PAGE_HPP
#define STANDIN_PAGE_HPP

#include "standin.hpp"

namespace standin
{

constexpr size_t page = 4096;

struct Part {
	uint64_t offset, size; // in the allocation, in whole pages
	int32_t fd; // valid in the process that made the allocation
	int32_t pad;
};

// The allocating process writes everything except `opened`. Processes that open
// the allocation read the page. NCCL exports memory before it gives the handle
// to other processes, so writing and reading never happen at the same time.
struct Parts {
	uint32_t count;
	uint32_t opened; // number of times that other processes have mapped it
	Part part[160];
};
static_assert(sizeof(Parts) <= page, "one page");

// Map the page of the allocation whose memfd is `fd`. Return NULL on failure.
Parts *parts_map(int fd, size_t size);
void parts_unmap(Parts *parts);

// export.cc: close the fds of the parts in a freed range.
void export_forget(const Range &range);

} // namespace standin

#endif
