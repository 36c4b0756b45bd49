// SPDX-License-Identifier: Apache-2.0
#include "kernel.hpp"
#include "functions.hpp"
#include "standin.hpp"
#include "task.hpp"

#include <ctime>
#include <vector>

namespace
{

using kernel::Block;
using kernel::Function;

struct Launch {
	const struct ncclDevKernelArgs *args;

	const struct ncclDevWorkBatch &batch(int index) const
	{
		return ((const struct ncclDevWorkBatch *)(args + 1))[index];
	}

	void *work(const struct ncclDevWorkBatch &batch, int index) const
	{
		size_t size =
			ncclDevWorkSize((enum ncclDevWorkType)batch.workType);
		size_t at = batch.offsetBase + index * size;

		if (args->workStorageType == ncclDevWorkStorageTypeArgs)
			return (char *)args + at;
		return (char *)args->workBuf + (at & args->workMask);
	}
};

// Collect the work of all batches that belong together. Sets *index to the last
// of these batches.
std::vector<void *> gather(const Launch &launch, int *index)
{
	std::vector<void *> works;

	for (;;) {
		const struct ncclDevWorkBatch &batch = launch.batch(*index);

		for (int i = 0; i < 64; i++)
			if (batch.offsetBitset >> i & 1)
				works.push_back(launch.work(batch, i));
		if (!batch.nextExtends)
			return works;
		*index += batch.nextJump;
	}
}

// Report the event that NCCL's profiler shows for a channel of a kernel.
void stamp(Block &block, struct ncclDevProfiler *where, bool enabled,
	   uint64_t counter)
{
	struct timespec now;
	auto &event =
		where[block.id].data[counter % MAX_PROFILER_EVENTS_PER_CHANNEL];

	if (!enabled)
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	event.timestamp =
		(uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	kernel::store(&event.counter, counter);
}

void stamp_all(Block &block, struct ncclDevProfiler *where, int type,
	       const std::vector<void *> &works)
{
	uint64_t counter = block.channel->workCounter;

	for (void *work : works)
		stamp(block, where,
		      type == ncclDevWorkTypeP2p
			      ? ((struct ncclDevWorkP2p *)work)->profilerEnabled
			      : ((struct ncclDevWorkColl *)work)
					->profilerEnabled,
		      ++counter);
}

// Sends and receives of a batch run concurrently, as warps of a block do.
void run_pairs(Block &block, const std::vector<void *> &works)
{
	auto run = [&block](void *work) {
		kernel::pair(block, *(const struct ncclDevWorkP2p *)work);
	};
	std::vector<kernel::Task> tasks;

	for (size_t i = 1; i < works.size(); i++)
		tasks.emplace_back([run, work = works[i]] { run(work); });
	run(works[0]);
	for (kernel::Task &task : tasks)
		task.join();
}

void run_coll(Block &block, struct ncclDevWorkColl *work,
	      const Function &function)
{
	bool reduces = function.coll != ncclFuncBroadcast &&
		       function.coll != ncclFuncAllGather;

	if (work->regUsed || (work->netRegUsed && reduces))
		standin::not_done(kernel::function_name(function) +
				  (work->regUsed || work->netRegUsed
					   ? ", registered"
					   : ""));
	kernel::ring(block, work, function, reduces ? sizeof(float) : 1);
}

void run_block(const Launch &launch, int id, int first)
{
	auto *all = (struct ncclKernelCommAndChannels *)launch.args->comm;
	Block block;

	block.comm = &all->comm;
	block.channel = &all->channels[id];
	block.id = id;
	for (int index = first;;) {
		std::vector<void *> works = gather(launch, &index);
		const struct ncclDevWorkBatch &batch = launch.batch(index);
		const Function *function = kernel::function_find(batch.funcId);

		if (!function)
			standin::not_done("function " +
					  std::to_string(batch.funcId) +
					  " of NCCL's device code");
		stamp_all(block, block.comm->workStarted, batch.workType,
			  works);
		if (batch.workType == ncclDevWorkTypeP2p)
			run_pairs(block, works);
		else
			for (void *work : works)
				run_coll(block, (struct ncclDevWorkColl *)work,
					 *function);
		stamp_all(block, block.comm->workCompleted, batch.workType,
			  works);
		block.channel->workCounter += works.size();
		if (!batch.nextJump || block.aborted)
			return;
		index += batch.nextJump;
	}
}

} // namespace

void kernel::run(const void *args)
{
	Launch launch = { (const struct ncclDevKernelArgs *)args };
	std::vector<Task> blocks;

	for (int id = 0; id < MAXCHANNELS; id++)
		if (launch.args->channelMask >> id & 1)
			blocks.emplace_back([=, first = (int)blocks.size()] {
				run_block(launch, id, first);
			});
	for (Task &block : blocks)
		block.join();
}
