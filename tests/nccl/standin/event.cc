// SPDX-License-Identifier: Apache-2.0
// Events. Recording an event marks a point in a stream's work.
#include "standin.hpp"

#include <condition_variable>
#include <ctime>
#include <mutex>

namespace
{

class Moment
{
      public:
	void come()
	{
		std::lock_guard<std::mutex> guard(lock);

		clock_gettime(CLOCK_MONOTONIC, &time);
		came = true;
		changed.notify_all();
	}

	void wait()
	{
		std::unique_lock<std::mutex> guard(lock);

		changed.wait(guard, [this] { return came; });
	}

	bool has_come()
	{
		std::lock_guard<std::mutex> guard(lock);

		return came;
	}

	double ms()
	{
		std::lock_guard<std::mutex> guard(lock);

		return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
	}

      private:
	std::mutex lock;
	std::condition_variable changed;
	bool came = false;
	struct timespec time = {};
};

struct Event {
	std::mutex lock;
	std::shared_ptr<Moment> recorded;
};

std::shared_ptr<Moment> moment_of(cudaEvent_t event)
{
	Event *e = (Event *)event;
	std::lock_guard<std::mutex> guard(e->lock);

	return e->recorded;
}

std::shared_ptr<Moment> record(cudaEvent_t event)
{
	Event *e = (Event *)event;
	auto moment = std::make_shared<Moment>();
	std::lock_guard<std::mutex> guard(e->lock);

	e->recorded = moment;
	return moment;
}

} // namespace

void standin::event_happened(cudaEvent_t event)
{
	record(event)->come();
}

STANDIN_API cudaError_t cudaEventCreate(cudaEvent_t *event)
{
	*event = (cudaEvent_t) new Event;
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event,
						 unsigned int)
{
	return cudaEventCreate(event);
}

STANDIN_API cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	delete (Event *)event;
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	std::shared_ptr<Moment> moment = record(event);

	standin::stream_add(
		stream, [moment] { moment->come(); }, true);
	return cudaSuccess;
}

// An event that was never recorded counts as complete.
STANDIN_API cudaError_t cudaEventQuery(cudaEvent_t event)
{
	std::shared_ptr<Moment> moment = moment_of(event);

	return !moment || moment->has_come() ? cudaSuccess : cudaErrorNotReady;
}

STANDIN_API cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	if (std::shared_ptr<Moment> moment = moment_of(event))
		moment->wait();
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin,
					     cudaEvent_t end)
{
	std::shared_ptr<Moment> from = moment_of(begin), to = moment_of(end);

	if (!from || !to || !from->has_come() || !to->has_come())
		return standin::fail(cudaErrorNotReady);
	*ms = (float)(to->ms() - from->ms());
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaStreamWaitEvent(cudaStream_t stream,
					    cudaEvent_t event, unsigned int)
{
	std::shared_ptr<Moment> moment = moment_of(event);

	if (moment && !moment->has_come())
		standin::stream_add(stream, [moment] { moment->wait(); });
	return cudaSuccess;
}
