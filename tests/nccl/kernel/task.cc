// SPDX-License-Identifier: Apache-2.0
#include "task.hpp"

#include <condition_variable>
#include <mutex>
#include <sys/prctl.h>
#include <thread>
#include <utility>
#include <vector>

// Workers are never destroyed, since threads of NCCL outlive main().
struct kernel::Worker {
	std::mutex lock;
	std::condition_variable change;
	std::function<void()> work; // empty if there is none or it is done

	Worker()
	{
		std::thread([this] { run(); }).detach();
	}

	void run()
	{
		std::unique_lock<std::mutex> guard(lock);

		// Let sleeps end on time.
		prctl(PR_SET_TIMERSLACK, 1000UL);
		for (;;) {
			change.wait(guard, [this] { return (bool)work; });
			guard.unlock();
			work();
			guard.lock();
			work = nullptr;
			guard.unlock();
			change.notify_one();
			guard.lock();
		}
	}
};

namespace
{

struct Idle {
	std::mutex lock;
	std::vector<kernel::Worker *> all;
};

Idle &idle()
{
	static auto *only = new Idle;

	return *only;
}

kernel::Worker *take()
{
	std::lock_guard<std::mutex> guard(idle().lock);

	if (idle().all.empty())
		return new kernel::Worker;
	kernel::Worker *worker = idle().all.back();
	idle().all.pop_back();
	return worker;
}

} // namespace

kernel::Task::Task(std::function<void()> work) : worker(take())
{
	{
		std::lock_guard<std::mutex> guard(worker->lock);

		worker->work = std::move(work);
	}
	worker->change.notify_one();
}

kernel::Task::Task(Task &&other) : worker(std::exchange(other.worker, nullptr))
{
}

void kernel::Task::join()
{
	{
		std::unique_lock<std::mutex> guard(worker->lock);

		worker->change.wait(guard, [this] { return !worker->work; });
	}
	std::lock_guard<std::mutex> guard(idle().lock);
	idle().all.push_back(std::exchange(worker, nullptr));
}
