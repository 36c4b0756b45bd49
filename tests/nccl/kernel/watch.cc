// SPDX-License-Identifier: Apache-2.0
#include "watch.hpp"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <linux/futex.h>
#include <mutex>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

namespace
{

struct Sleeper {
	explicit Sleeper(const std::function<bool()> &ready) : ready(ready)
	{
	}
	const std::function<bool()> &ready;
	std::atomic<uint32_t> over{ 0 };
};

// The list is never destroyed, since threads of NCCL outlive main().
struct Sleepers {
	std::mutex lock;
	std::vector<Sleeper *> all;
};

Sleepers &sleepers()
{
	static auto *only = new Sleepers;

	return *only;
}

long futex(std::atomic<uint32_t> *word, int op, uint32_t value,
	   const struct timespec *limit = nullptr)
{
	return syscall(SYS_futex, word, op, value, limit);
}

// Wake the threads whose words are ready. A woken thread may get this thread's
// CPU immediately. So first remove the threads from the list and release the
// lock, then wake them.
void look()
{
	std::vector<Sleeper *> &all = sleepers().all;
	std::unique_lock<std::mutex> guard(sleepers().lock, std::try_to_lock);

	if (!guard)
		return;
	auto first = std::partition(all.begin(), all.end(),
				    [](Sleeper *s) { return !s->ready(); });
	std::vector<Sleeper *> woken(first, all.end());
	all.erase(first, all.end());
	guard.unlock();
	for (Sleeper *sleeper : woken) {
		// After this store, the waiter may return at any time.
		sleeper->over.store(1, std::memory_order_release);
		futex(&sleeper->over, FUTEX_WAKE_PRIVATE, 1);
	}
}

// Remove a sleeper from the list. Return false if look() has already removed
// it.
bool leave(Sleeper *sleeper)
{
	std::vector<Sleeper *> &all = sleepers().all;
	std::lock_guard<std::mutex> guard(sleepers().lock);
	auto place = std::find(all.begin(), all.end(), sleeper);

	if (place == all.end())
		return false;
	all.erase(place);
	return true;
}

} // namespace

void kernel::watch(const std::function<bool()> &ready, unsigned int naps)
{
	struct timespec nap = { 0, 20000L << std::min(naps, 10u) };
	Sleeper self(ready);
	{
		std::lock_guard<std::mutex> guard(sleepers().lock);

		if (ready())
			return;
		sleepers().all.push_back(&self);
	}
	futex(&self.over, FUTEX_WAIT_PRIVATE, 0, &nap);
	if (self.over.load(std::memory_order_acquire) || leave(&self))
		return;
	while (!self.over.load(std::memory_order_acquire))
		futex(&self.over, FUTEX_WAIT_PRIVATE, 0);
}

// NCCL and this library call this function instead of sched_yield(), see
// library/CMakeLists.txt.
extern "C" int __real_sched_yield();
extern "C" int __wrap_sched_yield()
{
	look();
	return __real_sched_yield();
}
