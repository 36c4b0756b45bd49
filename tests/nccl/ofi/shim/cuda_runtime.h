/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA functions that the functional tests of aws-ofi-nccl call, with host
 * memory. */
#ifndef MPIB_NCCL_OFI_CUDA_RUNTIME_H
#define MPIB_NCCL_OFI_CUDA_RUNTIME_H

#include <stdlib.h>
#include <string.h>

typedef int cudaError_t;

enum {
	cudaSuccess = 0,
	cudaErrorMemoryAllocation = 2,
	cudaHostAllocMapped = 2,
	cudaMemcpyDeviceToHost = 2,
	cudaStreamDefault = 0,
};

static inline const char *cudaGetErrorString(cudaError_t error)
{
	return error ? "out of memory" : "no error";
}

#ifdef __cplusplus
template <class T> cudaError_t cudaMalloc(T **memory, size_t size)
{
	*memory = static_cast<T *>(malloc(size ? size : 1));
	return *memory ? cudaSuccess : cudaErrorMemoryAllocation;
}

template <class T> cudaError_t cudaHostAlloc(T **memory, size_t size, unsigned)
{
	return cudaMalloc(memory, size);
}
#endif

static inline cudaError_t cudaFree(void *memory)
{
	free(memory);
	return cudaSuccess;
}

static inline cudaError_t cudaFreeHost(void *memory)
{
	return cudaFree(memory);
}

static inline cudaError_t cudaMemset(void *memory, int value, size_t size)
{
	memset(memory, value, size);
	return cudaSuccess;
}

static inline cudaError_t cudaMemcpy(void *to, const void *from, size_t size,
				     int kind)
{
	(void)kind;
	memcpy(to, from, size);
	return cudaSuccess;
}

static inline cudaError_t cudaStreamSynchronize(int stream)
{
	(void)stream;
	return cudaSuccess;
}

static inline cudaError_t cudaSetDevice(int device)
{
	(void)device;
	return cudaSuccess;
}

#endif
