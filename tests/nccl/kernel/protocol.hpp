// SPDX-License-Identifier: Apache-2.0
// One end of a connection, as a GPU uses it: the place where steps are stored,
// the waits for room or data, and the data format of each protocol.
#ifndef KERNEL_PROTOCOL_HPP
#define KERNEL_PROTOCOL_HPP

#include "block.hpp"

namespace kernel
{

enum {
	simple = NCCL_PROTO_SIMPLE,
	ll = NCCL_PROTO_LL,
	ll128 = NCCL_PROTO_LL128
};

class Connection
{
      public:
	// The first step is rounded up to a multiple of `turn`, as on a GPU.
	Connection(Block &block, struct ncclConnInfo *info, int protocol,
		   int turn);

	// The next step. A kernel continues at the step at which the previous
	// kernel stopped.
	uint64_t step;
	void save();

	// Return the address of the step's data.
	char *slot() const;
	// The network reads or writes the user's buffer itself.
	bool registered = false;

      protected:
	Block &block;
	struct ncclConnInfo *info;
	const int protocol;
};

class Receiver : public Connection
{
      public:
	Receiver(Block &block, struct ncclConnInfo *info, int protocol,
		 int turn, bool registered);

	// Simple: wait until `steps` more steps have arrived.
	bool wait(int steps);
	// LL and LL128: wait for `size` bytes of the current step and copy them
	// to `to`. A line is valid when its flag is set. A GPU reads the flag
	// together with the line.
	bool take(char *to, size_t size);
	void post(int steps);

      private:
	bool take_ll(char *to, size_t size);
	bool take_ll128(char *to, size_t size);
};

class Sender : public Connection
{
      public:
	using Connection::Connection;

	// Wait until there is room for `steps` more steps. Store `size` as the
	// size of each step.
	bool wait(int steps, size_t size);
	// Write data of the current step in the format of its protocol.
	void put(const char *from, size_t size);
	void post(int steps);
	// Registered memory: wait until the network has read the last step's
	// data.
	void wait_read(int steps);

      private:
	void put_ll(const char *from, size_t size);
	void put_ll128(const char *from, size_t size);
};

// Return how many bytes `size` bytes of data take on the wire.
size_t wire_size(int protocol, size_t size);

} // namespace kernel

#endif
