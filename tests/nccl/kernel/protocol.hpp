// SPDX-License-Identifier: Apache-2.0
// One end of a connection, as a GPU has it: where steps lie, when there is room
// or data, and how data lies on the wire in each protocol.
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
	// Steps are rounded up to whole turns of `turn` steps, as a GPU does.
	Connection(Block &block, struct ncclConnInfo *info, int protocol,
		   int turn);

	// Step that comes next. What a kernel leaves, the next one finds.
	uint64_t step;
	void save();

	// Where the step's data is, or goes.
	char *slot() const;
	// The buffer of the user is what the network reads and writes.
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

	// Simple: until `steps` more have come.
	bool wait(int steps);
	// LL and LL128: `size` bytes of the present step, as they come, to `to`.
	// A line counts when its flag is there, which a GPU reads with the line.
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

	// Until there is room for `steps` more; says how much each will have.
	bool wait(int steps, size_t size);
	// Data of the present step, in the form of its protocol.
	void put(const char *from, size_t size);
	void post(int steps);
	// Registered: until the network has read the last step's data.
	void wait_read(int steps);

      private:
	void put_ll(const char *from, size_t size);
	void put_ll128(const char *from, size_t size);
};

// Bytes that so many bytes of data take on the wire.
size_t wire_size(int protocol, size_t size);

} // namespace kernel

#endif
