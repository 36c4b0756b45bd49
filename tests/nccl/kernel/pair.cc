// SPDX-License-Identifier: Apache-2.0
// Send and receive concurrently: the send may wait for a receive of its peer,
// and the receive for a send of its peer.
#include "functions.hpp"
#include "primitives.hpp"
#include "standin.hpp"
#include "task.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "bitops.h"
#include "collectives.h"

namespace
{

using kernel::Block;

// One direction of the work: a send or a receive. After take_part(), only this
// channel's part.
struct Half {
	bool send;
	int rank, parts;
	char *buffer;
	size_t size;
	bool low_latency, registered;
	size_t chunk;
};

Half half_of(const struct ncclDevWorkP2p &work, bool send)
{
	Half half = {};
	bool mapped = send ? work.sendIpcReg : work.recvIpcReg;

	if (mapped)
		standin::not_done("a registered buffer within a node");
	half.send = send;
	half.rank = send ? work.sendRank : work.recvRank;
	half.parts = send ? work.nSendChannels : work.nRecvChannels;
	half.buffer = (char *)(send ? work.sendAddr : work.recvAddr);
	half.size = send ? work.sendBytes : work.recvBytes;
	half.low_latency = send ? work.sendProtoLL : work.recvProtoLL;
	half.registered = send ? work.sendNetReg : work.recvNetReg;
	half.chunk = half.registered
			     ? NCCL_MAX_NET_SIZE
			     : u32fp8Decode(send ? work.sendChunkSize_u32fp8
						 : work.recvChunkSize_u32fp8);
	return half;
}

// Reduce the half to this channel's part. Return false if the channel has no
// part.
bool take_part(Half &half, int part)
{
	size_t begin, end;

	if (part >= half.parts)
		return false;
	ncclP2pPartBounds(half.parts, part, half.size, &begin, &end);
	half.buffer += begin;
	half.size = end - begin;
	return true;
}

// Send or receive the half. If it has no bytes, there is still one message.
void run_half(Block &block, const Half &half)
{
	kernel::Setup setup;
	setup.protocol = half.low_latency ? kernel::ll : kernel::simple;
	(half.send ? setup.to : setup.from) = { half.rank };
	setup.index = 1;
	setup.input = setup.output = half.buffer;
	setup.registered_from = setup.registered_to = half.registered;
	setup.peer_to_peer = true;
	if (half.registered)
		setup.step_size = NCCL_MAX_NET_SIZE;
	else if (!half.low_latency)
		setup.step_size = (size_t)block.comm->p2pChunkSize;
	kernel::Primitives prims(block, setup, 1);
	size_t at = 0;

	do {
		size_t count = std::min(half.chunk, half.size - at);

		if (half.send)
			prims.send((ssize_t)at, (ssize_t)count);
		else
			prims.receive((ssize_t)at, (ssize_t)count);
		at += count;
	} while (at < half.size && !block.aborted);
}

} // namespace

void kernel::pair(Block &block, const struct ncclDevWorkP2p &work)
{
	int part = ncclP2pChannelToPart(work.nP2pChannels, work.channelBase,
					block.id);
	Half send = half_of(work, true), receive = half_of(work, false);
	bool sends = take_part(send, part), receives = take_part(receive, part);

	if (work.sendRank == block.comm->rank) {
		if (sends && send.size && work.sendAddr != work.recvAddr)
			memmove(receive.buffer, send.buffer, send.size);
		return;
	}
	std::optional<Task> sender;
	// A single chunk has to wait only for earlier sends.
	if (sends && !send.registered && send.size <= send.chunk)
		run_half(block, send);
	else if (sends)
		sender.emplace([&] { run_half(block, send); });
	if (receives)
		run_half(block, receive);
	if (sender)
		sender->join();
}
