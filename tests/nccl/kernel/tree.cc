// SPDX-License-Identifier: Apache-2.0
// Trees: sums go up while results come down, so the two are threads.
#include "functions.hpp"
#include "primitives.hpp"
#include "task.hpp"

#include <algorithm>
#include <functional>

namespace
{

using kernel::Block;
using kernel::Buffer;
using kernel::Primitives;

// A channel's part of the work, in elements.
struct Part {
	size_t count, offset, size, chunk;
};

// Calls with the begin and size of each chunk.
void each_chunk(Block &block, const Part &part,
		const std::function<void(ssize_t, ssize_t)> &chunk)
{
	for (size_t at = 0; at < part.size && !block.aborted; at += part.chunk)
		chunk((ssize_t)(part.offset + at),
		      (ssize_t)std::min(part.chunk, part.size - at));
}

void root(Block &block, const Part &part, kernel::Setup setup,
	  const std::vector<int> &down, const kernel::Reduction &op)
{
	setup.from = setup.to = down;
	Primitives prims(block, setup, op);

	each_chunk(block, part, [&](ssize_t at, ssize_t count) {
		prims.receive_reduce_copy_send(at, at, count);
	});
}

void upward(Block &block, const Part &part, kernel::Setup setup,
	    const std::vector<int> &down, int up, const kernel::Reduction &op)
{
	setup.from = down;
	setup.to = { up };
	Primitives prims(block, setup, op);

	each_chunk(block, part, [&](ssize_t at, ssize_t count) {
		if (down[0] < 0)
			prims.send(at, count);
		else
			prims.receive_reduce_send(at, count);
	});
}

void downward(Block &block, const Part &part, kernel::Setup setup,
	      const std::vector<int> &down, int up, const kernel::Reduction &op)
{
	setup.from = { up };
	setup.to = down;
	Primitives prims(block, setup, op);

	each_chunk(block, part, [&](ssize_t at, ssize_t count) {
		if (down[0] < 0)
			prims.receive(at, count);
		else
			prims.receive_copy_send(at, count);
	});
}

} // namespace

void kernel::tree(Block &block, struct ncclDevWorkColl *work,
		  const Function &function, const Reduction &op)
{
	struct ncclTree *shape = &block.channel->tree;
	std::vector<int> down(shape->down, shape->down + NCCL_MAX_TREE_ARITY);
	int up = shape->up;
	Part part;
	ncclCollCbdPart(work, block.id, function.protocol, (int)op.element,
			&part.count, &part.offset, &part.size, &part.chunk);
	Setup setup;
	setup.protocol = function.protocol;
	setup.input = work->sendbuff;
	setup.output = work->recvbuff;

	if (up < 0) {
		root(block, part, setup, down, op);
		return;
	}
	Task lower([&] { downward(block, part, setup, down, up, op); });
	upward(block, part, setup, down, up, op);
	lower.join();
}
