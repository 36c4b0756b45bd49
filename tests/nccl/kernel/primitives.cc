// SPDX-License-Identifier: Apache-2.0
#include "primitives.hpp"

#include <algorithm>
#include <cstring>

namespace kernel
{

Primitives::Primitives(Block &block, const Setup &setup, size_t element)
    : block(block), protocol(setup.protocol),
      slices(protocol == simple ? setup.slices : 1),
      steps(protocol == simple ? setup.steps : 1), element(element),
      peer_to_peer(setup.peer_to_peer), input((char *)setup.input),
      output((char *)setup.output),
      step_size((setup.step_size
			 ? setup.step_size
			 : block.comm->buffSizes[protocol] / NCCL_STEPS) /
		element)
{
	struct ncclDevChannelPeer **peers = block.channel->peers;
	int turn = slices * steps;

	for (int rank : setup.from)
		if (rank >= 0)
			receivers.emplace_back(
				block, &peers[rank]->recv[setup.index],
				protocol, turn, setup.registered_from);
	for (int rank : setup.to) {
		if (rank < 0)
			continue;
		struct ncclConnInfo *info = &peers[rank]->send[setup.index];

		senders.emplace_back(block, info, protocol, turn);
		senders.back().registered = protocol == simple &&
					    setup.registered_to &&
					    (info->flags & NCCL_DIRECT_NIC);
	}
}

Primitives::~Primitives()
{
	for (Receiver &receiver : receivers)
		receiver.save();
	for (Sender &sender : senders) {
		sender.save();
		// Wait until the network has read the user's buffer: the next
		// kernel could overwrite data that is still being sent.
		if (sender.registered)
			sender.wait_read(steps);
	}
}

char *Primitives::user(Buffer buffer, ssize_t at) const
{
	if (buffer == Buffer::none)
		return nullptr;
	return (buffer == Buffer::input ? input : output) +
	       at * (ssize_t)element;
}

// Process a chunk in the given number of slices. If the chunk is short, the
// last slices are empty.
void Primitives::move(const Move &move)
{
	size_t left = (size_t)std::max<ssize_t>(move.count, 0);
	size_t size = left, step = 16 * (size_t)slices;
	ssize_t offset = 0;

	if (protocol == simple)
		size = std::max((left + step - 1) / step * 16,
				step_size * steps / 32);
	for (int i = 0; i < slices; i++) {
		size = std::min(size, left);
		slice(move, offset, size);
		offset += (ssize_t)size;
		left -= size;
	}
}

void Primitives::slice(const Move &move, ssize_t offset, size_t count)
{
	if (move.receive && protocol == simple)
		for (Receiver &receiver : receivers)
			receiver.wait(steps);
	if (move.send)
		for (Sender &sender : senders)
			sender.wait(steps, count * element);
	if (count && !block.aborted)
		data(move, offset, count);
	if (move.receive)
		for (Receiver &receiver : receivers)
			receiver.post(steps);
	if (move.send)
		for (Sender &sender : senders)
			sender.post(steps);
}

// Wait for a peer's data and return its address. Return NULL after an abort.
const char *Primitives::arrived(Receiver &receiver, const Move &move,
				ssize_t offset, size_t size)
{
	if (receiver.registered)
		return user(Buffer::output, move.source_at + offset);
	if (protocol == simple)
		return receiver.slot();
	taken.resize(size);
	return receiver.take(taken.data(), size) ? taken.data() : nullptr;
}

static void add(float *sum, const float *a, const float *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sum[i] = a[i] + b[i];
}

// Add this rank's elements and those of all peers, in `space`, and return the
// address of the result. If there is only one source, return its address
// instead. Return NULL after an abort.
const char *Primitives::combine(const Move &move, ssize_t offset, size_t count,
				char *space)
{
	const char *have = user(move.source, move.source_at + offset);

	if (!move.receive)
		return have;
	for (Receiver &receiver : receivers) {
		const char *in =
			arrived(receiver, move, offset, count * element);

		if (!in)
			return nullptr;
		if (!have) {
			have = in;
			continue;
		}
		add((float *)space, (const float *)in, (const float *)have,
		    count);
		have = space;
	}
	return have;
}

void Primitives::data(const Move &move, ssize_t offset, size_t count)
{
	size_t size = count * element;
	char *target = user(move.target, move.target_at + offset);
	char *space = target;

	if (!space && move.send && protocol == simple &&
	    !senders[0].registered) {
		space = senders[0].slot();
	} else if (!space) {
		own.resize(size);
		space = own.data();
	}
	// In two cases, the network reads the registered memory itself: for
	// whole peer-to-peer messages, and in the first step of a ring.
	bool wire_reads = move.send && !senders.empty() &&
			  senders[0].registered &&
			  (peer_to_peer || !move.receive);
	bool wire_wrote = move.receive && !receivers.empty() &&
			  receivers[0].registered && peer_to_peer;
	if (wire_wrote || (wire_reads && !target))
		return;
	const char *have = combine(move, offset, count, space);
	if (!have)
		return;
	if (target && have != target)
		memmove(target, have, size);
	if (!move.send)
		return;
	for (Sender &sender : senders)
		if (!sender.registered)
			sender.put(have, size);
}

} // namespace kernel
