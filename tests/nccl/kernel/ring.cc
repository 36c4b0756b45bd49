// SPDX-License-Identifier: Apache-2.0
// Rings: each rank receives from the previous rank and sends to the next rank.
#include "functions.hpp"
#include "primitives.hpp"

#include <algorithm>
#include <cstring>

#include "collectives.h"

namespace
{

using kernel::Block;
using kernel::Function;
using kernel::Primitives;

// A channel's part of the data, in elements.
struct Part {
	size_t count; // per rank, of all channels together
	size_t offset, size, chunk;
};

struct Ring {
	Block &block;
	struct ncclDevWorkColl *work;
	Primitives &prims;
	const int *ranks; // in the order of the ring, beginning with this rank
	int size;
};

void all_reduce_loop(Ring &ring, ssize_t begin, ssize_t left, ssize_t chunk)
{
	int n = ring.size, index = ring.block.channel->ring.index;
	Primitives &prims = ring.prims;
	// Return the chunk of the rank that is `back` ranks behind this one in
	// the ring.
	auto at = [&](int back, ssize_t *count) {
		ssize_t offset = (index + n - back) % n * chunk;

		*count = std::min(chunk, left - offset);
		return begin + offset;
	};
	ssize_t count, offset = at(1, &count);

	prims.send(offset, count);
	for (int back = 2; back < n; back++) {
		offset = at(back, &count);
		prims.receive_reduce_send(offset, count);
	}
	offset = at(0, &count);
	prims.receive_reduce_copy_send(offset, offset, count);
	for (int back = 1; back < n - 1; back++) {
		offset = at(back, &count);
		prims.receive_copy_send(offset, count);
	}
	offset = at(n - 1, &count);
	prims.receive(offset, count);
}

// Pass all ranks' chunks once around the ring.
void all_reduce(Ring &ring, const Part &part, size_t element)
{
	size_t turn = part.chunk * ring.size;

	for (size_t at = 0; at < part.size; at += turn) {
		size_t left = part.size - at, chunk = part.chunk;
		size_t grain = 16 / element;

		if (left < turn) {
			chunk = (left + ring.size - 1) / ring.size;
			chunk = (chunk + grain - 1) / grain * grain;
		}
		all_reduce_loop(ring, (ssize_t)(part.offset + at),
				(ssize_t)left, (ssize_t)chunk);
	}
}

void all_gather(Ring &ring, const Part &part, bool offload)
{
	char *in = (char *)ring.work->sendbuff;
	char *out = (char *)ring.work->recvbuff;
	int n = ring.size;

	for (size_t at = 0; at < part.size; at += part.chunk) {
		ssize_t own = (ssize_t)(part.offset + at);
		ssize_t count = (ssize_t)std::min(part.chunk, part.size - at);
		auto of = [&](int i) {
			return own + ring.ranks[i] * (ssize_t)part.count;
		};

		if (offload || in + own == out + of(0))
			ring.prims.send(own, count);
		else
			ring.prims.copy_send(own, of(0), count);
		for (int back = 1; back < n - 1; back++)
			ring.prims.receive_copy_send(of(n - back), count);
		ring.prims.receive(of(1), count);
	}
}

void reduce_scatter(Ring &ring, const Part &part)
{
	int n = ring.size;

	for (size_t at = 0; at < part.size; at += part.chunk) {
		ssize_t own = (ssize_t)(part.offset + at);
		ssize_t count = (ssize_t)std::min(part.chunk, part.size - at);
		auto of = [&](int i) {
			return own + ring.ranks[i] * (ssize_t)part.count;
		};

		ring.prims.send(of(n - 1), count);
		for (int back = 2; back < n; back++)
			ring.prims.receive_reduce_send(of(n - back), count);
		ring.prims.receive_reduce_copy(of(0), own, count);
	}
}

void broadcast(Ring &ring, const Part &part, bool offload)
{
	int root = (int)ring.work->root;

	for (size_t at = 0; at < part.size; at += part.chunk) {
		ssize_t own = (ssize_t)(part.offset + at);
		ssize_t count = (ssize_t)std::min(part.chunk, part.size - at);

		if (ring.ranks[0] != root && ring.ranks[1] == root)
			ring.prims.receive(own, count);
		else if (ring.ranks[0] != root)
			ring.prims.receive_copy_send(own, count);
		else if (offload || ring.work->sendbuff == ring.work->recvbuff)
			ring.prims.send(own, count);
		else
			ring.prims.copy_send(own, own, count);
	}
}

void reduce(Ring &ring, const Part &part)
{
	int root = (int)ring.work->root;

	for (size_t at = 0; at < part.size; at += part.chunk) {
		ssize_t own = (ssize_t)(part.offset + at);
		ssize_t count = (ssize_t)std::min(part.chunk, part.size - at);

		if (ring.ranks[ring.size - 1] == root)
			ring.prims.send(own, count);
		else if (ring.ranks[0] == root)
			ring.prims.receive_reduce_copy(own, own, count);
		else
			ring.prims.receive_reduce_send(own, count);
	}
}

// If the network accesses registered buffers itself, only this rank's own part
// of the result must be copied.
void copy_own(Ring &ring, const Part &part, int coll)
{
	char *from = (char *)ring.work->sendbuff + part.offset;
	char *to = (char *)ring.work->recvbuff + part.offset;

	if (coll == ncclFuncAllGather)
		to += ring.ranks[0] * part.count;
	else if (ring.ranks[0] != (int)ring.work->root)
		return;
	if (from != to)
		memmove(to, from, part.size);
}

void set_steps(kernel::Setup &setup, int coll, bool offload)
{
	setup.slices = BROADCAST_CHUNKSTEPS / BROADCAST_SLICESTEPS;
	setup.steps = BROADCAST_SLICESTEPS;
	if (coll == ncclFuncBroadcast || coll == ncclFuncReduce || offload)
		return;
	setup.slices = ALLREDUCE_CHUNKSTEPS / ALLREDUCE_SLICESTEPS;
	setup.steps = ALLREDUCE_SLICESTEPS;
}

} // namespace

void kernel::ring(Block &block, struct ncclDevWorkColl *work,
		  const Function &function, size_t element)
{
	struct ncclRing *order = &block.channel->ring;
	bool offload = work->isOneRPN && work->netRegUsed &&
		       (function.coll == ncclFuncAllGather ||
			function.coll == ncclFuncBroadcast);
	Part part;
	ncclCollCbdPart(work, block.id, function.protocol, (int)element,
			&part.count, &part.offset, &part.size, &part.chunk);
	Setup setup;
	setup.protocol = function.protocol;
	setup.from = { order->prev };
	setup.to = { order->next };
	setup.input = work->sendbuff;
	setup.output = work->recvbuff;
	setup.registered_from = setup.registered_to = work->netRegUsed;
	set_steps(setup, function.coll, offload);
	if (offload && function.coll == ncclFuncAllGather)
		setup.step_size = part.chunk = NCCL_MAX_NET_SIZE;

	Primitives prims(block, setup, element);
	Ring ring = { block, work, prims, order->userRanks,
		      block.comm->nRanks };
	switch (function.coll) {
	case ncclFuncAllReduce:
		all_reduce(ring, part, element);
		break;
	case ncclFuncAllGather:
		all_gather(ring, part, offload);
		break;
	case ncclFuncReduceScatter:
		reduce_scatter(ring, part);
		break;
	case ncclFuncBroadcast:
		broadcast(ring, part, offload);
		break;
	case ncclFuncReduce:
		reduce(ring, part);
		break;
	}
	if (offload)
		copy_own(ring, part, function.coll);
}
