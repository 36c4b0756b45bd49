// SPDX-License-Identifier: Apache-2.0
// Functions of NCCL's device code, and of its transport by GPU threads (gdaki),
// which NCCL uses only on request.
#include "standin.hpp"

#include "device.h"
#include "nccl_device/net_device.h"
#include "sym_kernels.h"

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 29, 0)
void *ncclSymkGetKernelPtr(ncclSymkKernelId, int, ncclDataType_t)
{
	return nullptr;
}

ncclResult_t ncclGinGdakiCreateContext(void *, int, int, void **,
				       ncclNetDeviceHandle_v7_t **)
{
	return ncclInternalError;
}

ncclResult_t ncclGinGdakiRegMrSym(void *, void *, size_t, int, void **, void **)
{
	return ncclInternalError;
}
#else
int ncclSymkGetKernelIndex(ncclSymkKernelId, int, ncclDataType_t)
{
	return -1;
}

ncclResult_t ncclGinGdakiCreateContext(void *, int, int, int, int, int, int,
				       void **, ncclNetDeviceHandle_v7_t **)
{
	return ncclInternalError;
}

ncclResult_t ncclGinGdakiRegMrSym(void *, void *, size_t, int, unsigned long,
				  void **, void **)
{
	return ncclInternalError;
}
#endif

ncclResult_t ncclGinGdakiDestroyContext(void *)
{
	return ncclInternalError;
}

ncclResult_t ncclGinGdakiDeregMrSym(void *, void *)
{
	return ncclInternalError;
}

ncclResult_t ncclGinGdakiProgress(void *)
{
	return ncclInternalError;
}

ncclResult_t ncclGinGdakiQueryLastError(void *, bool *)
{
	return ncclInternalError;
}

// NCCL calls this for a communicator of one rank.
ncclResult_t ncclLaunchOneRank(void *to, const void *from, size_t count,
			       struct ncclDevRedOpFull red, ncclDataType_t type,
			       cudaStream_t stream)
{
	if (red.op != ncclDevSum || type != ncclFloat32)
		standin::not_done("a reduction of one rank, operation " +
				  std::to_string(red.op) + ", type " +
				  std::to_string(type));
	cudaMemcpyAsync(to, from, count * sizeof(float), cudaMemcpyDefault,
			stream);
	return ncclSuccess;
}
