// SPDX-License-Identifier: Apache-2.0
// What runs beside its caller, on a thread that is kept for the next: to begin one
// and end it takes longer than many a launch.
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
	// Until the work is done; once, and no task ends without.
	void join();

      private:
	Worker *worker;
};

} // namespace kernel

#endif
