/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this folder uses of the CUDA runtime and of NCCL. With the toolkit at
 * hand (GPU_TOOLKIT) its own headers say it; without, the declarations below,
 * which are just these functions, so that the program is compiled and linked
 * everywhere. Then absent.c answers that there is no GPU.
 *
 * Numbers and signatures are those of CUDA 13.0 and NCCL 2.28.
 */
#ifndef GPU_TOOLKIT_H
#define GPU_TOOLKIT_H

#ifdef GPU_TOOLKIT

#include <cuda_runtime_api.h>
#include <nccl.h>

#else

#include <stddef.h>

typedef enum cudaError {
	cudaSuccess = 0,
	cudaErrorNoDevice = 100,
	cudaErrorNotReady = 600,
} cudaError_t;

enum cudaMemcpyKind {
	cudaMemcpyHostToDevice = 1,
	cudaMemcpyDeviceToHost = 2,
};

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;

const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaMalloc(void **device, size_t size);
cudaError_t cudaFree(void *device);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size,
			    enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *device, int byte, size_t size,
			    cudaStream_t stream);
cudaError_t cudaStreamCreate(cudaStream_t *stream);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);

typedef enum {
	ncclSuccess = 0,
	ncclSystemError = 2,
	ncclInProgress = 7,
} ncclResult_t;

typedef enum {
	ncclUint32 = 3,
	ncclFloat32 = 7
} ncclDataType_t;
typedef enum {
	ncclSum = 0
} ncclRedOp_t;
typedef struct ncclComm *ncclComm_t;
typedef struct {
	char internal[128];
} ncclUniqueId;

const char *ncclGetErrorString(ncclResult_t result);
const char *ncclGetLastError(ncclComm_t comm);
ncclResult_t ncclGetVersion(int *version);
ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id,
			      int rank);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error);
ncclResult_t ncclAllReduce(const void *from, void *to, size_t count,
			   ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
			   cudaStream_t stream);
ncclResult_t ncclAllGather(const void *from, void *to, size_t count,
			   ncclDataType_t type, ncclComm_t comm,
			   cudaStream_t stream);
ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type,
		      int peer, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer,
		      ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

#endif

#endif
