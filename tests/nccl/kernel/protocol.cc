// SPDX-License-Identifier: Apache-2.0
#include "protocol.hpp"

#include "collectives.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace kernel
{

// LL: 8 bytes of data are two words, each followed by a flag. Each pair of a
// word and a flag is written atomically.
constexpr size_t ll_data = 8, ll_line = 16;
// LL128: a flag follows each 120 bytes. Lines come in groups of sixteen.
constexpr size_t ll128_data = 120, ll128_line = 128, ll128_lines = 16;

size_t wire_size(int protocol, size_t size)
{
	switch (protocol) {
	case ll:
		return (size + ll_data - 1) / ll_data * ll_line;
	case ll128:
		return (size + ll128_data * ll128_lines - 1) /
		       (ll128_data * ll128_lines) * ll128_line * ll128_lines;
	default:
		return size;
	}
}

Connection::Connection(Block &block, struct ncclConnInfo *info, int protocol,
		       int turn)
    : step((info->step + turn - 1) / turn * turn), block(block), info(info),
      protocol(protocol)
{
}

void Connection::save()
{
	info->step = step;
}

char *Connection::slot() const
{
	struct ncclConnFifo *fifo = info->connFifo;
	uint64_t at = step % NCCL_STEPS;

	if (protocol != simple)
		return info->buffs[protocol] +
		       at * (block.comm->buffSizes[protocol] / NCCL_STEPS);
	if (fifo && fifo[at].mode == NCCL_MODE_OFFSET)
		return info->buffs[simple] + load(&fifo[at].offset);
	return info->buffs[simple] + at * info->stepSize;
}

Receiver::Receiver(Block &block, struct ncclConnInfo *info, int protocol,
		   int turn, bool with_registered)
    : Connection(block, info, protocol, turn)
{
	if (protocol != simple)
		return;
	// If the step was rounded up, tell the sender that the skipped steps
	// are free.
	store(info->head, step);
	registered = with_registered && (info->flags & NCCL_DIRECT_NIC);
	if (registered)
		store(&info->connFifo[step % NCCL_STEPS].size, (ssize_t)0);
}

bool Receiver::wait(int steps)
{
	return block.wait([&] { return load(info->tail) >= step + steps; });
}

bool Receiver::take(char *to, size_t size)
{
	return protocol == ll ? take_ll(to, size) : take_ll128(to, size);
}

bool Receiver::take_ll(char *to, size_t size)
{
	uint32_t flag = NCCL_LL_FLAG(step + 1);
	uint64_t *line = (uint64_t *)slot();
	uint64_t first = 0, second = 0;

	for (size_t at = 0; at < size; at += ll_data, line += 2) {
		if (!block.wait([&] {
			    first = load(&line[0]);
			    second = load(&line[1]);
			    return first >> 32 == flag && second >> 32 == flag;
		    }))
			return false;
		uint64_t data = (uint32_t)first | second << 32;
		memcpy(to + at, &data, std::min(ll_data, size - at));
	}
	return true;
}

// Read lines in the order in which their flags arrive. The tail also announces
// LL128 data, but a GPU does not read the tail: if a network device stored data
// after its flag, the GPU would read the line too early. A GPU does not read
// lines in order either: its warps read all lines concurrently.
bool Receiver::take_ll128(char *to, size_t size)
{
	uint64_t flag = step + 1;
	const uint64_t *line = (const uint64_t *)slot();
	constexpr size_t words = ll128_line / sizeof(*line);
	std::vector<size_t> missing(wire_size(ll128, size) / ll128_line);

	for (size_t i = 0; i < missing.size(); i++)
		missing[i] = missing.size() - 1 - i;
	auto come = [&](size_t i) {
		size_t at = i * ll128_data;

		if (load(&line[i * words + words - 1]) != flag)
			return false;
		if (at < size)
			memcpy(to + at, &line[i * words],
			       std::min(ll128_data, size - at));
		return true;
	};
	return block.wait([&] {
		missing.erase(
			std::remove_if(missing.begin(), missing.end(), come),
			missing.end());
		return missing.empty();
	});
}

void Receiver::post(int steps)
{
	step += steps;
	store(info->head, step);
}

bool Sender::wait(int steps, size_t size)
{
	if (!block.wait([&] {
		    return load(info->head) + NCCL_STEPS >= step + steps;
	    }))
		return false;
	if (info->connFifo)
		store(&info->connFifo[step % NCCL_STEPS].size,
		      (ssize_t)wire_size(protocol, size));
	return true;
}

void Sender::put(const char *from, size_t size)
{
	if (protocol == ll)
		put_ll(from, size);
	else if (protocol == ll128)
		put_ll128(from, size);
	else if (from != slot())
		memcpy(slot(), from, size);
}

void Sender::put_ll(const char *from, size_t size)
{
	uint64_t flag = (uint64_t)NCCL_LL_FLAG(step + 1) << 32;
	uint64_t *line = (uint64_t *)slot();

	for (size_t at = 0; at < size; at += ll_data, line += 2) {
		uint64_t data = 0;

		memcpy(&data, from + at, std::min(ll_data, size - at));
		store(&line[0], (data & 0xffffffff) | flag);
		store(&line[1], data >> 32 | flag);
	}
}

void Sender::put_ll128(const char *from, size_t size)
{
	uint64_t *line = (uint64_t *)slot();
	size_t lines = wire_size(ll128, size) / ll128_line;
	constexpr size_t words = ll128_line / sizeof(*line);

	for (size_t i = 0; i < lines; i++, line += words) {
		size_t at = i * ll128_data;

		if (at < size)
			memcpy(line, from + at,
			       std::min(ll128_data, size - at));
		store(&line[words - 1], step + 1);
	}
}

void Sender::post(int steps)
{
	step += steps;
	// A proxy thread reads the tail. A GPU reads the flags.
	if (protocol == simple || (protocol == ll128 && info->connFifo))
		store(info->tail, step);
}

void Sender::wait_read(int steps)
{
	ssize_t *size = &info->connFifo[(step - steps) % NCCL_STEPS].size;

	block.wait([&] { return load(size) == -1; });
}

} // namespace kernel
