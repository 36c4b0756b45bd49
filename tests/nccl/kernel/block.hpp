// SPDX-License-Identifier: Apache-2.0
// A block does the work of one channel of one launch. This file has the
// functions by which it waits.
#ifndef KERNEL_BLOCK_HPP
#define KERNEL_BLOCK_HPP

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <sched.h>

#include "device.h"
#include "watch.hpp"

namespace kernel
{

// Other ranks, the network and proxy threads write and read these words.
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

	// Wait until ready(). Returns false if the communicator is aborted. If
	// STANDIN_SPIN is set in the environment, poll without pauses, as a GPU
	// does. Tests that must see intermediate states need that.
	template <class Ready> bool wait(Ready ready)
	{
		if (ready())
			return true;
		return spins() ? spin(ready) : sleep(ready);
	}

      private:
	template <class Ready> bool spin(Ready ready)
	{
		for (unsigned int look = 1; !ready(); look++) {
			if (look % looks)
				continue;
			if (aborts())
				return false;
			// Yield to the threads for which this one waits.
			sched_yield();
		}
		return true;
	}

	template <class Ready> bool sleep(Ready ready)
	{
		bool over = false;
		auto look = [&] { return over = over || ready(); };

		for (unsigned int naps = 0; !over; naps++) {
			if (aborts())
				return false;
			watch(look, naps);
		}
		return true;
	}

	bool aborts()
	{
		if (load(comm->abortFlag))
			aborted = true;
		return aborted;
	}

	static bool spins()
	{
		static const bool always = getenv("STANDIN_SPIN");

		return always;
	}

	static constexpr unsigned int looks = 4096;
};

} // namespace kernel

#endif
