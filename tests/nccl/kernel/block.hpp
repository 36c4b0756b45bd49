// SPDX-License-Identifier: Apache-2.0
// A block: one channel of one launch, and how it waits.
#ifndef KERNEL_BLOCK_HPP
#define KERNEL_BLOCK_HPP

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <sched.h>

#include "device.h"

namespace kernel
{

// Words that the network, proxy threads and other ranks write and read.
template <class T> T load(const volatile T *from)
{
	return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}

template <class T> void store(volatile T *to, T value)
{
	__atomic_store_n(to, value, __ATOMIC_RELEASE);
}

struct Block {
	struct ncclKernelComm *comm;
	struct ncclDevChannel *channel;
	int id;
	std::atomic<bool> aborted{ false };

	// Until ready(), or the communicator is aborted; false then. A GPU that
	// waits takes no CPU: after a few looks this sleeps between them. With
	// STANDIN_SPIN in the environment it goes on looking, as a GPU does, for
	// tests of what it may see in between.
	template <class Ready> bool wait(Ready ready)
	{
		for (unsigned int look = 0; !ready(); look++) {
			if (aborted)
				return false;
			if (look % looks == looks - 1 && load(comm->abortFlag))
				aborted = true;
			if (spins()) {
				// Hot, but for those it waits for.
				if (look % hot == hot - 1)
					sched_yield();
			} else if (look < looks) {
				sched_yield();
			} else {
				nanosleep(&nap, nullptr);
			}
		}
		return true;
	}

      private:
	static bool spins()
	{
		static const bool always = getenv("STANDIN_SPIN");

		return always;
	}

	static constexpr unsigned int looks = 8, hot = 4096;
	static constexpr struct timespec nap = { 0, 20000 };
};

} // namespace kernel

#endif
