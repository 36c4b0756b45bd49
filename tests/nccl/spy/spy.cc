// SPDX-License-Identifier: Apache-2.0
// A net plugin between NCCL and the plugin under test. It counts NCCL's calls.
// Counters are 64-bit numbers in the file SPY_COUNTERS, which all ranks share.
// tests/nccl/run knows their offsets.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <nccl.h>
#include <nccl_net.h>

// The newest table that this version of NCCL looks up.
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 30, 0)
#define TABLE ncclNetPlugin_v12
#else
#define TABLE ncclNetPlugin_v11
#endif
#define TEXT_OF(name) #name
#define NAME_OF(name) TEXT_OF(name)

extern "C" __attribute__((visibility("default"))) ncclNet_t TABLE;
ncclNet_t TABLE;

namespace
{

enum {
	RECV = 0, // receives of 1 message; those of n messages are at n - 1
	RECV_MAX = 16,
	SEND = 16,
	REG_HOST,
	REG_DEVICE,
	REG_DMABUF,
	FLUSH,
	FLUSHING, // flushes with a request to wait for
	COUNTERS,
};

ncclNet_t real;
uint64_t *counters;

void count(unsigned at)
{
	__atomic_fetch_add(&counters[at], 1, __ATOMIC_RELAXED);
}

ncclResult_t spy_isend(void *comm, void *data, size_t size, int tag,
		       void *mhandle, void *phandle, void **request)
{
	ncclResult_t rc =
		real.isend(comm, data, size, tag, mhandle, phandle, request);

	if (rc == ncclSuccess && *request)
		count(SEND);
	return rc;
}

ncclResult_t spy_irecv(void *comm, int n, void **data, size_t *sizes, int *tags,
		       void **mhandles, void **phandles, void **request)
{
	ncclResult_t rc = real.irecv(comm, n, data, sizes, tags, mhandles,
				     phandles, request);

	if (rc == ncclSuccess && *request && n >= 1 && n <= RECV_MAX)
		count(RECV + (unsigned)n - 1);
	return rc;
}

ncclResult_t spy_iflush(void *comm, int n, void **data, int *sizes,
			void **mhandles, void **request)
{
	ncclResult_t rc = real.iflush(comm, n, data, sizes, mhandles, request);

	count(FLUSH);
	if (rc == ncclSuccess && *request)
		count(FLUSHING);
	return rc;
}

ncclResult_t spy_reg(void *comm, void *data, size_t size, int type,
		     void **mhandle)
{
	count(type == NCCL_PTR_HOST ? REG_HOST : REG_DEVICE);
	return real.regMr(comm, data, size, type, mhandle);
}

ncclResult_t spy_reg_dmabuf(void *comm, void *data, size_t size, int type,
			    uint64_t offset, int fd, void **mhandle)
{
	count(REG_DMABUF);
	return real.regMrDmaBuf(comm, data, size, type, offset, fd, mhandle);
}

void map_counters()
{
	const char *file = getenv("SPY_COUNTERS");
	int fd = open(file ? file : "", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	size_t size = COUNTERS * sizeof(*counters);

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0) {
		fprintf(stderr, "spy: no file for counters\n");
		_exit(98);
	}
	counters = (uint64_t *)mmap(nullptr, size, PROT_READ | PROT_WRITE,
				    MAP_SHARED, fd, 0);
	close(fd);
	if (counters == MAP_FAILED)
		_exit(98);
}

// This runs before NCCL looks up the table, because NCCL reads it as soon as
// the plugin is loaded.
__attribute__((constructor)) void begin()
{
	const char *file = getenv("SPY_PLUGIN");
	void *plugin = dlopen(file ? file : "", RTLD_NOW | RTLD_LOCAL);
	const ncclNet_t *table =
		(const ncclNet_t *)(plugin ? dlsym(plugin, NAME_OF(TABLE))
					   : nullptr);

	if (!table) {
		fprintf(stderr, "spy: no " NAME_OF(TABLE) " in SPY_PLUGIN\n");
		_exit(98);
	}
	map_counters();
	real = TABLE = *table;
	TABLE.isend = spy_isend;
	TABLE.irecv = spy_irecv;
	TABLE.iflush = spy_iflush;
	TABLE.regMr = spy_reg;
	if (real.regMrDmaBuf)
		TABLE.regMrDmaBuf = spy_reg_dmabuf;
}

} // namespace
