// SPDX-License-Identifier: Apache-2.0
// Streams. Each stream has a queue. It gets a thread when it first has work
// that may wait.
#include "standin.hpp"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

namespace
{

class Stream : public std::enable_shared_from_this<Stream>
{
      public:
	void add(std::function<void()> work, bool quick)
	{
		std::unique_lock<std::mutex> guard(lock);

		if (quick && queue.empty() && !busy) {
			// under the lock, so that no other work overtakes it
			work();
			return;
		}
		queue.push_back(std::move(work));
		if (!started) {
			started = true;
			std::thread([self = shared_from_this()] {
				self->run();
			}).detach();
		}
		more.notify_one();
	}

	void drain()
	{
		std::unique_lock<std::mutex> guard(lock);

		idle.wait(guard, [this] { return queue.empty() && !busy; });
	}

	bool done()
	{
		std::lock_guard<std::mutex> guard(lock);

		return queue.empty() && !busy;
	}

	// The remaining work of the stream still runs.
	void end()
	{
		std::lock_guard<std::mutex> guard(lock);

		ended = true;
		more.notify_one();
	}

      private:
	std::mutex lock;
	std::condition_variable more, idle;
	std::deque<std::function<void()>> queue;
	bool busy = false, ended = false, started = false;

	void run()
	{
		std::unique_lock<std::mutex> guard(lock);

		for (;;) {
			more.wait(guard,
				  [this] { return ended || !queue.empty(); });
			if (queue.empty())
				return;
			std::function<void()> work = std::move(queue.front());
			queue.pop_front();
			busy = true;
			guard.unlock();
			work();
			work = nullptr;
			guard.lock();
			busy = false;
			if (queue.empty())
				idle.notify_all();
		}
	}
};

std::mutex lock; // protects the list

std::map<cudaStream_t, std::shared_ptr<Stream>> &streams()
{
	static auto *all = new std::map<cudaStream_t, std::shared_ptr<Stream>>;

	return *all;
}

// 0, cudaStreamLegacy and cudaStreamPerThread mean the stream that all threads
// share.
const cudaStream_t legacy = (cudaStream_t)1;

cudaStream_t key(cudaStream_t stream)
{
	return (uintptr_t)stream <= 2 ? legacy : stream;
}

std::shared_ptr<Stream> find(cudaStream_t stream)
{
	std::lock_guard<std::mutex> guard(lock);
	auto found = streams().find(key(stream));

	if (found != streams().end())
		return found->second;
	if (key(stream) != legacy)
		return nullptr;
	return streams()[legacy] = std::make_shared<Stream>();
}

} // namespace

void standin::stream_add(cudaStream_t stream, std::function<void()> work,
			 bool quick)
{
	std::shared_ptr<Stream> found = find(stream);

	if (!found)
		not_done("work of a stream that was destroyed");
	found->add(std::move(work), quick);
}

void standin::stream_drain(cudaStream_t stream)
{
	if (std::shared_ptr<Stream> found = find(stream))
		found->drain();
}

void standin::stream_drain_all()
{
	std::vector<std::shared_ptr<Stream>> all;
	{
		std::lock_guard<std::mutex> guard(lock);

		for (auto &entry : streams())
			all.push_back(entry.second);
	}
	for (auto &stream : all)
		stream->drain();
}

STANDIN_API cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
	auto made = std::make_shared<Stream>();
	std::lock_guard<std::mutex> guard(lock);

	*stream = (cudaStream_t)made.get();
	streams()[*stream] = made;
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream,
						  unsigned int)
{
	return cudaStreamCreate(stream);
}

STANDIN_API cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	std::shared_ptr<Stream> found;
	{
		std::lock_guard<std::mutex> guard(lock);
		auto entry = streams().find(stream);

		if (entry == streams().end())
			return standin::fail(cudaErrorInvalidResourceHandle);
		found = entry->second;
		streams().erase(entry);
	}
	found->end();
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	standin::stream_drain(stream);
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	std::shared_ptr<Stream> found = find(stream);

	if (!found)
		return standin::fail(cudaErrorInvalidResourceHandle);
	return found->done() ? cudaSuccess : cudaErrorNotReady;
}

STANDIN_API cudaError_t cudaStreamGetId(cudaStream_t stream,
					unsigned long long *id)
{
	*id = (uintptr_t)key(stream);
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaLaunchHostFunc(cudaStream_t stream,
					   cudaHostFn_t function, void *arg)
{
	standin::stream_add(stream, [=] { function(arg); });
	return cudaSuccess;
}
