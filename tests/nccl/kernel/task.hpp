// SPDX-License-Identifier: Apache-2.0
// A task runs concurrently with its caller, on a thread that is reused.
// Starting and ending a thread would take longer than many launches.
#ifndef KERNEL_TASK_HPP
#define KERNEL_TASK_HPP

#include <functional>

namespace kernel
{

struct Worker;

class Task
{
      public:
	explicit Task(std::function<void()> work);
	Task(Task &&other);
	// Wait until the work is done. Call this exactly once per task.
	void join();

      private:
	Worker *worker;
};

} // namespace kernel

#endif
