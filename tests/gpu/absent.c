/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The toolkit's functions where there is no toolkit. The first one the program
 * calls says that there is no GPU, so it skips; none of the others pretends.
 */
#include "toolkit.h"

const char *cudaGetErrorString(cudaError_t error)
{
	return error == cudaSuccess ? "no error" : "built without CUDA";
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
	*version = 0;
	return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
	*count = 0;
	return cudaErrorNoDevice;
}

cudaError_t cudaSetDevice(int device)
{
	(void)device;
	return cudaErrorNoDevice;
}

cudaError_t cudaMalloc(void **device, size_t size)
{
	(void)size;
	*device = NULL;
	return cudaErrorNoDevice;
}

cudaError_t cudaFree(void *device)
{
	(void)device;
	return cudaErrorNoDevice;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size,
			    enum cudaMemcpyKind kind, cudaStream_t stream)
{
	(void)to;
	(void)from;
	(void)size;
	(void)kind;
	(void)stream;
	return cudaErrorNoDevice;
}

cudaError_t cudaMemsetAsync(void *device, int byte, size_t size,
			    cudaStream_t stream)
{
	(void)device;
	(void)byte;
	(void)size;
	(void)stream;
	return cudaErrorNoDevice;
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
	*stream = NULL;
	return cudaErrorNoDevice;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	(void)stream;
	return cudaErrorNoDevice;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	(void)stream;
	return cudaErrorNoDevice;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
	*event = NULL;
	return cudaErrorNoDevice;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	(void)event;
	return cudaErrorNoDevice;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	(void)event;
	(void)stream;
	return cudaErrorNoDevice;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
	(void)event;
	return cudaErrorNoDevice;
}

const char *ncclGetErrorString(ncclResult_t result)
{
	return result == ncclSuccess ? "no error" : "built without NCCL";
}

const char *ncclGetLastError(ncclComm_t comm)
{
	(void)comm;
	return "built without NCCL";
}

ncclResult_t ncclGetVersion(int *version)
{
	*version = 0;
	return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	(void)id;
	return ncclSystemError;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id,
			      int rank)
{
	(void)nranks;
	(void)id;
	(void)rank;
	*comm = NULL;
	return ncclSystemError;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	(void)comm;
	return ncclSystemError;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	(void)comm;
	return ncclSystemError;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
	(void)comm;
	*error = ncclSystemError;
	return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count,
			   ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
			   cudaStream_t stream)
{
	(void)from;
	(void)to;
	(void)count;
	(void)type;
	(void)op;
	(void)comm;
	(void)stream;
	return ncclSystemError;
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t count,
			   ncclDataType_t type, ncclComm_t comm,
			   cudaStream_t stream)
{
	(void)from;
	(void)to;
	(void)count;
	(void)type;
	(void)comm;
	(void)stream;
	return ncclSystemError;
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type,
		      int peer, ncclComm_t comm, cudaStream_t stream)
{
	(void)from;
	(void)count;
	(void)type;
	(void)peer;
	(void)comm;
	(void)stream;
	return ncclSystemError;
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer,
		      ncclComm_t comm, cudaStream_t stream)
{
	(void)to;
	(void)count;
	(void)type;
	(void)peer;
	(void)comm;
	(void)stream;
	return ncclSystemError;
}

ncclResult_t ncclGroupStart(void)
{
	return ncclSystemError;
}

ncclResult_t ncclGroupEnd(void)
{
	return ncclSystemError;
}
