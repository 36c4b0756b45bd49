// SPDX-License-Identifier: Apache-2.0
// Graphs. A stream is never captured, and requests for a graph are refused.
#include "standin.hpp"

#include <cstdio>

namespace
{

cudaError_t refuse(const char *function)
{
	fprintf(stderr, "stand-in: %s(): graphs are not supported\n", function);
	return standin::fail(cudaErrorNotSupported);
}

} // namespace

STANDIN_API cudaError_t
cudaStreamIsCapturing(cudaStream_t, enum cudaStreamCaptureStatus *status)
{
	*status = cudaStreamCaptureStatusNone;
	return cudaSuccess;
}

STANDIN_API cudaError_t
cudaStreamGetCaptureInfo(cudaStream_t, enum cudaStreamCaptureStatus *status,
			 unsigned long long *id)
{
	*status = cudaStreamCaptureStatusNone;
	if (id)
		*id = 0;
	return cudaSuccess;
}

STANDIN_API cudaError_t
cudaStreamGetCaptureInfo_v2(cudaStream_t, enum cudaStreamCaptureStatus *status,
			    unsigned long long *id, cudaGraph_t *graph,
			    const cudaGraphNode_t **nodes, size_t *count)
{
	*status = cudaStreamCaptureStatusNone;
	if (id)
		*id = 0;
	if (graph)
		*graph = nullptr;
	if (nodes)
		*nodes = nullptr;
	if (count)
		*count = 0;
	return cudaSuccess;
}

STANDIN_API cudaError_t
cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	static thread_local enum cudaStreamCaptureMode current =
		cudaStreamCaptureModeGlobal;

	std::swap(*mode, current);
	return cudaSuccess;
}

STANDIN_API cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t,
							    cudaGraphNode_t *,
							    size_t,
							    unsigned int)
{
	return refuse(__func__);
}

STANDIN_API cudaError_t cudaGraphAddDependencies(cudaGraph_t,
						 const cudaGraphNode_t *,
						 const cudaGraphNode_t *,
						 size_t)
{
	return refuse(__func__);
}

STANDIN_API cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *,
						    cudaGraph_t,
						    const cudaGraphNode_t *,
						    size_t, cudaEvent_t)
{
	return refuse(__func__);
}

STANDIN_API cudaError_t cudaGraphRetainUserObject(cudaGraph_t, cudaUserObject_t,
						  unsigned int, unsigned int)
{
	return refuse(__func__);
}

STANDIN_API cudaError_t cudaUserObjectCreate(cudaUserObject_t *, void *,
					     cudaHostFn_t, unsigned int,
					     unsigned int)
{
	return refuse(__func__);
}
