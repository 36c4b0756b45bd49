/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the CUDA runtime API that NCCL's sources and the ranks of these
 * tests call, with the values that NVIDIA documents.
 */
#ifndef STANDIN_CUDA_RUNTIME_API_H
#define STANDIN_CUDA_RUNTIME_API_H

#include <stddef.h>
#include <stdint.h>

#include "types.h"

#ifdef __cplusplus
extern "C" {
#define STANDIN_DEFAULT(value) = value
#else
#define STANDIN_DEFAULT(value)
#endif

cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char *cudaGetErrorString(cudaError_t error);
const char *cudaGetErrorName(cudaError_t error);

/* Devices, device.cc */
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr,
				   int device);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device);
cudaError_t cudaDeviceGetPCIBusId(char *id, int size, int device);
cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id);
cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value);
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaGetDriverEntryPoint(
	const char *symbol, void **function, unsigned long long flags,
	enum cudaDriverEntryPointQueryResult *result STANDIN_DEFAULT(NULL));

/* Memory: memory.cc and ipc.cc */
cudaError_t cudaMalloc(void **device, size_t size);
cudaError_t cudaMallocManaged(void **device, size_t size, unsigned int flags);
cudaError_t cudaFree(void *device);
cudaError_t cudaHostAlloc(void **host, size_t size, unsigned int flags);
cudaError_t cudaFreeHost(void *host);
cudaError_t cudaHostRegister(void *host, size_t size, unsigned int flags);
cudaError_t cudaHostUnregister(void *host);
cudaError_t cudaHostGetDevicePointer(void **device, void *host,
				     unsigned int flags);
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attr,
				     const void *pointer);
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *device);
cudaError_t cudaIpcOpenMemHandle(void **device, cudaIpcMemHandle_t handle,
				 unsigned int flags);
cudaError_t cudaIpcCloseMemHandle(void *device);

/* Copies, and the memory pools of streams: copy.cc */
cudaError_t cudaMemcpy(void *to, const void *from, size_t size,
		       enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size,
			    enum cudaMemcpyKind kind,
			    cudaStream_t stream STANDIN_DEFAULT(0));
cudaError_t cudaMemset(void *device, int byte, size_t size);
cudaError_t cudaMemsetAsync(void *device, int byte, size_t size,
			    cudaStream_t stream STANDIN_DEFAULT(0));
cudaError_t cudaMallocAsync(void **device, size_t size, cudaStream_t stream);
cudaError_t cudaMallocFromPoolAsync(void **device, size_t size,
				    cudaMemPool_t pool, cudaStream_t stream);
cudaError_t cudaFreeAsync(void *device, cudaStream_t stream);
cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool,
			      const struct cudaMemPoolProps *props);
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool,
				    enum cudaMemPoolAttr attr, void *value);

/* Streams and events: stream.cc and event.cc */
cudaError_t cudaStreamCreate(cudaStream_t *stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
				unsigned int flags STANDIN_DEFAULT(0));
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function,
			       void *arg);
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event,
			    cudaStream_t stream STANDIN_DEFAULT(0));
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end);

/* Graphs: graph.cc. These queries report that no stream is captured. All calls
 * that would make or use a graph are refused. */
cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
				  enum cudaStreamCaptureStatus *status);
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream,
				     enum cudaStreamCaptureStatus *status,
				     unsigned long long *id);
cudaError_t
cudaStreamGetCaptureInfo_v2(cudaStream_t stream,
			    enum cudaStreamCaptureStatus *status,
			    unsigned long long *id STANDIN_DEFAULT(NULL),
			    cudaGraph_t *graph STANDIN_DEFAULT(NULL),
			    const cudaGraphNode_t **nodes STANDIN_DEFAULT(NULL),
			    size_t *count STANDIN_DEFAULT(NULL));
cudaError_t
cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode);
cudaError_t
cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *nodes,
				    size_t count,
				    unsigned int flags STANDIN_DEFAULT(0));
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph,
				     const cudaGraphNode_t *from,
				     const cudaGraphNode_t *to, size_t count);
cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *node,
					cudaGraph_t graph,
					const cudaGraphNode_t *nodes,
					size_t count, cudaEvent_t event);
cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph,
				      cudaUserObject_t object,
				      unsigned int count STANDIN_DEFAULT(1),
				      unsigned int flags STANDIN_DEFAULT(0));
cudaError_t cudaUserObjectCreate(cudaUserObject_t *object, void *arg,
				 cudaHostFn_t destroy, unsigned int count,
				 unsigned int flags);

/* Kernels, launch.cc */
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr,
				  const void *function);
cudaError_t cudaFuncSetAttribute(const void *function,
				 enum cudaFuncAttribute attr, int value);
cudaError_t cudaGetFuncBySymbol(cudaFunction_t *function, const void *symbol);

#ifdef __cplusplus
}

/* Accept typed pointers like nvcc's headers, since NCCL passes them. */
template <class T> static inline cudaError_t cudaMalloc(T **device, size_t size)
{
	return cudaMalloc((void **)(void *)device, size);
}

template <class T>
static inline cudaError_t cudaHostAlloc(T **host, size_t size,
					unsigned int flags)
{
	return cudaHostAlloc((void **)(void *)host, size, flags);
}

template <class T>
static inline cudaError_t cudaMallocAsync(T **device, size_t size,
					  cudaMemPool_t pool,
					  cudaStream_t stream)
{
	return cudaMallocFromPoolAsync((void **)(void *)device, size, pool,
				       stream);
}

static inline cudaError_t cudaEventCreate(cudaEvent_t *event,
					  unsigned int flags)
{
	return cudaEventCreateWithFlags(event, flags);
}

template <class T>
static inline cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr,
						T *function)
{
	return cudaFuncGetAttributes(attr, (const void *)function);
}

template <class T>
static inline cudaError_t
cudaFuncSetAttribute(T *function, enum cudaFuncAttribute attr, int value)
{
	return cudaFuncSetAttribute((const void *)function, attr, value);
}
#endif

#endif
