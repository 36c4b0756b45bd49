/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi.h"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <mutex>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace {

constexpr size_t most = 64 << 10; /* most bytes of one exchange */
constexpr int comms = 64;

struct mailbox {
	/* number of exchanges that its rank wrote */
	std::atomic<uint64_t> written;
	/* number of exchanges that its rank read */
	std::atomic<uint64_t> taken;
	char data[most];
};

struct shared {
	mailbox box[comms][2];
};

shared *memory;
int self;
std::mutex lock[comms];
uint64_t exchanges[comms];
std::deque<std::vector<char>> sends;

void wait_for(const std::atomic<uint64_t> &count, uint64_t value)
{
	while (count.load(std::memory_order_acquire) < value)
		sched_yield();
}

void exchange(MPI_Comm comm, const void *out, void *in, size_t size)
{
	std::lock_guard<std::mutex> guard(lock[comm]);
	mailbox &mine = memory->box[comm][self];
	mailbox &other = memory->box[comm][!self];
	uint64_t n = ++exchanges[comm];

	if (size > most) {
		fprintf(stderr, "mpi.cpp: %zu bytes in one call\n", size);
		abort();
	}
	wait_for(other.taken, n - 1);
	if (size)
		memcpy(mine.data, out, size);
	mine.written.store(n, std::memory_order_release);
	wait_for(other.written, n);
	if (size)
		memcpy(in, other.data, size);
	mine.taken.store(n, std::memory_order_release);
}

}

int MPI_Init(void *, void *)
{
	const char *file = getenv("MPI_FILE"), *rank = getenv("MPI_RANK");
	int fd = file ? open(file, O_RDWR) : -1;
	void *mapped = MAP_FAILED;

	if (fd >= 0 && rank && ftruncate(fd, sizeof(shared)) == 0)
		mapped = mmap(nullptr, sizeof(shared), PROT_READ | PROT_WRITE,
			      MAP_SHARED, fd, 0);
	if (mapped == MAP_FAILED) {
		fprintf(stderr, "mpi.cpp: MPI_FILE and MPI_RANK are needed\n");
		exit(1);
	}
	memory = static_cast<shared *>(mapped);
	self = atoi(rank);
	return MPI_SUCCESS;
}

int MPI_Init_thread(void *argc, void *argv, int wanted, int *provided)
{
	*provided = wanted;
	return MPI_Init(argc, argv);
}

int MPI_Finalize()
{
	return MPI_SUCCESS;
}

int MPI_Comm_rank(MPI_Comm, int *rank)
{
	*rank = self;
	return MPI_SUCCESS;
}

int MPI_Comm_size(MPI_Comm, int *size)
{
	*size = 2;
	return MPI_SUCCESS;
}

int MPI_Comm_split(MPI_Comm, int color, int, MPI_Comm *out)
{
	*out = 1 + color;
	return MPI_SUCCESS;
}

int MPI_Comm_split_type(MPI_Comm comm, int, int, MPI_Info, MPI_Comm *out)
{
	*out = comm;
	return MPI_SUCCESS;
}

int MPI_Comm_free(MPI_Comm *)
{
	return MPI_SUCCESS;
}

int MPI_Get_processor_name(char *name, int *len)
{
	*len = snprintf(name, MPI_MAX_PROCESSOR_NAME, "here");
	return MPI_SUCCESS;
}

int MPI_Barrier(MPI_Comm comm)
{
	exchange(comm, nullptr, nullptr, 0);
	return MPI_SUCCESS;
}

int MPI_Allgather(const void *, int, MPI_Datatype, void *in, int count,
		  MPI_Datatype type, MPI_Comm comm)
{
	size_t size = (size_t)count * type;
	char *all = static_cast<char *>(in);

	exchange(comm, all + self * size, all + !self * size, size);
	return MPI_SUCCESS;
}

int MPI_Allreduce(const void *mine, void *least, int, MPI_Datatype, MPI_Op,
		  MPI_Comm comm)
{
	int own, other;

	memcpy(&own, mine, sizeof(own));
	exchange(comm, &own, &other, sizeof(own));
	*static_cast<int *>(least) = own < other ? own : other;
	return MPI_SUCCESS;
}

int MPI_Sendrecv(const void *out, int sent, MPI_Datatype type, int, int,
		 void *in, int, MPI_Datatype, int, int, MPI_Comm comm,
		 MPI_Status *)
{
	exchange(comm, out, in, (size_t)sent * type);
	return MPI_SUCCESS;
}

int MPI_Send(const void *out, int count, MPI_Datatype type, int, int, MPI_Comm)
{
	const char *bytes = static_cast<const char *>(out);

	sends.emplace_back(bytes, bytes + (size_t)count * type);
	return MPI_SUCCESS;
}

int MPI_Recv(void *in, int, MPI_Datatype, int, int, MPI_Comm comm, MPI_Status *)
{
	if (sends.empty()) {
		fprintf(stderr, "mpi.cpp: a receive before its send\n");
		abort();
	}
	exchange(comm, sends.front().data(), in, sends.front().size());
	sends.pop_front();
	return MPI_SUCCESS;
}
