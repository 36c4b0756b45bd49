// SPDX-License-Identifier: Apache-2.0
// NCCL's primitives: receive, reduce, copy and send in one operation, slice by
// slice.
#ifndef KERNEL_PRIMITIVES_HPP
#define KERNEL_PRIMITIVES_HPP

#include <vector>

#include "protocol.hpp"

namespace kernel
{

// The user's buffer in which a move has its source or target.
enum class Buffer {
	none,
	input,
	output
};

struct Setup {
	int protocol = simple;
	// slices per chunk, steps per slice; only for Simple
	int slices = 1, steps = 1;
	std::vector<int> from, to; // ranks; a negative number means no rank
	int index = 0; // index of a pair's connections; 1 for send and receive
	const void *input = nullptr;
	void *output = nullptr;
	size_t step_size = 0; // in bytes; 0: step size of the buffers
	bool registered_from = false, registered_to = false;
	// true for a send or receive, false for a collective
	bool peer_to_peer = false;
};

class Primitives
{
      public:
	Primitives(Block &block, const Setup &setup, size_t element);
	~Primitives();
	Primitives(const Primitives &) = delete;
	Primitives &operator=(const Primitives &) = delete;

	struct Move {
		bool receive, send;
		Buffer source, target;
		ssize_t source_at, target_at; // in elements
		ssize_t count;
	};
	void move(const Move &move);

	void send(ssize_t at, ssize_t n, Buffer source = Buffer::input)
	{
		move({ false, true, source, Buffer::none, at, at, n });
	}
	void copy_send(ssize_t from, ssize_t to, ssize_t n)
	{
		move({ false, true, Buffer::input, Buffer::output, from, to,
		       n });
	}
	void receive(ssize_t at, ssize_t n)
	{
		move({ true, false, Buffer::none, Buffer::output, at, at, n });
	}
	void receive_copy_send(ssize_t at, ssize_t n)
	{
		move({ true, true, Buffer::none, Buffer::output, at, at, n });
	}
	void receive_reduce_send(ssize_t at, ssize_t n)
	{
		move({ true, true, Buffer::input, Buffer::none, at, at, n });
	}
	void receive_reduce_copy(ssize_t from, ssize_t to, ssize_t n)
	{
		move({ true, false, Buffer::input, Buffer::output, from, to,
		       n });
	}
	void receive_reduce_copy_send(ssize_t from, ssize_t to, ssize_t n)
	{
		move({ true, true, Buffer::input, Buffer::output, from, to,
		       n });
	}

      private:
	Block &block;
	const int protocol, slices, steps;
	const size_t element; // in bytes; only floats can be added
	const bool peer_to_peer;
	char *const input, *const output;
	const size_t step_size; // in elements
	std::vector<Receiver> receivers;
	std::vector<Sender> senders;
	std::vector<char> own, taken; // temporary space

	char *user(Buffer buffer, ssize_t at) const;
	void slice(const Move &move, ssize_t offset, size_t count);
	void data(const Move &move, ssize_t offset, size_t count);
	const char *arrived(Receiver &receiver, const Move &move,
			    ssize_t offset, size_t size);
	const char *combine(const Move &move, ssize_t offset, size_t count,
			    char *space);
};

} // namespace kernel

#endif
